// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/prm/command_chains.hpp"

#include "app/softhca/core/icm.hpp"
#include "tests/unit/prm/flow_requests.hpp"
#include "tests/unit/prm/header_requests.hpp"
#include "tests/unit/prm/object_requests.hpp"
#include "tests/unit/prm/users.hpp"

#include <array>

namespace prm_test {
namespace {

constexpr uint64_t kReset = 0, kReady = 1; // states of an SQ or RQ

/// A user with umem, PD and CQ.
struct User : UserRequests {
    explicit User(Conversation& talk) : UserRequests(talk.transport()) {
        umem = talk.make(umem_request(true));
        pd = talk.make(REQUEST(ALLOC_PD, alloc_pd));
        cq = talk.make(cq_request(umem));
    }
    Number cq;
};

Number make_domain(Conversation& talk) {
    return talk.make(REQUEST(ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain));
}
Number make_tis(Conversation& talk, Number domain) {
    constexpr Field kContext = PRM(create_tis_in, ctx);
    return talk.make(
        REQUEST(CREATE_TIS, create_tis).set(inside(kContext, PRM(tisc, transport_domain)), domain));
}

// ---------------------------------------------------------------- settings

void query_device(Conversation& talk) {
    constexpr uint16_t kCurrent = 1;
    for (const Request& request :
         {REQUEST(QUERY_ISSI, query_issi),
          REQUEST(SET_ISSI, set_issi).set(PRM(set_issi_in, current_issi), 1),
          REQUEST(QUERY_HCA_CAP, query_hca_cap, kCurrent),
          Request(MLX5_CMD_OP_SET_HCA_CAP, 20), // the first word
          REQUEST(SET_DRIVER_VERSION, set_driver_version), REQUEST(QUERY_ADAPTER, query_adapter),
          REQUEST(QUERY_SPECIAL_CONTEXTS, query_special_contexts)})
        talk.ask(request);
}

void query_port(Conversation& talk) {
    constexpr uint16_t kQuery = 1, kPaos = 0x5006, kMtutc = 0x9055;
    constexpr uint16_t kAccessRegisterUser = 0xb0c; // mlx5_prm.h of DPDK
    constexpr size_t kHead = 16;
    for (const Request& request :
         {REQUEST(QUERY_VPORT_STATE, query_vport_state),
          REQUEST(MODIFY_VPORT_STATE, modify_vport_state),
          REQUEST(QUERY_NIC_VPORT_CONTEXT, query_nic_vport_context),
          REQUEST(MODIFY_NIC_VPORT_CONTEXT, modify_nic_vport_context),
          REQUEST(QUERY_VPORT_COUNTER, query_vport_counter),
          REQUEST(QUERY_HCA_VPORT_CONTEXT, query_hca_vport_context),
          REQUEST(QUERY_HCA_VPORT_PKEY, query_hca_vport_pkey),
          REQUEST(QUERY_HCA_VPORT_GID, query_hca_vport_gid),
          REQUEST(ADD_VXLAN_UDP_DPORT, add_vxlan_udp_dport)
              .set(PRM(add_vxlan_udp_dport_in, vxlan_udp_port), 8472),
          REQUEST(DELETE_VXLAN_UDP_DPORT, delete_vxlan_udp_dport)
              .set(PRM(delete_vxlan_udp_dport_in, vxlan_udp_port), 8472),
          Request(MLX5_CMD_OP_ACCESS_REG, kHead + PRM_BYTES(paos_reg), kQuery)
              .set(PRM(access_register_in, register_id), kPaos),
          Request(kAccessRegisterUser, kHead + PRM_BYTES(mtutc_reg), kQuery)
              .set(PRM(access_register_in, register_id), kMtutc),
          REQUEST(SET_DELAY_DROP_PARAMS, set_delay_drop_params)
              .set(PRM(set_delay_drop_params_in, delay_drop_timeout), 10)})
        talk.ask(request);
}

void use_counters(Conversation& talk) {
    const uint64_t counter = talk.ask(REQUEST(ALLOC_Q_COUNTER, alloc_q_counter))
                                 .get(PRM(alloc_q_counter_out, counter_set_id));
    talk.ask(REQUEST(QUERY_Q_COUNTER, query_q_counter)
                 .set(PRM(query_q_counter_in, counter_set_id), counter));
    talk.ask(REQUEST(DEALLOC_Q_COUNTER, dealloc_q_counter)
                 .set(PRM(dealloc_q_counter_in, counter_set_id), counter));
}

void use_rates(Conversation& talk) {
    constexpr Field kRow = PRM(set_pp_rate_limit_in, rate_limit_index);
    constexpr Field kRate =
        inside(PRM(set_pp_rate_limit_in, ctx), PRM(set_pp_rate_limit_context, rate_limit));
    talk.ask(REQUEST(SET_PP_RATE_LIMIT, set_pp_rate_limit).set(kRow, 1).set(kRate, 5000));
    talk.ask(Request(MLX5_CMD_OP_QUERY_RATE_LIMIT, PRM_BYTES(set_pp_rate_limit_in)).set(kRow, 1));
}

/// Of device, port and users; ends with what ends a driver.
void run_settings(Conversation& talk) {
    query_device(talk);
    query_port(talk);
    use_counters(talk);
    use_rates(talk);
    const uint64_t uid = talk.ask(REQUEST(CREATE_UCTX, create_uctx)).get(PRM(create_uctx_out, uid));
    talk.ask(REQUEST(DESTROY_UCTX, destroy_uctx).set(PRM(destroy_uctx_in, uid), uid));
    talk.ask(REQUEST(TEARDOWN_HCA, teardown_hca));
    talk.ask(REQUEST(DISABLE_HCA, disable_hca));
}

// ---------------------------------------------------------------- queues

void use_sq(Conversation& talk, User& user) {
    const Number sq = talk.make(user.sq_request(user.cq));
    talk.ask(REQUEST(MODIFY_SQ, modify_sq)
                 .number(sq)
                 .set(PRM(modify_sq_in, sq_state), kReset)
                 .set(inside(PRM(modify_sq_in, ctx), PRM(sqc, state)), kReady));
    talk.ask(REQUEST(QUERY_SQ, query_sq).number(sq));
    talk.ask(REQUEST(DESTROY_SQ, destroy_sq).number(sq));
}

void use_rq(Conversation& talk, User& user) {
    const Number rq = talk.make(user.rq_request(user.cq));
    talk.ask(REQUEST(MODIFY_RQ, modify_rq)
                 .number(rq)
                 .set(PRM(modify_rq_in, rq_state), kReset)
                 .set(inside(PRM(modify_rq_in, ctx), PRM(rqc, state)), kReady));
    talk.ask(REQUEST(QUERY_RQ, query_rq).number(rq));
    talk.ask(REQUEST(DESTROY_RQ, destroy_rq).number(rq));
}

void use_tis(Conversation& talk) {
    const Number domain = make_domain(talk), tis = make_tis(talk, domain);
    talk.ask(REQUEST(MODIFY_TIS, modify_tis).number(tis));
    talk.ask(REQUEST(QUERY_TIS, query_tis).number(tis));
    talk.ask(REQUEST(DESTROY_TIS, destroy_tis).number(tis));
    talk.ask(REQUEST(DEALLOC_TRANSPORT_DOMAIN, dealloc_transport_domain).number(domain));
}

void use_shared_rqs(Conversation& talk, Number pd) {
    constexpr Field kRmp = PRM(create_rmp_in, ctx);
    constexpr Field kSrq = PRM(create_xrc_srq_in, xrc_srq_context_entry);
    const Number rmp = talk.make(
        REQUEST(CREATE_RMP, create_rmp).set(inside(inside(kRmp, PRM(rmpc, wq)), PRM(wq, pd)), pd));
    talk.ask(REQUEST(MODIFY_RMP, modify_rmp).number(rmp));
    talk.ask(REQUEST(QUERY_RMP, query_rmp).number(rmp));
    talk.ask(REQUEST(DESTROY_RMP, destroy_rmp).number(rmp));
    const Number domain = talk.make(REQUEST(ALLOC_XRCD, alloc_xrcd));
    const Number srq = talk.make(REQUEST(CREATE_XRC_SRQ, create_xrc_srq)
                                     .set(inside(kSrq, PRM(xrc_srqc, pd)), pd)
                                     .set(inside(kSrq, PRM(xrc_srqc, xrcd)), domain));
    talk.ask(REQUEST(QUERY_XRC_SRQ, query_xrc_srq).number(srq));
    talk.ask(REQUEST(DESTROY_XRC_SRQ, destroy_xrc_srq).number(srq));
    talk.ask(REQUEST(DEALLOC_XRCD, dealloc_xrcd).number(domain));
}

void run_queues(Conversation& talk) {
    User user(talk);
    talk.ask(REQUEST(MODIFY_CQ, modify_cq).number(user.cq));
    talk.ask(REQUEST(QUERY_CQ, query_cq).number(user.cq));
    use_sq(talk, user);
    use_rq(talk, user);
    use_tis(talk);
    use_shared_rqs(talk, user.pd);
    const Number key = talk.make(user.mkey_request(1));
    talk.ask(REQUEST(QUERY_MKEY, query_mkey).number(key));
    talk.ask(REQUEST(DESTROY_MKEY, destroy_mkey).number(key));
    talk.ask(REQUEST(DESTROY_CQ, destroy_cq).number(user.cq));
    talk.ask(REQUEST(DEALLOC_PD, dealloc_pd).number(user.pd));
    talk.ask(REQUEST(DESTROY_UMEM, destroy_umem).number(user.umem));
}

void run_qps(Conversation& talk) {
    User user(talk);
    const Number qp = talk.make(user.rc_qp_request(user.cq));
    for (Request request :
         {REQUEST(RST2INIT_QP, rst2init_qp), REQUEST(INIT2INIT_QP, init2init_qp),
          UserRequests::init2rtr_request(qp, qp), REQUEST(RTR2RTS_QP, rtr2rts_qp),
          REQUEST(RTS2RTS_QP, rts2rts_qp), REQUEST(QUERY_QP, query_qp), REQUEST(2ERR_QP, qp_2err),
          REQUEST(2RST_QP, qp_2rst), REQUEST(DESTROY_QP, destroy_qp)})
        talk.ask(request.number(qp));
}

// ---------------------------------------------------------------- steering

/// An indirection table whose only queue is this one.
Request list(Request request, Field context, Number rq) {
    request.in.resize((context.offset + PRM(rqtc, rq_num[0]).offset) / 8 + sizeof(uint32_t));
    net::store_be<uint32_t>(&request.in[request.in.size() - sizeof(uint32_t)], rq);
    return request.set(inside(context, PRM(rqtc, rqt_max_size)), 1)
        .set(inside(context, PRM(rqtc, rqt_actual_size)), 1);
}

void run_rss(Conversation& talk) {
    constexpr Field kTir = PRM(create_tir_in, ctx);
    constexpr uint64_t kIndirect = 1;
    User user(talk);
    const Number rq = talk.make(user.rq_request(user.cq));
    const Number rqt =
        talk.make(list(REQUEST(CREATE_RQT, create_rqt), PRM(create_rqt_in, rqt_context), rq));
    talk.ask(list(REQUEST(MODIFY_RQT, modify_rqt), PRM(modify_rqt_in, ctx), rq).number(rqt));
    talk.ask(REQUEST(QUERY_RQT, query_rqt).number(rqt));
    const Number tir = talk.make(REQUEST(CREATE_TIR, create_tir)
                                     .set(inside(kTir, PRM(tirc, disp_type)), kIndirect)
                                     .set(inside(kTir, PRM(tirc, indirect_table)), rqt));
    talk.ask(REQUEST(MODIFY_TIR, modify_tir).number(tir));
    talk.ask(REQUEST(QUERY_TIR, query_tir).number(tir));
    talk.ask(REQUEST(DESTROY_TIR, destroy_tir).number(tir));
    talk.ask(REQUEST(DESTROY_RQT, destroy_rqt).number(rqt));
}

void use_changes(Conversation& talk) {
    const uint64_t edits = talk.ask(edits_request().page(set_ttl(1)))
                               .get(PRM(alloc_modify_header_context_out, modify_header_id));
    talk.ask(REQUEST(DEALLOC_MODIFY_HEADER_CONTEXT, dealloc_modify_header_context)
                 .set(PRM(dealloc_modify_header_context_in, modify_header_id), edits));
    Request header = reformat_request();
    header.in.resize(header.in.size() + 48);
    const uint64_t reformat =
        talk.ask(header).get(PRM(alloc_packet_reformat_context_out, packet_reformat_id));
    talk.ask(REQUEST(DEALLOC_PACKET_REFORMAT_CONTEXT, dealloc_packet_reformat_context)
                 .set(PRM(dealloc_packet_reformat_context_in, packet_reformat_id), reformat));
}

void use_entries(Conversation& talk, Number table, Number next) {
    const Number group = talk.make(group_request(table));
    const Number counter = talk.ask(REQUEST(ALLOC_FLOW_COUNTER, alloc_flow_counter))
                               .get(PRM(alloc_flow_counter_out, flow_counter_id));
    talk.ask(entry_request(table, group, next, counter));
    talk.ask(REQUEST(QUERY_FLOW_TABLE_ENTRY, query_fte).set(PRM(query_fte_in, table_id), table));
    talk.ask(REQUEST(QUERY_FLOW_COUNTER, query_flow_counter)
                 .set(PRM(query_flow_counter_in, flow_counter_id), counter));
    talk.ask(REQUEST(QUERY_FLOW_GROUP, query_flow_group)
                 .set(PRM(query_flow_group_in, table_id), table)
                 .set(PRM(query_flow_group_in, group_id), group));
    talk.ask(REQUEST(DELETE_FLOW_TABLE_ENTRY, delete_fte).set(PRM(delete_fte_in, table_id), table));
    talk.ask(REQUEST(DEALLOC_FLOW_COUNTER, dealloc_flow_counter)
                 .set(PRM(dealloc_flow_counter_in, flow_counter_id), counter));
    talk.ask(REQUEST(DESTROY_FLOW_GROUP, destroy_flow_group)
                 .set(PRM(destroy_flow_group_in, table_id), table)
                 .set(PRM(destroy_flow_group_in, group_id), group));
}

void run_flows(Conversation& talk) {
    constexpr uint16_t kResetRoot = 1;
    const Number table = talk.make(table_request(1)), next = talk.make(table_request(2));
    talk.ask(REQUEST(MODIFY_FLOW_TABLE, modify_flow_table)
                 .set(PRM(modify_flow_table_in, modify_field_select),
                      MLX5_MODIFY_FLOW_TABLE_MISS_TABLE_ID)
                 .set(PRM(modify_flow_table_in, table_id), table));
    talk.ask(
        REQUEST(QUERY_FLOW_TABLE, query_flow_table).set(PRM(query_flow_table_in, table_id), table));
    talk.ask(REQUEST(SET_FLOW_TABLE_ROOT, set_flow_table_root)
                 .set(PRM(set_flow_table_root_in, table_id), table));
    talk.ask(REQUEST(SYNC_STEERING, sync_steering));
    use_entries(talk, table, next);
    use_changes(talk);
    talk.ask(REQUEST(SET_FLOW_TABLE_ROOT, set_flow_table_root, kResetRoot));
    talk.ask(REQUEST(DESTROY_FLOW_TABLE, destroy_flow_table)
                 .set(PRM(destroy_flow_table_in, table_id), table));
}

// ---------------------------------------------------------------- general objects

void use_object(Conversation& talk, const Request& create) {
    const uint16_t type = net::load_be<uint16_t>(&create.in[6]);
    const uint32_t number = talk.ask(create).get(PRM(general_obj_out_cmd_hdr, obj_id));
    if (type == kVirtqType) talk.ask(virtq_change(number, MLX5_VIRTIO_NET_Q_OBJECT_STATE_RDY));
    for (const uint16_t opcode :
         {MLX5_CMD_OP_QUERY_GENERAL_OBJECT, MLX5_CMD_OP_DESTROY_GENERAL_OBJECT})
        talk.ask(about_object(opcode, number, type));
}

void run_objects(Conversation& talk) {
    User user(talk);
    const Number tis = make_tis(talk, make_domain(talk)), table = talk.make(table_request(3));
    for (const Request& create :
         {virtq_request(user.umem, user.pd, tis),
          Request(MLX5_CMD_OP_CREATE_GENERAL_OBJECT, 16, kVirtqCountersType),
          sampler_request(table, 2), meters_request(1, user.pd), arguments_request(1, user.pd),
          icm_request(core::kIcmRanges.front().first, core::kLogIcmBlock)})
        use_object(talk, create);
    // The other format's entries have nothing to match by definers.
    if (talk.transport().device().config().steering_format != 0)
        use_object(talk, definer_request(22));
}

constexpr std::array kChains{
    CommandChain{"settings", run_settings}, CommandChain{"queues", run_queues},
    CommandChain{"qps", run_qps},           CommandChain{"rss", run_rss},
    CommandChain{"flows", run_flows},       CommandChain{"objects", run_objects}};

} // namespace

std::span<const CommandChain> command_chains() { return kChains; }

void run_guest_chain(Conversation& talk) {
    constexpr uint16_t kAtInit = 2, kGive = 1, kReturn = 2;
    constexpr Field kCount = PRM(manage_pages_in, input_num_entries);
    const uint64_t memory = talk.transport().memory;
    talk.ask(REQUEST(QUERY_PAGES, query_pages, kAtInit));
    talk.ask(REQUEST(MANAGE_PAGES, manage_pages, kGive).set(kCount, 1).page(memory));
    talk.ask(REQUEST(MANAGE_PAGES, manage_pages, kReturn).set(kCount, 1));
    const Number uar = talk.make(REQUEST(ALLOC_UAR, alloc_uar));
    constexpr Field kContext = PRM(create_eq_in, eq_context_entry);
    const Number eq = talk.make(REQUEST(CREATE_EQ, create_eq)
                                    .set(inside(kContext, PRM(eqc, log_eq_size)), 6)
                                    .set(inside(kContext, PRM(eqc, uar_page)), uar)
                                    .page(memory));
    talk.ask(REQUEST(QUERY_EQ, query_eq).number(eq));
    talk.ask(REQUEST(DESTROY_EQ, destroy_eq).number(eq));
    talk.ask(REQUEST(DEALLOC_UAR, dealloc_uar).number(uar));
}

void start_process(Conversation& talk) {
    talk.ask(REQUEST(ENABLE_HCA, enable_hca));
    talk.ask(REQUEST(INIT_HCA, init_hca));
    talk.ask(REQUEST(ALLOC_PD, alloc_pd));
    make_domain(talk);
}

} // namespace prm_test
