// SPDX-License-Identifier: BSD-3-Clause
// The commands of the classic uverbs ABI, by number.
#include "app/softhca/uverbs/commands.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

namespace softhca::uverbs {
namespace {

constexpr uint32_t extended(uint32_t number) { return IB_USER_VERBS_CMD_FLAG_EXTENDED | number; }

struct Command {
    uint32_t number;
    const char* name;
    Errno (*run)(Context&, const WriteCommand&);
};
constexpr std::array kCommands{
    Command{IB_USER_VERBS_CMD_QUERY_DEVICE, "QUERY_DEVICE", query_device},
    Command{extended(IB_USER_VERBS_EX_CMD_QUERY_DEVICE), "EX_QUERY_DEVICE", query_device_ex},
    Command{IB_USER_VERBS_CMD_QUERY_PORT, "QUERY_PORT", query_port},
    Command{IB_USER_VERBS_CMD_ALLOC_PD, "ALLOC_PD", alloc_pd},
    Command{IB_USER_VERBS_CMD_DEALLOC_PD, "DEALLOC_PD", dealloc_pd},
    Command{IB_USER_VERBS_CMD_REG_MR, "REG_MR", reg_mr},
    Command{IB_USER_VERBS_CMD_DEREG_MR, "DEREG_MR", dereg_mr},
    Command{IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, "CREATE_COMP_CHANNEL", create_comp_channel},
    Command{IB_USER_VERBS_CMD_CREATE_CQ, "CREATE_CQ", create_cq},
    Command{extended(IB_USER_VERBS_EX_CMD_CREATE_CQ), "EX_CREATE_CQ", create_cq_ex},
    Command{extended(IB_USER_VERBS_EX_CMD_MODIFY_CQ), "EX_MODIFY_CQ", modify_cq},
    Command{IB_USER_VERBS_CMD_DESTROY_CQ, "DESTROY_CQ", destroy_cq},
    Command{IB_USER_VERBS_CMD_CREATE_QP, "CREATE_QP", create_qp},
    Command{extended(IB_USER_VERBS_EX_CMD_CREATE_QP), "EX_CREATE_QP", create_qp_ex},
    Command{IB_USER_VERBS_CMD_QUERY_QP, "QUERY_QP", query_qp},
    Command{IB_USER_VERBS_CMD_MODIFY_QP, "MODIFY_QP", modify_qp},
    Command{extended(IB_USER_VERBS_EX_CMD_MODIFY_QP), "EX_MODIFY_QP", modify_qp_ex},
    Command{IB_USER_VERBS_CMD_DESTROY_QP, "DESTROY_QP", destroy_qp},
    Command{extended(IB_USER_VERBS_EX_CMD_CREATE_WQ), "EX_CREATE_WQ", create_wq},
    Command{extended(IB_USER_VERBS_EX_CMD_MODIFY_WQ), "EX_MODIFY_WQ", modify_wq},
    Command{extended(IB_USER_VERBS_EX_CMD_DESTROY_WQ), "EX_DESTROY_WQ", destroy_wq},
    Command{extended(IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL), "EX_CREATE_RWQ_IND_TBL",
            create_rwq_ind_tbl},
    Command{extended(IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL), "EX_DESTROY_RWQ_IND_TBL",
            destroy_rwq_ind_tbl},
    Command{extended(IB_USER_VERBS_EX_CMD_CREATE_FLOW), "EX_CREATE_FLOW", create_flow},
    Command{extended(IB_USER_VERBS_EX_CMD_DESTROY_FLOW), "EX_DESTROY_FLOW", destroy_flow},
};

static_assert(std::all_of(kCommands.begin(), kCommands.end(),
                          [](const Command& command) { return can_fail(command.name); }));

} // namespace

Errno run_write_command(Context& context, uint64_t number, const WriteCommand& command) {
    for (const Command& known : kCommands) {
        if (known.number != number) continue;
        const Errno injected = context.injected_fault(known.name);
        const Errno error = injected ? injected : known.run(context, command);
        context.trace(known.name, error);
        return error;
    }
    // SRQs, memory windows, address handles, XRC, resizing …
    context.trace(fmt::format("write command {:#x}", number), EOPNOTSUPP);
    return EOPNOTSUPP;
}

} // namespace softhca::uverbs
