// SPDX-License-Identifier: BSD-3-Clause
// The commands of the uverbs ABI, one function each, by object. All run with the context locked and
// (but for get_context) with its device running. They return what the kernel's mlx5_ib would: 0 or
// a positive errno.
#pragma once

#include "app/softhca/uverbs/context.hpp"
#include "app/softhca/uverbs/ioctl_attributes.hpp"

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

namespace softhca::uverbs {

/// A method of the ioctl ABI.
struct Method {
    uint16_t object, method;
    const char* name; ///< null: does its own tracing
    Errno (*run)(Context&, const IoctlAttributes&);
    AttributeSpecs attributes{};
    bool before_context = false; ///< may be called before GET_CONTEXT
};

/// Destroys the object whose handle is the attribute `kHandle`.
template <class T, uint16_t kHandle>
[[nodiscard]] Errno destroy_method(Context& context, const IoctlAttributes& attributes) {
    return context.objects.destroy<T>(attributes.number(kHandle).value_or(0), *context.device);
}

// ioctl.cpp
/// Carries out one RDMA_VERBS_IOCTL call.
[[nodiscard]] Errno run_method(Context& context, const IoctlAttributes& attributes);
// write_commands.cpp
/// A command of the classic ABI (enum ib_uverbs_write_cmds, plus IB_USER_VERBS_CMD_FLAG_EXTENDED).
[[nodiscard]] Errno run_write_command(Context& context, uint64_t number,
                                      const WriteCommand& command);

/// What a frame of such a command has, if it is not extended and thus does not say that itself.
struct WriteFrame {
    size_t request = 0, response = 0; ///< bytes of the core's, at least
    bool driver = false;              ///< whether what is more is the driver's
};
/// Empty: there is no such command.
[[nodiscard]] std::optional<WriteFrame> write_frame(uint32_t number);

// write_call.cpp
/// Carries out one write(2) on the device.
[[nodiscard]] Errno run_written(Context& context, const void* data, size_t size);

// ioctl.cpp
/// Opens a file of asynchronous events.
[[nodiscard]] Errno open_async_file(Context& context, Fd& user_fd);

// device_info.cpp
/// Makes the context one of the port's device, which must be running; `devx`: with firmware
/// commands.
[[nodiscard]] Errno attach(Context& context, core::Device& device, bool devx);
[[nodiscard]] Errno get_context(Context& context, const WriteCommand& driver);
/// Likewise by the classic ABI, which opens the first file of asynchronous events as well.
[[nodiscard]] Errno get_context_and_events(Context& context, const WriteCommand& command);
[[nodiscard]] Errno query_device(Context& context, const WriteCommand& command);
[[nodiscard]] Errno query_device_ex(Context& context, const WriteCommand& command);
[[nodiscard]] Errno query_port(Context& context, const WriteCommand& command);
[[nodiscard]] ib_uverbs_query_port_resp port_attributes(const Port& port);
/// Basic and extended flags, as the kernel keeps them.
[[nodiscard]] uint64_t device_cap_flags();
inline constexpr uint32_t kCompletionVectors = 8; ///< all alike: there are no EQs behind them

/// What libmlx5 is given about a context, when it is opened and when it is imported.
[[nodiscard]] mlx5_ib_alloc_ucontext_resp context_attributes(const Context& context);

// mr.cpp
[[nodiscard]] Errno alloc_pd(Context& context, const WriteCommand& command);
[[nodiscard]] Errno dealloc_pd(Context& context, const WriteCommand& command);
[[nodiscard]] Errno reg_mr(Context& context, const WriteCommand& command);
[[nodiscard]] Errno rereg_mr(Context& context, const WriteCommand& command);
[[nodiscard]] Errno dereg_mr(Context& context, const WriteCommand& command);
[[nodiscard]] Errno query_pd(Context& context, const IoctlAttributes& attributes);
[[nodiscard]] Errno query_mr(Context& context, const IoctlAttributes& attributes);

// dm.cpp
[[nodiscard]] Errno alloc_dm(Context& context, const IoctlAttributes& attributes);
[[nodiscard]] Errno reg_dm_mr(Context& context, const IoctlAttributes& attributes);

// cq.cpp
/// MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX, which older headers do not have.
inline constexpr uint16_t kCreateCqUarIndex = UVERBS_ATTR_UHW_OUT + 1;
[[nodiscard]] Errno create_comp_channel(Context& context, const WriteCommand& command);
[[nodiscard]] Errno create_cq(Context& context, const WriteCommand& command);
[[nodiscard]] Errno create_cq_ex(Context& context, const WriteCommand& command);
[[nodiscard]] Errno modify_cq(Context& context, const WriteCommand& command);
inline constexpr uint16_t kMaxCqPeriod = 0xfff; ///< µs
[[nodiscard]] Errno resize_cq(Context& context, const WriteCommand& command);
[[nodiscard]] Errno destroy_cq(Context& context, const WriteCommand& command);
[[nodiscard]] Errno destroy_cq_method(Context& context, const IoctlAttributes& attributes);

// qp.cpp
[[nodiscard]] Errno create_qp(Context& context, const WriteCommand& command);
[[nodiscard]] Errno create_qp_ex(Context& context, const WriteCommand& command);
[[nodiscard]] Errno query_qp(Context& context, const WriteCommand& command);
[[nodiscard]] Errno modify_qp(Context& context, const WriteCommand& command);
[[nodiscard]] Errno modify_qp_ex(Context& context, const WriteCommand& command);
[[nodiscard]] Errno destroy_qp(Context& context, const WriteCommand& command);
[[nodiscard]] Errno destroy_qp_method(Context& context, const IoctlAttributes& attributes);
/// The QP state that results from the states of its queues (sqrq_state_to_qp_state of mlx5_ib).
[[nodiscard]] uint8_t state_of(const core::Device& device, const Qp& qp);

/// Creates the TIR that leads to the QP; `driver_flags` (MLX5_QP_FLAG_*) say whom it hears.
[[nodiscard]] Errno add_tir(Context& context, core::TirAttr attr, uint32_t driver_flags, Qp& qp);

/// The identifiers of the QP's TIR for commands, and for entries in ICM.
void tell_tir(const Qp& qp, mlx5_ib_create_qp_resp& out);

// rss_qp.cpp
/// The RSS flavour of create_qp_ex: an RX hash over an indirection table.
[[nodiscard]] Errno create_rss_qp(Context& context, const ib_uverbs_ex_create_qp& request,
                                  const WriteCommand& command);

// wq.cpp
/// What a WQ may be asked for.
inline constexpr uint32_t kWqFlags =
    IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING | IB_UVERBS_WQ_FLAGS_SCATTER_FCS |
    IB_UVERBS_WQ_FLAGS_DELAY_DROP | IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING;
[[nodiscard]] Errno create_wq(Context& context, const WriteCommand& command);
[[nodiscard]] Errno modify_wq(Context& context, const WriteCommand& command);
[[nodiscard]] Errno destroy_wq(Context& context, const WriteCommand& command);
[[nodiscard]] Errno destroy_wq_method(Context& context, const IoctlAttributes& attributes);
[[nodiscard]] Errno create_rwq_ind_tbl(Context& context, const WriteCommand& command);
[[nodiscard]] Errno destroy_rwq_ind_tbl(Context& context, const WriteCommand& command);

// create_methods.cpp
[[nodiscard]] Errno create_cq_method(Context& context, const IoctlAttributes& attributes);
[[nodiscard]] Errno create_qp_method(Context& context, const IoctlAttributes& attributes);
[[nodiscard]] Errno create_wq_method(Context& context, const IoctlAttributes& attributes);

// flow.cpp
[[nodiscard]] Errno create_flow(Context& context, const WriteCommand& command);
[[nodiscard]] Errno destroy_flow(Context& context, const WriteCommand& command);

// flow_dv.cpp: the methods behind mlx5dv_create_flow_matcher and mlx5dv_create_flow
[[nodiscard]] Errno create_flow_matcher(Context& context, const IoctlAttributes& attributes);
[[nodiscard]] Errno create_flow_dv(Context& context, const IoctlAttributes& attributes);

// flow_actions.cpp: the methods behind mlx5dv_create_flow_action_*
[[nodiscard]] Errno create_modify_header(Context& context, const IoctlAttributes& attributes);
[[nodiscard]] Errno create_packet_reformat(Context& context, const IoctlAttributes& attributes);
/// Makes the flow apply the action to its packets. EINVAL when it already has one of the kind.
[[nodiscard]] Errno add_flow_action(FlowAction& action, Flow& flow, core::RewriteAttr& rewrite);

/// The priority of a flow of the bypass domain, sorted as mlx5_ib does: by the program's priority,
/// those that pass packets on first; rules for multicast only come after all others.
[[nodiscard]] uint16_t bypass_priority(uint16_t asked, bool multicast_only, bool pass_on = false);

// counters.cpp
[[nodiscard]] Errno create_counters(Context& context, const IoctlAttributes& attributes);
[[nodiscard]] Errno read_counters(Context& context, const IoctlAttributes& attributes);
/// Whether the counters data that libmlx5 passes with a flow (struct mlx5_ib_create_flow) is
/// well-formed.
[[nodiscard]] Errno check_counters_data(const InBuffer& driver_in);
/// Creates the device's counter if there is none yet. The first flow describes it, later ones do
/// not.
[[nodiscard]] Errno bind_counters(Counters& counters, const InBuffer& driver_in,
                                  core::Device& device);

} // namespace softhca::uverbs
