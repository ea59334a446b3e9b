// SPDX-License-Identifier: BSD-3-Clause
// The commands of the classic uverbs ABI, by number.
#include "app/softhca/uverbs/commands.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace softhca::uverbs {
namespace {

/// Shorter requests and answers than these are refused, and longer requests unless they end in
/// zeros.
struct Command {
    uint32_t number;
    const char* name;
    Errno (*run)(Context&, const WriteCommand&);
    size_t request, response; ///< bytes
    size_t known = request;   ///< bytes of the request
};

using Run = Errno (*)(Context&, const WriteCommand&);
constexpr uint32_t kExtended = IB_USER_VERBS_CMD_FLAG_EXTENDED;

/// Extended commands take shorter requests, which end in zeros, and shorter answers.
template <class Request> constexpr Command extended(uint32_t number, const char* name, Run run) {
    return {kExtended | number, name, run, 0, 0, sizeof(Request)};
}
/// Unless the request ends in a list: then what is before that must be there.
constexpr Command with_list(uint32_t number, const char* name, Run run, size_t before) {
    return {kExtended | number, name, run, before, 0, SIZE_MAX};
}

constexpr std::array kCommands{
    Command{IB_USER_VERBS_CMD_GET_CONTEXT, "GET_CONTEXT", get_context_and_events,
            sizeof(ib_uverbs_get_context), sizeof(ib_uverbs_get_context_resp)},
    Command{IB_USER_VERBS_CMD_QUERY_DEVICE, "QUERY_DEVICE", query_device,
            sizeof(ib_uverbs_query_device), sizeof(ib_uverbs_query_device_resp)},
    extended<ib_uverbs_ex_query_device>(IB_USER_VERBS_EX_CMD_QUERY_DEVICE, "EX_QUERY_DEVICE",
                                        query_device_ex),
    Command{IB_USER_VERBS_CMD_QUERY_PORT, "QUERY_PORT", query_port, sizeof(ib_uverbs_query_port),
            sizeof(ib_uverbs_query_port_resp)},
    Command{IB_USER_VERBS_CMD_ALLOC_PD, "ALLOC_PD", alloc_pd, sizeof(ib_uverbs_alloc_pd),
            sizeof(ib_uverbs_alloc_pd_resp)},
    Command{IB_USER_VERBS_CMD_DEALLOC_PD, "DEALLOC_PD", dealloc_pd, sizeof(ib_uverbs_dealloc_pd),
            0},
    Command{IB_USER_VERBS_CMD_REG_MR, "REG_MR", reg_mr, sizeof(ib_uverbs_reg_mr),
            sizeof(ib_uverbs_reg_mr_resp)},
    Command{IB_USER_VERBS_CMD_REREG_MR, "REREG_MR", rereg_mr, sizeof(ib_uverbs_rereg_mr),
            sizeof(ib_uverbs_rereg_mr_resp)},
    Command{IB_USER_VERBS_CMD_DEREG_MR, "DEREG_MR", dereg_mr, sizeof(ib_uverbs_dereg_mr), 0},
    Command{IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, "CREATE_COMP_CHANNEL", create_comp_channel,
            sizeof(ib_uverbs_create_comp_channel), sizeof(ib_uverbs_create_comp_channel_resp)},
    Command{IB_USER_VERBS_CMD_CREATE_CQ, "CREATE_CQ", create_cq, sizeof(ib_uverbs_create_cq),
            sizeof(ib_uverbs_create_cq_resp)},
    extended<ib_uverbs_ex_create_cq>(IB_USER_VERBS_EX_CMD_CREATE_CQ, "EX_CREATE_CQ", create_cq_ex),
    extended<ib_uverbs_ex_modify_cq>(IB_USER_VERBS_EX_CMD_MODIFY_CQ, "EX_MODIFY_CQ", modify_cq),
    Command{IB_USER_VERBS_CMD_RESIZE_CQ, "RESIZE_CQ", resize_cq, sizeof(ib_uverbs_resize_cq),
            sizeof(ib_uverbs_resize_cq_resp)},
    Command{IB_USER_VERBS_CMD_DESTROY_CQ, "DESTROY_CQ", destroy_cq, sizeof(ib_uverbs_destroy_cq),
            sizeof(ib_uverbs_destroy_cq_resp)},
    Command{IB_USER_VERBS_CMD_CREATE_QP, "CREATE_QP", create_qp, sizeof(ib_uverbs_create_qp),
            sizeof(ib_uverbs_create_qp_resp)},
    extended<ib_uverbs_ex_create_qp>(IB_USER_VERBS_EX_CMD_CREATE_QP, "EX_CREATE_QP", create_qp_ex),
    Command{IB_USER_VERBS_CMD_QUERY_QP, "QUERY_QP", query_qp, sizeof(ib_uverbs_query_qp),
            sizeof(ib_uverbs_query_qp_resp)},
    Command{IB_USER_VERBS_CMD_MODIFY_QP, "MODIFY_QP", modify_qp, sizeof(ib_uverbs_modify_qp), 0},
    extended<ib_uverbs_ex_modify_qp>(IB_USER_VERBS_EX_CMD_MODIFY_QP, "EX_MODIFY_QP", modify_qp_ex),
    Command{IB_USER_VERBS_CMD_DESTROY_QP, "DESTROY_QP", destroy_qp, sizeof(ib_uverbs_destroy_qp),
            sizeof(ib_uverbs_destroy_qp_resp)},
    extended<ib_uverbs_ex_create_wq>(IB_USER_VERBS_EX_CMD_CREATE_WQ, "EX_CREATE_WQ", create_wq),
    extended<ib_uverbs_ex_modify_wq>(IB_USER_VERBS_EX_CMD_MODIFY_WQ, "EX_MODIFY_WQ", modify_wq),
    extended<ib_uverbs_ex_destroy_wq>(IB_USER_VERBS_EX_CMD_DESTROY_WQ, "EX_DESTROY_WQ", destroy_wq),
    with_list(IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL, "EX_CREATE_RWQ_IND_TBL", create_rwq_ind_tbl,
              SIZE_UP_TO(ib_uverbs_ex_create_rwq_ind_table, log_ind_tbl_size)),
    extended<ib_uverbs_ex_destroy_rwq_ind_table>(IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL,
                                                 "EX_DESTROY_RWQ_IND_TBL", destroy_rwq_ind_tbl),
    with_list(IB_USER_VERBS_EX_CMD_CREATE_FLOW, "EX_CREATE_FLOW", create_flow,
              SIZE_UP_TO(ib_uverbs_create_flow, flow_attr)),
    extended<ib_uverbs_destroy_flow>(IB_USER_VERBS_EX_CMD_DESTROY_FLOW, "EX_DESTROY_FLOW",
                                     destroy_flow),
};

/// Those whose frames have a part of the driver's.
constexpr std::array<uint32_t, 7> kOfDriver = {
    IB_USER_VERBS_CMD_GET_CONTEXT, IB_USER_VERBS_CMD_ALLOC_PD,  IB_USER_VERBS_CMD_REG_MR,
    IB_USER_VERBS_CMD_REREG_MR,    IB_USER_VERBS_CMD_CREATE_CQ, IB_USER_VERBS_CMD_RESIZE_CQ,
    IB_USER_VERBS_CMD_CREATE_QP};

/// The device has only as many of these as mlx5_ib takes for itself, see kLogMaxSrqs.
constexpr std::array<uint32_t, 3> kUsedUp = {
    IB_USER_VERBS_CMD_OPEN_XRCD, IB_USER_VERBS_CMD_CREATE_SRQ, IB_USER_VERBS_CMD_CREATE_XSRQ};

static_assert(std::all_of(kCommands.begin(), kCommands.end(),
                          [](const Command& command) { return can_fail(command.name); }));

/// Null: there is none of that number.
const Command* find_command(uint64_t number) {
    const auto* const found = std::ranges::find(kCommands, number, &Command::number);
    return found != kCommands.end() ? found : nullptr;
}

} // namespace

std::optional<WriteFrame> write_frame(uint32_t number) {
    const Command* const known = find_command(number);
    if (!known) return {};
    return WriteFrame{known->request, known->response,
                      std::ranges::find(kOfDriver, number) != kOfDriver.end()};
}

Errno run_write_command(Context& context, uint64_t number, const WriteCommand& command) {
    if (const Command* const known = find_command(number)) {
        const bool complete =
            command.in.size() >= known->request && command.out.size() >= known->response;
        const Errno injected = context.injected_fault(known->name);
        const Errno error = injected                                 ? injected
                            : !complete                              ? ENOSPC
                            : command.in.has_more_than(known->known) ? EOPNOTSUPP
                                                                     : known->run(context, command);
        context.trace(known->name, error);
        return error;
    }
    constexpr uint64_t kNumberBits =
        IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_CMD_COMMAND_MASK;
    if (number & ~kNumberBits) return EINVAL;
    // Memory windows, address handles …
    const bool used_up = std::ranges::find(kUsedUp, number) != kUsedUp.end();
    const Errno error = used_up ? ENOMEM : EOPNOTSUPP;
    context.trace(fmt::format("write command {:#x}", number), error);
    return error;
}

} // namespace softhca::uverbs
