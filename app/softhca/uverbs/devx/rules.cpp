// SPDX-License-Identifier: BSD-3-Clause
// Source: Linux, drivers/infiniband/hw/mlx5/devx.c.
#include "app/softhca/uverbs/devx/rules.hpp"

#include <algorithm>
#include <array>

namespace softhca::uverbs::devx {
namespace {

using prm::Field;
using prm::Fields;

// Where most commands and answers have the number of their object.
constexpr Field kNumber{0x48, 24}, kWideNumber{0x40, 32}, kByteNumber{0x58, 8};
constexpr Field kOpMod{0x30, 16}, kObjectType{0x30, 16};
// Of flow commands: from other_vport to table_type, or to the table's number.
constexpr size_t kFlowFrom = 8, kToTableType = 20, kToTable = 24;

constexpr ObjectRule plain(uint16_t create, uint16_t destroy, Field id = kNumber) {
    return {.create = create, .by_input = false, .id = id, .destroy = destroy, .destroy_id = id};
}

constexpr std::array kObjects{
    ObjectRule{MLX5_CMD_OP_CREATE_GENERAL_OBJECT, false, kWideNumber,
               MLX5_CMD_OP_DESTROY_GENERAL_OBJECT, kWideNumber, 16, 6, 8},
    plain(MLX5_CMD_OP_CREATE_MKEY, MLX5_CMD_OP_DESTROY_MKEY),
    plain(MLX5_CMD_OP_CREATE_CQ, MLX5_CMD_OP_DESTROY_CQ),
    plain(MLX5_CMD_OP_ALLOC_PD, MLX5_CMD_OP_DEALLOC_PD),
    plain(MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN, MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN),
    plain(MLX5_CMD_OP_CREATE_RMP, MLX5_CMD_OP_DESTROY_RMP),
    plain(MLX5_CMD_OP_CREATE_SQ, MLX5_CMD_OP_DESTROY_SQ),
    plain(MLX5_CMD_OP_CREATE_RQ, MLX5_CMD_OP_DESTROY_RQ),
    plain(MLX5_CMD_OP_CREATE_RQT, MLX5_CMD_OP_DESTROY_RQT),
    plain(MLX5_CMD_OP_CREATE_TIR, MLX5_CMD_OP_DESTROY_TIR),
    plain(MLX5_CMD_OP_CREATE_TIS, MLX5_CMD_OP_DESTROY_TIS),
    plain(MLX5_CMD_OP_ALLOC_Q_COUNTER, MLX5_CMD_OP_DEALLOC_Q_COUNTER, kByteNumber),
    ObjectRule{MLX5_CMD_OP_CREATE_FLOW_TABLE, false, PRM(create_flow_table_out, table_id),
               MLX5_CMD_OP_DESTROY_FLOW_TABLE, PRM(destroy_flow_table_in, table_id),
               PRM_BYTES(destroy_flow_table_in), kFlowFrom, kToTableType},
    ObjectRule{MLX5_CMD_OP_CREATE_FLOW_GROUP, false, PRM(create_flow_group_out, group_id),
               MLX5_CMD_OP_DESTROY_FLOW_GROUP, PRM(destroy_flow_group_in, group_id),
               PRM_BYTES(destroy_flow_group_in), kFlowFrom, kToTable},
    ObjectRule{MLX5_CMD_OP_SET_FLOW_TABLE_ENTRY, true, PRM(set_fte_in, flow_index),
               MLX5_CMD_OP_DELETE_FLOW_TABLE_ENTRY, PRM(delete_fte_in, flow_index),
               PRM_BYTES(delete_fte_in), kFlowFrom, kToTable},
    plain(MLX5_CMD_OP_ALLOC_FLOW_COUNTER, MLX5_CMD_OP_DEALLOC_FLOW_COUNTER, kWideNumber),
    plain(MLX5_CMD_OP_ALLOC_PACKET_REFORMAT_CONTEXT, MLX5_CMD_OP_DEALLOC_PACKET_REFORMAT_CONTEXT,
          kWideNumber),
    plain(MLX5_CMD_OP_ALLOC_MODIFY_HEADER_CONTEXT, MLX5_CMD_OP_DEALLOC_MODIFY_HEADER_CONTEXT,
          kWideNumber),
    ObjectRule{MLX5_CMD_OP_ADD_VXLAN_UDP_DPORT, true, PRM(add_vxlan_udp_dport_in, vxlan_udp_port),
               MLX5_CMD_OP_DELETE_VXLAN_UDP_DPORT, PRM(delete_vxlan_udp_dport_in, vxlan_udp_port)},
    plain(MLX5_CMD_OP_CREATE_QP, MLX5_CMD_OP_DESTROY_QP),
    plain(MLX5_CMD_OP_CREATE_SRQ, MLX5_CMD_OP_DESTROY_SRQ),
    plain(MLX5_CMD_OP_CREATE_XRC_SRQ, MLX5_CMD_OP_DESTROY_XRC_SRQ),
    plain(MLX5_CMD_OP_CREATE_DCT, MLX5_CMD_OP_DESTROY_DCT),
    plain(MLX5_CMD_OP_CREATE_XRQ, MLX5_CMD_OP_DESTROY_XRQ),
    plain(MLX5_CMD_OP_ALLOC_XRCD, MLX5_CMD_OP_DEALLOC_XRCD),
    // The device has none of these; its firmware refuses them.
    plain(MLX5_CMD_OP_CREATE_SCHEDULING_ELEMENT, MLX5_CMD_OP_DESTROY_SCHEDULING_ELEMENT),
    plain(MLX5_CMD_OP_SET_L2_TABLE_ENTRY, MLX5_CMD_OP_DELETE_L2_TABLE_ENTRY),
    plain(MLX5_CMD_OP_ATTACH_TO_MCG, MLX5_CMD_OP_DETACH_FROM_MCG),
    plain(MLX5_CMD_OP_CREATE_PSV, MLX5_CMD_OP_DESTROY_PSV),
};

/// A command about an existing object: what created it, and where its number is.
struct Access {
    uint16_t opcode;
    bool modifies;
    uint16_t create;
    Field id = kNumber;
};

constexpr std::array kAccesses{
    Access{MLX5_CMD_OP_MODIFY_GENERAL_OBJECT, true, MLX5_CMD_OP_CREATE_GENERAL_OBJECT, kWideNumber},
    Access{MLX5_CMD_OP_QUERY_GENERAL_OBJECT, false, MLX5_CMD_OP_CREATE_GENERAL_OBJECT, kWideNumber},
    Access{MLX5_CMD_OP_QUERY_MKEY, false, MLX5_CMD_OP_CREATE_MKEY},
    Access{MLX5_CMD_OP_QUERY_CQ, false, MLX5_CMD_OP_CREATE_CQ},
    Access{MLX5_CMD_OP_MODIFY_CQ, true, MLX5_CMD_OP_CREATE_CQ},
    Access{MLX5_CMD_OP_QUERY_SQ, false, MLX5_CMD_OP_CREATE_SQ},
    Access{MLX5_CMD_OP_MODIFY_SQ, true, MLX5_CMD_OP_CREATE_SQ},
    Access{MLX5_CMD_OP_QUERY_RQ, false, MLX5_CMD_OP_CREATE_RQ},
    Access{MLX5_CMD_OP_MODIFY_RQ, true, MLX5_CMD_OP_CREATE_RQ},
    Access{MLX5_CMD_OP_ARM_RQ, true, MLX5_CMD_OP_CREATE_RQ},
    Access{MLX5_CMD_OP_QUERY_RMP, false, MLX5_CMD_OP_CREATE_RMP},
    Access{MLX5_CMD_OP_MODIFY_RMP, true, MLX5_CMD_OP_CREATE_RMP},
    Access{MLX5_CMD_OP_QUERY_RQT, false, MLX5_CMD_OP_CREATE_RQT},
    Access{MLX5_CMD_OP_MODIFY_RQT, true, MLX5_CMD_OP_CREATE_RQT},
    Access{MLX5_CMD_OP_QUERY_TIR, false, MLX5_CMD_OP_CREATE_TIR},
    Access{MLX5_CMD_OP_MODIFY_TIR, true, MLX5_CMD_OP_CREATE_TIR},
    Access{MLX5_CMD_OP_QUERY_TIS, false, MLX5_CMD_OP_CREATE_TIS},
    Access{MLX5_CMD_OP_MODIFY_TIS, true, MLX5_CMD_OP_CREATE_TIS},
    Access{MLX5_CMD_OP_QUERY_FLOW_TABLE, false, MLX5_CMD_OP_CREATE_FLOW_TABLE,
           PRM(query_flow_table_in, table_id)},
    Access{MLX5_CMD_OP_MODIFY_FLOW_TABLE, true, MLX5_CMD_OP_CREATE_FLOW_TABLE,
           PRM(modify_flow_table_in, table_id)},
    Access{MLX5_CMD_OP_QUERY_FLOW_GROUP, false, MLX5_CMD_OP_CREATE_FLOW_GROUP,
           PRM(query_flow_group_in, group_id)},
    Access{MLX5_CMD_OP_QUERY_FLOW_TABLE_ENTRY, false, MLX5_CMD_OP_SET_FLOW_TABLE_ENTRY,
           PRM(query_fte_in, flow_index)},
    Access{MLX5_CMD_OP_SET_FLOW_TABLE_ENTRY, true, MLX5_CMD_OP_SET_FLOW_TABLE_ENTRY,
           PRM(set_fte_in, flow_index)},
    Access{MLX5_CMD_OP_QUERY_Q_COUNTER, false, MLX5_CMD_OP_ALLOC_Q_COUNTER,
           PRM(query_q_counter_in, counter_set_id)},
    Access{MLX5_CMD_OP_QUERY_FLOW_COUNTER, false, MLX5_CMD_OP_ALLOC_FLOW_COUNTER,
           PRM(query_flow_counter_in, flow_counter_id)},
    Access{MLX5_CMD_OP_QUERY_PACKET_REFORMAT_CONTEXT, false,
           MLX5_CMD_OP_ALLOC_PACKET_REFORMAT_CONTEXT, kWideNumber},
    Access{MLX5_CMD_OP_QUERY_MODIFY_HEADER_CONTEXT, false, MLX5_CMD_OP_ALLOC_MODIFY_HEADER_CONTEXT,
           kWideNumber},
    Access{MLX5_CMD_OP_ADD_VXLAN_UDP_DPORT, true, MLX5_CMD_OP_ADD_VXLAN_UDP_DPORT,
           PRM(add_vxlan_udp_dport_in, vxlan_udp_port)},
    Access{MLX5_CMD_OP_QUERY_QP, false, MLX5_CMD_OP_CREATE_QP},
    Access{MLX5_CMD_OP_RST2INIT_QP, true, MLX5_CMD_OP_CREATE_QP},
    Access{MLX5_CMD_OP_INIT2INIT_QP, true, MLX5_CMD_OP_CREATE_QP},
    Access{MLX5_CMD_OP_INIT2RTR_QP, true, MLX5_CMD_OP_CREATE_QP},
    Access{MLX5_CMD_OP_RTR2RTS_QP, true, MLX5_CMD_OP_CREATE_QP},
    Access{MLX5_CMD_OP_RTS2RTS_QP, true, MLX5_CMD_OP_CREATE_QP},
    Access{MLX5_CMD_OP_SQERR2RTS_QP, true, MLX5_CMD_OP_CREATE_QP},
    Access{MLX5_CMD_OP_2ERR_QP, true, MLX5_CMD_OP_CREATE_QP},
    Access{MLX5_CMD_OP_2RST_QP, true, MLX5_CMD_OP_CREATE_QP},
    Access{MLX5_CMD_OP_QUERY_SRQ, false, MLX5_CMD_OP_CREATE_SRQ},
    Access{MLX5_CMD_OP_QUERY_XRC_SRQ, false, MLX5_CMD_OP_CREATE_XRC_SRQ},
    Access{MLX5_CMD_OP_ARM_XRC_SRQ, true, MLX5_CMD_OP_CREATE_XRC_SRQ},
    Access{MLX5_CMD_OP_QUERY_DCT, false, MLX5_CMD_OP_CREATE_DCT},
    Access{MLX5_CMD_OP_QUERY_XRQ, false, MLX5_CMD_OP_CREATE_XRQ},
};

constexpr std::array<uint16_t, 3> kForEveryone = {MLX5_CMD_OP_QUERY_HCA_CAP,
                                                  MLX5_CMD_OP_QUERY_HCA_VPORT_CONTEXT,
                                                  MLX5_CMD_OP_QUERY_ESW_VPORT_CONTEXT};
constexpr std::array<uint16_t, 13> kGeneral = {MLX5_CMD_OP_QUERY_VPORT_STATE,
                                               MLX5_CMD_OP_QUERY_ADAPTER,
                                               MLX5_CMD_OP_QUERY_ISSI,
                                               MLX5_CMD_OP_QUERY_NIC_VPORT_CONTEXT,
                                               MLX5_CMD_OP_QUERY_ROCE_ADDRESS,
                                               MLX5_CMD_OP_QUERY_VNIC_ENV,
                                               MLX5_CMD_OP_QUERY_VPORT_COUNTER,
                                               MLX5_CMD_OP_GET_DROPPED_PACKET_LOG,
                                               MLX5_CMD_OP_NOP,
                                               MLX5_CMD_OP_QUERY_CONG_STATUS,
                                               MLX5_CMD_OP_QUERY_CONG_PARAMS,
                                               MLX5_CMD_OP_QUERY_CONG_STATISTICS,
                                               MLX5_CMD_OP_QUERY_LAG};

/// SET_FLOW_TABLE_ENTRY creates an entry, or changes it.
bool sets_entry(std::span<const uint8_t> command, bool anew) {
    return get(command, kOpMod) == (anew ? 0u : 1u);
}

const Access* access_of(std::span<const uint8_t> command) {
    const auto found = std::ranges::find(kAccesses, opcode_of(command), &Access::opcode);
    return found == kAccesses.end() ? nullptr : found;
}

} // namespace

uint64_t get(std::span<const uint8_t> bytes, Field field) {
    // Fields only reads here.
    return Fields(const_cast<uint8_t*>(bytes.data()), bytes.size()).get(field);
}
void set(std::span<uint8_t> bytes, Field field, uint64_t value) {
    Fields(bytes.data(), bytes.size()).set(field, value);
}

uint16_t opcode_of(std::span<const uint8_t> command) {
    return static_cast<uint16_t>(get(command, {0, 16}));
}

const ObjectRule* create_rule(std::span<const uint8_t> command) {
    const uint16_t opcode = opcode_of(command);
    if (opcode == MLX5_CMD_OP_SET_FLOW_TABLE_ENTRY && !sets_entry(command, true)) return nullptr;
    if (opcode == MLX5_CMD_OP_CREATE_PSV && get(command, PRM(create_psv_in, num_psv)) != 1)
        return nullptr;
    const auto found = std::ranges::find(kObjects, opcode, &ObjectRule::create);
    return found == kObjects.end() ? nullptr : found;
}

bool is_modify(std::span<const uint8_t> command) {
    const Access* const access = access_of(command);
    if (!access || !access->modifies) return false;
    return access->opcode != MLX5_CMD_OP_SET_FLOW_TABLE_ENTRY || sets_entry(command, false);
}

bool is_query(std::span<const uint8_t> command) {
    const Access* const access = access_of(command);
    return access && !access->modifies;
}

bool is_for_everyone(std::span<const uint8_t> command) {
    return contains(kForEveryone, opcode_of(command));
}

bool is_general(std::span<const uint8_t> command) {
    const uint16_t opcode = opcode_of(command);
    return is_for_everyone(command) || contains(kGeneral, opcode) ||
           (opcode >= MLX5_CMD_OP_GENERAL_START && opcode < MLX5_CMD_OP_GENERAL_END);
}

uint32_t maker_of(std::span<const uint8_t> create_command) {
    const uint16_t opcode = opcode_of(create_command);
    const bool general = opcode == MLX5_CMD_OP_CREATE_GENERAL_OBJECT;
    return opcode | (general ? static_cast<uint32_t>(get(create_command, kObjectType)) << 16 : 0);
}

uint64_t object_of(std::span<const uint8_t> command) {
    const Access* const access = access_of(command);
    if (!access) return 0;
    uint32_t maker = access->create;
    if (maker == MLX5_CMD_OP_CREATE_GENERAL_OBJECT)
        maker |= static_cast<uint32_t>(get(command, kObjectType)) << 16;
    return object_id(maker, static_cast<uint32_t>(get(command, access->id)));
}

std::vector<uint8_t> destroy_command(const ObjectRule& rule, std::span<const uint8_t> command,
                                     uint32_t number) {
    std::vector<uint8_t> out(rule.destroy_bytes);
    const size_t to = std::min(rule.copied_to, command.size());
    if (rule.copied_from < to)
        std::copy(command.begin() + static_cast<ptrdiff_t>(rule.copied_from),
                  command.begin() + static_cast<ptrdiff_t>(to),
                  out.begin() + static_cast<ptrdiff_t>(rule.copied_from));
    set(out, {0, 16}, rule.destroy);
    set(out, rule.destroy_id, number);
    return out;
}

/// A key made of other keys refers to no memory itself.
static bool is_indirect_key(std::span<const uint8_t> create_mkey) {
    constexpr size_t kContext = PRM(create_mkey_in, memory_key_mkey_entry).offset;
    constexpr Field kLow = PRM(mkc, access_mode_1_0), kHigh = PRM(mkc, access_mode_4_2);
    const uint64_t mode = get(create_mkey, {kContext + kLow.offset, kLow.width}) |
                          get(create_mkey, {kContext + kHigh.offset, kHigh.width}) << 2;
    return mode == MLX5_MKC_ACCESS_MODE_KLMS || mode == MLX5_MKC_ACCESS_MODE_KSM;
}

void force_umems(std::span<uint8_t> command) {
    const auto say = [&](std::initializer_list<Field> fields, size_t context = 0) {
        for (const Field field : fields)
            set(command, {context + field.offset, field.width}, 1);
    };
    const auto wq = [](Field context, Field wq_in_it) { return context.offset + wq_in_it.offset; };
    const std::initializer_list<Field> wq_fields = {PRM(wq, dbr_umem_valid),
                                                    PRM(wq, wq_umem_valid)};
    switch (opcode_of(command)) {
    case MLX5_CMD_OP_CREATE_MKEY:
        if (!is_indirect_key(command)) say({PRM(create_mkey_in, mkey_umem_valid)});
        break;
    case MLX5_CMD_OP_CREATE_CQ:
        say({PRM(create_cq_in, cq_umem_valid)});
        say({PRM(cqc, dbr_umem_valid)}, PRM(create_cq_in, cq_context).offset);
        break;
    case MLX5_CMD_OP_MODIFY_CQ: say({PRM(modify_cq_in, cq_umem_valid)}); break;
    case MLX5_CMD_OP_CREATE_QP:
        say({PRM(create_qp_in, wq_umem_valid)});
        say({PRM(qpc, dbr_umem_valid)}, PRM(create_qp_in, qpc).offset);
        break;
    case MLX5_CMD_OP_CREATE_RQ: say(wq_fields, wq(PRM(create_rq_in, ctx), PRM(rqc, wq))); break;
    case MLX5_CMD_OP_CREATE_SQ: say(wq_fields, wq(PRM(create_sq_in, ctx), PRM(sqc, wq))); break;
    case MLX5_CMD_OP_CREATE_RMP: say(wq_fields, wq(PRM(create_rmp_in, ctx), PRM(rmpc, wq))); break;
    case MLX5_CMD_OP_CREATE_XRC_SRQ:
        say({PRM(create_xrc_srq_in, xrc_srq_umem_valid)});
        say({PRM(xrc_srqc, dbr_umem_valid)}, PRM(create_xrc_srq_in, xrc_srq_context_entry).offset);
        break;
    default: break;
    }
}

} // namespace softhca::uverbs::devx
