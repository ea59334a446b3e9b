// SPDX-License-Identifier: BSD-3-Clause
// Indirection tables and TIRs.
#include "app/softhca/core/ste/entry.hpp"
#include "app/softhca/prm/command_tools.hpp"
#include "app/softhca/prm/queues.hpp"

#include <algorithm>

namespace softhca::prm {
namespace {

// ---------------------------------------------------------------- RQT

std::vector<core::Number> read_rqt(const Command& command, const Fields& context,
                                   size_t context_at) {
    const auto entries = context.get(PRM(rqtc, rqt_actual_size));
    const size_t first = context_at + PRM(rqtc, rq_num[0]).offset / 8;
    std::vector<core::Number> rqns;
    for (uint64_t i = 0; i < entries && first + 4 * i + 4 <= command.in.size(); i++)
        rqns.push_back(net::load_be<uint32_t>(command.in.data() + first + 4 * i) & 0xffffff);
    if (rqns.size() != entries) rqns.clear();
    return rqns;
}

std::vector<uint8_t> rqt_context(const Fields& context, const std::vector<core::Number>& rqns) {
    return context.copy(PRM(rqtc, rq_num[0]).offset / 8 + 4 * rqns.size());
}

/// The entries that a table has room for, which only its creation says.
constexpr Field kRqtRoom = PRM(rqtc, rqt_max_size);

/// False: it contains queues that receive no packets.
bool rqt_uses(Firmware& firmware, const Fields& context, const std::vector<core::Number>& rqns,
              std::vector<Ref>& uses) {
    const bool of_virtqs =
        context.get(PRM(rqtc, list_q_type)) == MLX5_RQTC_LIST_Q_TYPE_VIRTIO_NET_Q;
    uses.reserve(rqns.size());
    for (const core::Number rqn : rqns)
        uses.push_back({of_virtqs ? Kind::virtq : Kind::rq, rqn});
    return std::ranges::all_of(uses, [&](const Ref& ref) {
        const Object* const virtq =
            of_virtqs ? firmware.objects.find(ref.kind, ref.number) : nullptr;
        return !virtq || virtq->detail != kVirtqSends;
    });
}

FwStatus create_rqt(Firmware& firmware, Command& command) {
    const Field at = PRM(create_rqt_in, rqt_context);
    const Fields context = command.input().at(at);
    const auto rqns = read_rqt(command, context, at.offset / 8);
    std::vector<Ref> uses;
    if (rqns.empty() || rqns.size() > context.get(kRqtRoom) ||
        !rqt_uses(firmware, context, rqns, uses))
        return FwStatus::bad_parameter;
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;
    const auto rqt = firmware.device.create_rqt(rqns);
    if (!rqt) return to_firmware(rqt.error());
    return add_object(firmware, command, Kind::rqt, *rqt,
                      {.context = rqt_context(context, rqns), .uses = std::move(uses)});
}

FwStatus modify_rqt(Firmware& firmware, Command& command) {
    const Field at = PRM(modify_rqt_in, ctx);
    const Fields context = command.input().at(at);
    Object* const rqt = firmware.objects.find(Kind::rqt, object_number(command));
    if (!rqt) return FwStatus::bad_resource;
    const uint64_t room = Fields(rqt->context.data(), rqt->context.size()).get(kRqtRoom);
    const auto rqns = read_rqt(command, context, at.offset / 8);
    std::vector<Ref> uses;
    if (rqns.empty() || rqns.size() > room || !rqt_uses(firmware, context, rqns, uses))
        return FwStatus::bad_parameter;
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;
    const auto modified = firmware.device.modify_rqt(object_number(command), rqns);
    if (!modified) return to_firmware(modified.error());
    rqt->context = rqt_context(context, rqns);
    Fields(rqt->context.data(), rqt->context.size()).set(kRqtRoom, room);
    firmware.objects.set_uses(*rqt, std::move(uses));
    return FwStatus::ok;
}

FwStatus query_rqt(Firmware& firmware, Command& command) {
    return answer_context(command, firmware.objects.find(Kind::rqt, object_number(command)),
                          PRM(query_rqt_out, rqt_context));
}

FwStatus destroy_rqt(Firmware& firmware, Command& command) {
    return destroy_object(firmware, Kind::rqt, object_number(command),
                          [&](core::Number rqt) { return firmware.device.destroy_rqt(rqt); });
}

// ---------------------------------------------------------------- TIR

constexpr uint8_t kDirect = 0, kIndirect = 1;
constexpr uint8_t kInvertedXor8 = 1, kToeplitz = 2; // MLX5_RX_HASH_FN_*

constexpr uint64_t kSrcIp = 1, kDstIp = 2, kSrcPort = 4, kDstPort = 8, kSpi = 0x10;
constexpr uint8_t kTcp = 6, kUdp = 17;

core::HashFields read_hash_fields(const Fields& select) {
    const uint64_t selected = select.get(PRM(rx_hash_field_select, selected_fields));
    core::HashFields fields;
    fields.src_ip = selected & kSrcIp;
    fields.dst_ip = selected & kDstIp;
    fields.src_port = selected & kSrcPort;
    fields.dst_port = selected & kDstPort;
    fields.spi = selected & kSpi;
    // Without addresses the type says nothing: ports and SPI of either version are hashed.
    if (fields.src_ip || fields.dst_ip)
        fields.ip_version = select.get(PRM(rx_hash_field_select, l3_prot_type)) ? 6 : 4;
    if (fields.src_port || fields.dst_port)
        fields.l4 = select.get(PRM(rx_hash_field_select, l4_prot_type)) ? kUdp : kTcp;
    return fields;
}

/// The reverse of read_hash_fields().
void write_hash_fields(const core::HashFields& fields, Fields select) {
    const auto selected = [](bool is, uint64_t bit) { return is ? bit : 0; };
    select.set(PRM(rx_hash_field_select, selected_fields),
               selected(fields.src_ip, kSrcIp) | selected(fields.dst_ip, kDstIp) |
                   selected(fields.src_port, kSrcPort) | selected(fields.dst_port, kDstPort) |
                   selected(fields.spi, kSpi));
    select.set(PRM(rx_hash_field_select, l3_prot_type), fields.ip_version == 6);
    select.set(PRM(rx_hash_field_select, l4_prot_type), fields.l4 == kUdp);
}

/// The longest supported period that is not longer than requested.
uint64_t lro_period_us(uint64_t wanted) {
    uint64_t period = core::Limits::kLroPeriodsUs[0];
    for (const uint16_t supported : core::Limits::kLroPeriodsUs)
        if (supported <= wanted) period = supported;
    return period;
}

/// False when packets are to be merged in an unsupported way.
bool read_lro(const Fields& context, core::LroAttr& lro) {
    constexpr uint64_t kIpv4 = MLX5_TIRC_PACKET_MERGE_MASK_IPV4_LRO,
                       kIpv6 = MLX5_TIRC_PACKET_MERGE_MASK_IPV6_LRO;
    constexpr uint32_t kUnit = 256;
    const uint64_t merged = context.get(PRM(tirc, packet_merge_mask));
    lro = {.ipv4 = (merged & kIpv4) != 0,
           .ipv6 = (merged & kIpv6) != 0,
           .timeout_ns = 1000 * lro_period_us(context.get(PRM(tirc, lro_timeout_period_usecs))),
           .max_bytes =
               kUnit * static_cast<uint32_t>(context.get(PRM(tirc, lro_max_ip_payload_size)))};
    return (merged & ~(kIpv4 | kIpv6)) == 0;
}

/// False when the context requests something unsupported.
bool read_tir(const Fields& context, core::TirAttr& attr, std::vector<Ref>& uses) {
    const auto type = context.get(PRM(tirc, disp_type));
    if (type == kDirect) {
        attr.rqn = static_cast<core::Number>(context.get(PRM(tirc, inline_rqn)));
        uses.push_back({Kind::rq, attr.rqn});
    } else if (type == kIndirect) {
        attr.rqt = static_cast<core::Number>(context.get(PRM(tirc, indirect_table)));
        uses.push_back({Kind::rqt, attr.rqt});
    } else {
        return false;
    }
    attr.transport_domain = static_cast<core::Number>(context.get(PRM(tirc, transport_domain)));
    // Domain 0 is the firmware's own; net_mlx5 makes its drop TIR there.
    if (attr.transport_domain != 0) uses.push_back({Kind::transport_domain, attr.transport_domain});
    // Linux calls the bits BLOCK_*, and sets them for TIRs that are to receive their own domain's
    // packets (mlx5_ib's TIR_ALLOW_SELF_LB, mlx5e's loopback test); MODIFY_TIR calls the field
    // self_lb_en.
    const uint64_t self = context.get(PRM(tirc, self_lb_block));
    attr.self_loopback = {.unicast = (self & MLX5_TIRC_SELF_LB_BLOCK_BLOCK_UNICAST) != 0,
                          .multicast = (self & MLX5_TIRC_SELF_LB_BLOCK_BLOCK_MULTICAST) != 0};
    attr.fields = read_hash_fields(context.at(PRM(tirc, rx_hash_field_selector_outer)));
    if (const auto inner = read_hash_fields(context.at(PRM(tirc, rx_hash_field_selector_inner)));
        inner.any()) {
        attr.fields = inner;
        attr.hash_inner = true;
    }
    attr.tunnels = context.get(PRM(tirc, tunneled_offload_en)) != 0;
    attr.symmetric = context.get(PRM(tirc, rx_hash_symmetric)) != 0;
    if (attr.hash_inner && !attr.tunnels) return false;
    if (!read_lro(context, attr.lro)) return false;
    const Fields key = context.at(PRM(tirc, rx_hash_toeplitz_key[0]));
    const auto bytes = key.copy(attr.toeplitz_key.size());
    std::copy(bytes.begin(), bytes.end(), attr.toeplitz_key.begin());
    const auto function = context.get(PRM(tirc, rx_hash_fn));
    attr.xor8 = function == kInvertedXor8;
    return !attr.fields.any() || attr.xor8 || function == kToeplitz;
}

FwStatus create_tir(Firmware& firmware, Command& command) {
    const Fields context = command.input().at(PRM(create_tir_in, ctx));
    core::TirAttr attr;
    std::vector<Ref> uses;
    if (!read_tir(context, attr, uses)) return FwStatus::bad_parameter;
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;
    const auto tirn = firmware.device.create_tir(attr);
    if (!tirn) return to_firmware(tirn.error());
    const FwStatus status =
        add_object(firmware, command, Kind::tir, *tirn,
                   {.context = context.copy(PRM_BYTES(tirc)), .uses = std::move(uses)});
    const uint64_t address = core::ste::address_of(core::ste::Place::tir, *tirn);
    Fields out = command.output(); // the address surrounds the number
    out.set(PRM(create_tir_out, icm_address_31_0), address);
    out.set(PRM(create_tir_out, icm_address_39_32), address >> 32);
    return status;
}

/// In the mask, where the kernel's header has reserved bits. Source: mlx5_prm.h of DPDK
/// (MLX5_MODIFY_TIR_IN_MODIFY_BITMASK_INDIRECT_TABLE).
constexpr Field kOtherTable{0x3e, 1};

/// The bits of the mask say which part of the new context replaces the old one.
FwStatus modify_tir(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    const Fields mask = in.at(PRM(modify_tir_in, bitmask));
    const Fields given = in.at(PRM(modify_tir_in, ctx));
    Object* const tir = firmware.objects.find(Kind::tir, object_number(command));
    if (!tir) return FwStatus::bad_resource;
    auto bytes = tir->context;
    Fields context(bytes.data(), bytes.size());
    const auto take = [&](Field field) { context.set(field, given.get(field)); };
    if (mask.get(kOtherTable)) {
        if (context.get(PRM(tirc, disp_type)) != kIndirect) return FwStatus::bad_parameter;
        take(PRM(tirc, indirect_table));
    }
    if (mask.get(PRM(modify_tir_bitmask, hash))) {
        take(PRM(tirc, rx_hash_fn));
        take(PRM(tirc, rx_hash_symmetric));
        context.at(PRM(tirc, rx_hash_toeplitz_key[0]))
            .write(given.at(PRM(tirc, rx_hash_toeplitz_key[0])).copy(40));
        take(PRM(tirc, rx_hash_field_selector_outer));
        take(PRM(tirc, rx_hash_field_selector_inner));
    }
    if (mask.get(PRM(modify_tir_bitmask, self_lb_en))) take(PRM(tirc, self_lb_block));
    if (mask.get(PRM(modify_tir_bitmask, packet_merge)))
        for (const Field field : {PRM(tirc, lro_timeout_period_usecs), PRM(tirc, packet_merge_mask),
                                  PRM(tirc, lro_max_ip_payload_size)})
            take(field);
    core::TirAttr attr;
    std::vector<Ref> uses;
    if (!read_tir(context, attr, uses)) return FwStatus::bad_parameter;
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;
    const auto modified = firmware.device.modify_tir(object_number(command), attr);
    if (!modified) return to_firmware(modified.error());
    tir->context = std::move(bytes);
    // One of a verbs QP uses nothing that is counted here, or the QP's own queue would be busy.
    if (!tir->uses.empty()) firmware.objects.set_uses(*tir, std::move(uses));
    return FwStatus::ok;
}

FwStatus query_tir(Firmware& firmware, Command& command) {
    return answer_context(command, firmware.objects.find(Kind::tir, object_number(command)),
                          PRM(query_tir_out, tir_context));
}

FwStatus destroy_tir(Firmware& firmware, Command& command) {
    return destroy_object(firmware, Kind::tir, object_number(command),
                          [&](core::Number tirn) { return firmware.device.destroy_tir(tirn); });
}

} // namespace

std::vector<uint8_t> tir_context(const core::TirAttr& attr) {
    std::vector<uint8_t> bytes(PRM_BYTES(tirc));
    Fields context(bytes.data(), bytes.size());
    context.set(PRM(tirc, disp_type), attr.rqt ? kIndirect : kDirect);
    context.set(PRM(tirc, inline_rqn), attr.rqn);
    context.set(PRM(tirc, indirect_table), attr.rqt);
    context.set(PRM(tirc, transport_domain), attr.transport_domain);
    const auto bit = [](bool is, uint64_t value) { return is ? value : 0; };
    context.set(PRM(tirc, self_lb_block),
                bit(attr.self_loopback.unicast, MLX5_TIRC_SELF_LB_BLOCK_BLOCK_UNICAST) |
                    bit(attr.self_loopback.multicast, MLX5_TIRC_SELF_LB_BLOCK_BLOCK_MULTICAST));
    context.set(PRM(tirc, tunneled_offload_en), attr.tunnels);
    context.set(PRM(tirc, rx_hash_symmetric), attr.symmetric);
    if (!attr.fields.any()) return bytes;
    context.set(PRM(tirc, rx_hash_fn), attr.xor8 ? kInvertedXor8 : kToeplitz);
    write_hash_fields(attr.fields,
                      context.at(attr.hash_inner ? PRM(tirc, rx_hash_field_selector_inner)
                                                 : PRM(tirc, rx_hash_field_selector_outer)));
    context.at(PRM(tirc, rx_hash_toeplitz_key[0]))
        .write({attr.toeplitz_key.begin(), attr.toeplitz_key.end()});
    return bytes;
}

std::vector<uint8_t> rqt_context(const std::vector<core::Number>& rqns) {
    const size_t first = PRM(rqtc, rq_num[0]).offset / 8;
    std::vector<uint8_t> bytes(first + sizeof(uint32_t) * rqns.size());
    Fields context(bytes.data(), bytes.size());
    for (const Field size : {kRqtRoom, PRM(rqtc, rqt_actual_size)})
        context.set(size, rqns.size());
    for (size_t i = 0; i < rqns.size(); i++)
        net::store_be<uint32_t>(bytes.data() + first + sizeof(uint32_t) * i, rqns[i]);
    return bytes;
}

void add_rss_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(CREATE_RQT, create_rqt, create_rqt),
        PRM_COMMAND(MODIFY_RQT, modify_rqt, modify_rqt),
        PRM_COMMAND(QUERY_RQT, query_rqt, query_rqt),
        PRM_COMMAND(DESTROY_RQT, destroy_rqt, destroy_rqt),
        PRM_COMMAND(CREATE_TIR, create_tir, create_tir),
        PRM_COMMAND(MODIFY_TIR, modify_tir, modify_tir),
        PRM_COMMAND(QUERY_TIR, query_tir, query_tir),
        PRM_COMMAND(DESTROY_TIR, destroy_tir, destroy_tir),
    });
}

} // namespace softhca::prm
