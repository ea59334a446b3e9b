// SPDX-License-Identifier: BSD-3-Clause
// Send and receive queues, shared receive queues (RMP, XRC SRQ: numbers only) and TIS.
#include "app/softhca/core/rings/mlx5/doorbells.hpp"
#include "app/softhca/prm/command_tools.hpp"
#include "app/softhca/prm/queues.hpp"
#include "app/softhca/prm/ring_memory.hpp"

namespace softhca::prm {
namespace {

constexpr uint8_t kStateReset = 0, kStateReady = 1, kStateError = 3;
constexpr uint64_t kModifyPacing = 1; // MLX5_MODIFY_SQ_*: bit 0 of modify_bitmask

std::optional<core::QueueState> queue_state(uint64_t prm) {
    switch (prm) {
    case kStateReset: return core::QueueState::reset;
    case kStateReady: return core::QueueState::ready;
    case kStateError: return core::QueueState::error;
    default: return {};
    }
}

uint8_t prm_state(core::QueueState state) {
    return state == core::QueueState::reset   ? kStateReset
           : state == core::QueueState::ready ? kStateReady
                                              : kStateError;
}

/// The ring of 2^log_bytes bytes and the doorbell record given by a work queue context. Adds the
/// umems, if it uses any, to `uses`; they must exist.
template <class Attr>
FwStatus read_wq(Firmware& firmware, const Command& command, const Fields& wq, size_t wq_at,
                 uint8_t log_bytes, std::vector<Ref>& uses, Attr& attr) {
    const UmemPlace in_umem{.valid = wq.get(PRM(wq, wq_umem_valid)) != 0,
                            .id = static_cast<core::Number>(wq.get(kWqUmem)),
                            .offset = wq.get(kWqUmemOffset)};
    const UmemPlace record{.valid = wq.get(PRM(wq, dbr_umem_valid)) != 0,
                           .id = static_cast<core::Number>(wq.get(kWqRecordUmem)),
                           .offset = wq.get(PRM(wq, dbr_addr))};
    add_use(uses, in_umem);
    add_use(uses, record);
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;
    auto ring = ring_area(firmware, command, in_umem,
                          {.at = wq_at + PRM(wq, pas[0]).offset / 8,
                           .log_page = static_cast<uint8_t>(wq.get(PRM(wq, log_wq_pg_sz))),
                           .page_offset = wq.get(PRM(wq, page_offset))},
                          uint64_t{1} << log_bytes, false);
    // Drivers register these read-only. Where the zero of a reset cannot be written, it is not
    // missed.
    auto* const doorbell = doorbell_record<mlx5::QueueDoorbell>(firmware, record, false);
    if constexpr (std::is_same_v<Attr, core::SqAttr>)
        attr.doorbell = core::mlx5_rings::send_doorbell(doorbell);
    else
        attr.doorbell = core::mlx5_rings::receive_doorbell(doorbell);
    if (!ring || !attr.doorbell) return FwStatus::bad_parameter;
    attr.ring = std::move(*ring);
    attr.listener = firmware.listener();
    return FwStatus::ok;
}

// ---------------------------------------------------------------- SQ

// What the kernel's header has as reserved bits. Source: mlx5_prm.h of DPDK.
constexpr Field kNonWire{PRM(sqc, hairpin).offset + 1, 1}; // non_wire
constexpr Field kStatic{PRM(sqc, hairpin).offset + 2, 1};  // static_sq_wq

/// What the queue may do, and what its WQEs may omit.
void read_nature(const Fields& context, const Fields& wq, core::SqAttr& attr) {
    attr.managed = wq.get(PRM(wq, cd_slave)) != 0;
    attr.repeats = context.get(kStatic) != 0;
    attr.off_wire = context.get(kNonWire) != 0;
    attr.any_index = attr.repeats; // its WQEs have many
}

FwStatus create_sq(Firmware& firmware, Command& command) {
    const Fields context = command.input().at(PRM(create_sq_in, ctx));
    const Fields wq = context.at(PRM(sqc, wq));
    const size_t wq_at = (PRM(create_sq_in, ctx).offset + PRM(sqc, wq).offset) / 8;
    constexpr uint8_t kLogWqebb = 6;
    const Object* const user = firmware.objects.look_up(Kind::uctx, command.uid);
    if (user && !(user->detail & kRawTransmit)) return FwStatus::bad_parameter;
    if (context.get(kHairpinSq.hairpin) != 0) return create_hairpin_sq(firmware, command);
    core::SqAttr attr;
    attr.cqn = static_cast<core::Number>(context.get(PRM(sqc, cqn)));
    attr.user_index = static_cast<uint32_t>(context.get(PRM(sqc, user_index)));
    attr.log_wqebbs = static_cast<uint8_t>(wq.get(PRM(wq, log_wq_sz)));
    attr.cookie = kQueueTypeSq;
    if (wq.get(PRM(wq, log_wq_stride)) != kLogWqebb) return FwStatus::bad_parameter;
    attr.pd = firmware.pd_of(wq.get(PRM(wq, pd)));
    read_nature(context, wq, attr);
    std::vector<Ref> uses = {{Kind::pd, attr.pd},
                             {Kind::cq, attr.cqn},
                             {Kind::uar, static_cast<core::Number>(wq.get(PRM(wq, uar_page)))}};
    const auto domain = read_tis(firmware, context, uses);
    if (!domain) return FwStatus::bad_resource;
    attr.transport_domain = *domain;
    if (const FwStatus status =
            read_wq(firmware, command, wq, wq_at, static_cast<uint8_t>(attr.log_wqebbs + kLogWqebb),
                    uses, attr);
        status != FwStatus::ok)
        return status;
    attr.registers = firmware.registers_of(static_cast<core::Number>(wq.get(PRM(wq, uar_page))));
    const auto sqn = firmware.device.create_sq(attr);
    return sqn ? add_sq(firmware, command, *sqn, std::move(uses)) : to_firmware(sqn.error());
}

FwStatus modify_sq(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    const core::Number sqn = object_number(command);
    const Fields context = in.at(PRM(modify_sq_in, ctx));
    const auto current = firmware.device.query_sq(sqn);
    Object* const sq = firmware.objects.find(Kind::sq, sqn);
    if (!current || !sq) return FwStatus::bad_resource;
    const auto from = queue_state(in.get(PRM(modify_sq_in, sq_state)));
    const auto to = queue_state(context.get(PRM(sqc, state)));
    if (!from || !to) return FwStatus::bad_parameter;
    // A queue that failed by itself is in error, which the driver may not have seen yet.
    if (*from != *current && *current != core::QueueState::error)
        return FwStatus::bad_resource_state;
    const StateChange change{*current, *to};
    ReadPeer peer;
    if (const FwStatus status = read_peer(firmware, kHairpinSq, *sq, change, context, peer);
        status != FwStatus::ok)
        return status;
    const bool paces = (in.get(PRM(modify_sq_in, modify_bitmask)) & kModifyPacing) != 0;
    constexpr Field kRate = PRM(sqc, packet_pacing_rate_limit_index);
    const uint64_t rate = paces ? context.get(kRate) : sq->detail;
    if (paces)
        if (const FwStatus paced = pace_sq(firmware, sqn, rate); paced != FwStatus::ok)
            return paced;
    const auto modified = firmware.device.modify_sq(sqn, *to, {peer.number, peer.other.device});
    if (!modified) {
        if (paces) (void)pace_sq(firmware, sqn, sq->detail); // nothing has changed
        return to_firmware(modified.error());
    }
    sq->detail = static_cast<uint32_t>(rate);
    Fields(sq->context.data(), sq->context.size()).set(kRate, rate);
    keep_peer(kHairpinSq, *sq, change, context);
    return FwStatus::ok;
}

FwStatus query_sq(Firmware& firmware, Command& command) {
    const core::Number sqn = object_number(command);
    const auto state = firmware.device.query_sq(sqn);
    if (!state) return FwStatus::bad_resource;
    const FwStatus status = answer_context(command, firmware.objects.find(Kind::sq, sqn),
                                           PRM(query_sq_out, sq_context));
    command.output().at(PRM(query_sq_out, sq_context)).set(PRM(sqc, state), prm_state(*state));
    return status;
}

FwStatus destroy_sq(Firmware& firmware, Command& command) {
    return destroy_object(firmware, Kind::sq, object_number(command),
                          [&](core::Number sqn) { return firmware.device.destroy_sq(sqn); });
}

// ---------------------------------------------------------------- RQ

enum class WqType : uint8_t {
    linked_list = 0,
    cyclic = 1,
    linked_striding = 2,
    cyclic_striding = 3
};

core::StridingAttr read_striding(const Fields& wq) {
    // Counts of strides are biased by 9 and may be negative in their 4 bits; sizes are biased by 6.
    const auto raw = static_cast<int>(wq.get(PRM(wq, log_wqe_num_of_strides)));
    return {.log_strides = static_cast<uint8_t>((raw >= 8 ? raw - 16 : raw) + 9),
            .log_stride_bytes = static_cast<uint8_t>(wq.get(PRM(wq, log_wqe_stride_size)) + 6),
            .two_byte_shift = wq.get(PRM(wq, two_byte_shift_en)) != 0};
}

FwStatus create_rq(Firmware& firmware, Command& command) {
    const Fields context = command.input().at(PRM(create_rq_in, ctx));
    if (context.get(kHairpinRq.hairpin) != 0) return create_hairpin_rq(firmware, command);
    const Fields wq = context.at(PRM(rqc, wq));
    const size_t wq_at = (PRM(create_rq_in, ctx).offset + PRM(rqc, wq).offset) / 8;
    const auto type = static_cast<WqType>(wq.get(PRM(wq, wq_type)));
    const bool striding = type == WqType::cyclic_striding;
    if (context.get(PRM(rqc, mem_rq_type)) != 0 || (type != WqType::cyclic && !striding))
        return FwStatus::bad_parameter;
    // There is no RECV_EN, and signatures of WQEs are not checked.
    if (wq.get(PRM(wq, cd_slave)) != 0 || wq.get(PRM(wq, wq_signature)) != 0)
        return FwStatus::bad_parameter;
    core::RqAttr attr;
    attr.cqn = static_cast<core::Number>(context.get(PRM(rqc, cqn)));
    attr.user_index = static_cast<uint32_t>(context.get(PRM(rqc, user_index)));
    attr.vlan_strip = context.get(PRM(rqc, vsd)) == 0;
    attr.scatter_fcs = context.get(PRM(rqc, scatter_fcs)) != 0;
    attr.delay_drop = context.get(PRM(rqc, delay_drop_en)) != 0;
    attr.log_wqes = static_cast<uint8_t>(wq.get(PRM(wq, log_wq_sz)));
    attr.log_wqe_bytes = static_cast<uint8_t>(wq.get(PRM(wq, log_wq_stride)));
    if (striding) attr.striding = read_striding(wq);
    attr.cookie = kQueueTypeRq;
    attr.pd = firmware.pd_of(wq.get(PRM(wq, pd)));
    std::vector<Ref> uses = {{Kind::cq, attr.cqn}};
    if (attr.pd != firmware.reserved_pd || command.uid != 0) uses.push_back({Kind::pd, attr.pd});
    if (const FwStatus status =
            read_wq(firmware, command, wq, wq_at,
                    static_cast<uint8_t>(attr.log_wqes + attr.log_wqe_bytes), uses, attr);
        status != FwStatus::ok)
        return status;
    const std::optional<core::Number> q_counter = read_q_counter(firmware, context);
    if (!q_counter) return FwStatus::bad_resource;
    const auto rqn = firmware.device.create_rq(attr);
    if (!rqn) return to_firmware(rqn.error());
    (void)firmware.device.bind_q_counter(*rqn, *q_counter);
    return add_object(firmware, command, Kind::rq, *rqn,
                      {.context = context.copy(PRM_BYTES(rqc)), .uses = uses});
}

constexpr uint64_t kVlanStrip = MLX5_MODIFY_RQ_IN_MODIFY_BITMASK_VSD,
                   kScatterFcs = MLX5_MODIFY_RQ_IN_MODIFY_BITMASK_SCATTER_FCS,
                   kCounterSet = MLX5_MODIFY_RQ_IN_MODIFY_BITMASK_RQ_COUNTER_SET_ID;

/// What else than its state may be modified, and where the context has it.
constexpr std::pair<uint64_t, Field> kRqFields[] = {{kVlanStrip, PRM(rqc, vsd)},
                                                    {kScatterFcs, PRM(rqc, scatter_fcs)},
                                                    {kCounterSet, PRM(rqc, counter_set_id)}};

/// Makes the queue do what these fields of the context say.
void apply_fields(Firmware& firmware, core::Number rqn, uint64_t fields, const Fields& context) {
    core::Device& device = firmware.device;
    if (fields & kVlanStrip)
        (void)device.modify_rq_vlan_strip(rqn, context.get(PRM(rqc, vsd)) == 0);
    if (fields & kScatterFcs)
        (void)device.modify_rq_scatter_fcs(rqn, context.get(PRM(rqc, scatter_fcs)) != 0);
    if (fields & kCounterSet)
        (void)device.bind_q_counter(rqn, number(context, PRM(rqc, counter_set_id)));
}

FwStatus modify_rq(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    const Fields context = in.at(PRM(modify_rq_in, ctx));
    const core::Number rqn = object_number(command);
    const auto current = firmware.device.query_rq(rqn);
    Object* const rq = firmware.objects.find(Kind::rq, rqn);
    if (!current || !rq) return FwStatus::bad_resource;
    const auto from = queue_state(in.get(PRM(modify_rq_in, rq_state)));
    const auto to = queue_state(context.get(PRM(rqc, state)));
    if (!from || !to) return FwStatus::bad_parameter;
    if (*from != *current && *current != core::QueueState::error)
        return FwStatus::bad_resource_state;
    Fields kept(rq->context.data(), rq->context.size());
    const uint64_t fields = in.get(PRM(modify_rq_in, modify_bitmask));
    const bool is_hairpin = kept.get(kHairpinRq.hairpin) != 0; // without a place for the FCS
    if (fields & ~(kVlanStrip | kCounterSet | (is_hairpin ? 0 : kScatterFcs)))
        return FwStatus::bad_parameter;
    if (fields & kCounterSet && !read_q_counter(firmware, context)) return FwStatus::bad_resource;
    const StateChange change{*current, *to};
    ReadPeer peer;
    if (const FwStatus status = read_peer(firmware, kHairpinRq, *rq, change, context, peer);
        status != FwStatus::ok)
        return status;
    apply_fields(firmware, rqn, fields, context);
    if (*to != *current) {
        const auto modified = firmware.device.modify_rq(rqn, *to, {peer.number, peer.other.device});
        if (!modified) {
            apply_fields(firmware, rqn, fields, kept); // nothing has changed
            return to_firmware(modified.error());
        }
        keep_peer(kHairpinRq, *rq, change, context);
    }
    for (const auto& [bit, field] : kRqFields)
        if (fields & bit) kept.set(field, context.get(field));
    return FwStatus::ok;
}

FwStatus query_rq(Firmware& firmware, Command& command) {
    const core::Number rqn = object_number(command);
    const auto state = firmware.device.query_rq(rqn);
    if (!state) return FwStatus::bad_resource;
    const FwStatus status = answer_context(command, firmware.objects.find(Kind::rq, rqn),
                                           PRM(query_rq_out, rq_context));
    command.output().at(PRM(query_rq_out, rq_context)).set(PRM(rqc, state), prm_state(*state));
    return status;
}

FwStatus destroy_rq(Firmware& firmware, Command& command) {
    return destroy_object(firmware, Kind::rq, object_number(command),
                          [&](core::Number rqn) { return firmware.device.destroy_rq(rqn); });
}

FwStatus set_delay_drop(Firmware& firmware, Command& command) {
    constexpr uint64_t kUnitNs = 100'000;
    firmware.device.set_delay_drop(
        kUnitNs * command.input().get(PRM(set_delay_drop_params_in, delay_drop_timeout)));
    return FwStatus::ok;
}

// ---------------------------------------------------------------- RMP, XRC SRQ

// The kernel creates these at start, and no packet of an Ethernet port uses them. It keeps both
// kinds in one table, so that no number may be that of one of each.
constexpr core::Number kFirstRmp = 0x1000, kFirstXrcSrq = 0x8000, kLastXrcSrq = 0xffff;

FwStatus add_shared_rq(Firmware& firmware, Command& command, Kind kind,
                       std::vector<uint8_t> context, std::vector<Ref> uses) {
    const core::Number number = kind == Kind::rmp
                                    ? firmware.objects.new_number(kind, kFirstRmp, kFirstXrcSrq - 1)
                                    : firmware.objects.new_number(kind, kFirstXrcSrq, kLastXrcSrq);
    if (number == 0) return FwStatus::exceeded_limit;
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;
    return add_object(firmware, command, kind, number,
                      {.context = std::move(context), .uses = std::move(uses)});
}

FwStatus create_rmp(Firmware& firmware, Command& command) {
    const Fields context = command.input().at(PRM(create_rmp_in, ctx));
    const auto pd = static_cast<core::Number>(context.at(PRM(rmpc, wq)).get(PRM(wq, pd)));
    return add_shared_rq(firmware, command, Kind::rmp, context.copy(PRM_BYTES(rmpc)),
                         {{Kind::pd, pd}});
}

FwStatus modify_rmp(Firmware& firmware, Command& command) {
    return firmware.objects.find(Kind::rmp, object_number(command)) ? FwStatus::ok
                                                                    : FwStatus::bad_resource;
}

FwStatus query_rmp(Firmware& firmware, Command& command) {
    return answer_context(command, firmware.objects.find(Kind::rmp, object_number(command)),
                          PRM(query_rmp_out, rmp_context));
}

FwStatus destroy_rmp(Firmware& firmware, Command& command) {
    return forget_object(firmware, Kind::rmp, object_number(command));
}

FwStatus create_xrc_srq(Firmware& firmware, Command& command) {
    const Fields context = command.input().at(PRM(create_xrc_srq_in, xrc_srq_context_entry));
    return add_shared_rq(
        firmware, command, Kind::xrc_srq, context.copy(PRM_BYTES(xrc_srqc)),
        {{Kind::pd, static_cast<core::Number>(context.get(PRM(xrc_srqc, pd)))},
         {Kind::xrcd, static_cast<core::Number>(context.get(PRM(xrc_srqc, xrcd)))}});
}

FwStatus query_xrc_srq(Firmware& firmware, Command& command) {
    return answer_context(command, firmware.objects.find(Kind::xrc_srq, object_number(command)),
                          PRM(query_xrc_srq_out, xrc_srq_context_entry));
}

FwStatus destroy_xrc_srq(Firmware& firmware, Command& command) {
    return forget_object(firmware, Kind::xrc_srq, object_number(command));
}

// ---------------------------------------------------------------- TIS

FwStatus create_tis(Firmware& firmware, Command& command) {
    const Fields context = command.input().at(PRM(create_tis_in, ctx));
    const core::Number number = firmware.objects.new_number(Kind::tis, 0x40, 0xffff);
    const std::vector<Ref> uses = {{Kind::transport_domain, static_cast<core::Number>(context.get(
                                                                PRM(tisc, transport_domain)))}};
    if (number == 0) return FwStatus::exceeded_limit;
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;
    return add_object(firmware, command, Kind::tis, number,
                      {.context = context.copy(PRM_BYTES(tisc)), .uses = uses});
}

/// What can be modified is stored without effect: there is one port, which sends in order.
FwStatus modify_tis(Firmware& firmware, Command& command) {
    Object* const tis = firmware.objects.find(Kind::tis, object_number(command));
    if (!tis) return FwStatus::bad_resource;
    const Fields mask = command.input().at(PRM(modify_tis_in, bitmask));
    const Fields given = command.input().at(PRM(modify_tis_in, ctx));
    Fields context(tis->context.data(), tis->context.size());
    const auto take = [&](Field bit, Field field) {
        if (mask.get(bit)) context.set(field, given.get(field));
    };
    take(PRM(modify_tis_bitmask, prio), PRM(tisc, prio));
    take(PRM(modify_tis_bitmask, lag_tx_port_affinity), PRM(tisc, lag_tx_port_affinity));
    take(PRM(modify_tis_bitmask, strict_lag_tx_port_affinity),
         PRM(tisc, strict_lag_tx_port_affinity));
    return FwStatus::ok;
}

FwStatus query_tis(Firmware& firmware, Command& command) {
    return answer_context(command, firmware.objects.find(Kind::tis, object_number(command)),
                          PRM(query_tis_out, tis_context));
}

FwStatus destroy_tis(Firmware& firmware, Command& command) {
    return forget_object(firmware, Kind::tis, object_number(command));
}

} // namespace

std::optional<core::Number> read_q_counter(Firmware& firmware, const Fields& context) {
    const core::Number counter = number(context, PRM(rqc, counter_set_id));
    if (counter != 0 && !firmware.objects.find(Kind::q_counter, counter)) return {};
    return counter;
}

std::optional<core::Number> read_tis(Firmware& firmware, const Fields& context,
                                     std::vector<Ref>& uses) {
    if (context.get(PRM(sqc, tis_lst_sz)) == 0) return core::kKernelDomain;
    const Ref ref{Kind::tis, number(context, PRM(sqc, tis_num_0))};
    if (!firmware.objects.exist({ref})) return {};
    uses.push_back(ref);
    Object& tis = *firmware.objects.find(ref.kind, ref.number);
    return number(Fields(tis.context.data(), tis.context.size()), PRM(tisc, transport_domain));
}

FwStatus add_sq(Firmware& firmware, Command& command, core::Number sqn, std::vector<Ref> uses) {
    const Fields context = command.input().at(PRM(create_sq_in, ctx));
    const auto rate = context.get(PRM(sqc, packet_pacing_rate_limit_index));
    if (const FwStatus paced = pace_sq(firmware, sqn, rate); paced != FwStatus::ok) {
        (void)firmware.device.destroy_sq(sqn);
        return paced;
    }
    return add_object(firmware, command, Kind::sq, sqn,
                      {.context = context.copy(PRM_BYTES(sqc)),
                       .uses = std::move(uses),
                       .detail = static_cast<uint32_t>(rate)});
}

void add_queue_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(CREATE_SQ, create_sq, create_sq),
        PRM_COMMAND(MODIFY_SQ, modify_sq, modify_sq),
        PRM_COMMAND(QUERY_SQ, query_sq, query_sq),
        PRM_COMMAND(DESTROY_SQ, destroy_sq, destroy_sq),
        PRM_COMMAND(CREATE_RQ, create_rq, create_rq),
        PRM_COMMAND(MODIFY_RQ, modify_rq, modify_rq),
        PRM_COMMAND(QUERY_RQ, query_rq, query_rq),
        PRM_COMMAND(DESTROY_RQ, destroy_rq, destroy_rq),
        PRM_COMMAND(SET_DELAY_DROP_PARAMS, set_delay_drop_params, set_delay_drop),
        PRM_COMMAND(CREATE_RMP, create_rmp, create_rmp),
        PRM_COMMAND(MODIFY_RMP, modify_rmp, modify_rmp),
        PRM_COMMAND(QUERY_RMP, query_rmp, query_rmp),
        PRM_COMMAND(DESTROY_RMP, destroy_rmp, destroy_rmp),
        PRM_COMMAND(CREATE_XRC_SRQ, create_xrc_srq, create_xrc_srq),
        PRM_COMMAND(QUERY_XRC_SRQ, query_xrc_srq, query_xrc_srq),
        PRM_COMMAND(DESTROY_XRC_SRQ, destroy_xrc_srq, destroy_xrc_srq),
        PRM_COMMAND(CREATE_TIS, create_tis, create_tis),
        PRM_COMMAND(MODIFY_TIS, modify_tis, modify_tis),
        PRM_COMMAND(QUERY_TIS, query_tis, query_tis),
        PRM_COMMAND(DESTROY_TIS, destroy_tis, destroy_tis),
    });
}

} // namespace softhca::prm
