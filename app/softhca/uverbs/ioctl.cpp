// SPDX-License-Identifier: BSD-3-Clause
// The methods of the ioctl ABI that this front answers itself. For all others it returns
// EPROTONOSUPPORT; libibverbs then sends the command of the classic ABI, wrapped into INVOKE_WRITE.
#include "app/softhca/uverbs/commands.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

namespace softhca::uverbs {
namespace {

constexpr uint64_t kCoreSupport = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;

bool write_command_pointers_are_good(const IoctlAttributes& attributes) {
    constexpr std::array<uint16_t, 2> kIn = {UVERBS_ATTR_CORE_IN, UVERBS_ATTR_UHW_IN};
    constexpr std::array<uint16_t, 2> kOut = {UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_UHW_OUT};
    return attributes.pointers_are_good(kIn, false) && attributes.pointers_are_good(kOut, true);
}

Errno invoke_write(Context& context, const IoctlAttributes& attributes) {
    const auto number = attributes.number(UVERBS_ATTR_WRITE_CMD);
    if (!number) return EINVAL;
    if (!context.device) return EINVAL; // no GET_CONTEXT yet
    if (!write_command_pointers_are_good(attributes)) return EFAULT;
    return run_write_command(context, *number,
                             {.in = attributes.in(UVERBS_ATTR_CORE_IN),
                              .out = attributes.out(UVERBS_ATTR_CORE_OUT),
                              .driver_in = attributes.in(UVERBS_ATTR_UHW_IN),
                              .driver_out = attributes.out(UVERBS_ATTR_UHW_OUT),
                              .async = context.default_async});
}

Errno open_context(Context& context, const IoctlAttributes& attributes) {
    if (!write_command_pointers_are_good(attributes)) return EFAULT;
    const Errno error = get_context(context, {.in = {},
                                              .out = {},
                                              .driver_in = attributes.in(UVERBS_ATTR_UHW_IN),
                                              .driver_out = attributes.out(UVERBS_ATTR_UHW_OUT),
                                              .async = nullptr});
    if (error) return error;
    attributes.out(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS).put(kCompletionVectors);
    attributes.out(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT).put(kCoreSupport);
    return 0;
}

/// For a program that imports the context from its descriptor.
Errno query_context(Context& context, const IoctlAttributes& attributes) {
    attributes.out(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS).put(kCompletionVectors);
    attributes.out(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT).put(kCoreSupport);
    const OutBuffer driver_out = attributes.out(MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX);
    mlx5_ib_alloc_ucontext_resp out = context_attributes(context);
    driver_out.put(out);
    return 0;
}

Errno query_port_method(Context& context, const IoctlAttributes& attributes) {
    if (attributes.number(UVERBS_ATTR_QUERY_PORT_PORT_NUM) != 1u) return EINVAL;
    ib_uverbs_query_port_resp_ex out{};
    out.legacy_resp = port_attributes(context.port);
    attributes.out(UVERBS_ATTR_QUERY_PORT_RESP).put(out);
    return 0;
}

/// About the vport and its switch: mlx5_ib knows it only where a switch is enabled (switchdev), and
/// reports nothing elsewhere.
Errno query_switch_port(Context&, const IoctlAttributes& attributes) {
    if (attributes.number(MLX5_IB_ATTR_QUERY_PORT_PORT_NUM) != 1u) return EINVAL;
    attributes.out(MLX5_IB_ATTR_QUERY_PORT).put(mlx5_ib_uapi_query_port{});
    return 0;
}

/// The port has no GIDs (no RoCE); only the program's arguments are checked.
Errno query_gid_table(Context&, const IoctlAttributes& attributes) {
    const uint64_t entry = attributes.number(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE).value_or(0);
    const size_t room = attributes.out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES).size();
    if (attributes.number(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS).value_or(0) != 0) return EINVAL;
    if (entry == 0 || room < entry || room % entry != 0) return EINVAL;
    attributes.out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES).put(uint64_t{0});
    return 0;
}

Errno open_async_events(Context& context, const IoctlAttributes& attributes) {
    if (!attributes.has(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE)) return EINVAL;
    Fd user_fd;
    if (const Errno error = open_async_file(context, user_fd)) return error;
    attributes.set_handle(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE,
                          static_cast<uint64_t>(user_fd.release()));
    return 0;
}

Errno alloc_uar(Context& context, const IoctlAttributes& attributes) {
    const uint64_t type = attributes.number(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE).value_or(0);
    if (type > UINT32_MAX) return EINVAL;
    if (type > MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC) return EOPNOTSUPP;
    if (const Errno error = context.add_doorbell_page(context.next_uar)) return error;
    auto uar = std::make_unique<Uar>();
    const uint32_t page = uar->page = context.next_uar;
    context.next_uar = uar_page_after(page);
    uar->registers = context.map_registers(page);
    if (!uar->registers) return ENOMEM;
    if (context.devx) uar->number = context.devx->new_uar_number(uar->registers);
    if (context.devx && uar->number == 0) return ENOMEM;
    const uint32_t number = context.devx ? uar->number : page;
    std::erase_if(context.send_registers, [](const auto& one) { return one.second.expired(); });
    context.send_registers[number] = uar->registers;
    attributes.set_handle(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, context.objects.add(std::move(uar)));
    attributes.out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET).put(uar_offset(page));
    attributes.out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH).put(uint32_t{1} << kUarPageShift);
    attributes.out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID).put(number);
    return 0;
}

using namespace attribute;

constexpr std::array kMethods{
    Method{UVERBS_OBJECT_DEVICE,
           UVERBS_METHOD_INVOKE_WRITE,
           nullptr,
           invoke_write,
           {optional(in_bytes(UVERBS_ATTR_CORE_IN, sizeof(uint32_t))),
            optional(out_bytes(UVERBS_ATTR_CORE_OUT, 0)), constant(UVERBS_ATTR_WRITE_CMD),
            optional(in_bytes(UVERBS_ATTR_UHW_IN, 0)),
            optional(out_bytes(UVERBS_ATTR_UHW_OUT, 0))}},
    Method{UVERBS_OBJECT_DEVICE,
           UVERBS_METHOD_GET_CONTEXT,
           "GET_CONTEXT",
           open_context,
           {optional(out<uint32_t>(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS)),
            optional(out<uint64_t>(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT)),
            optional(in_bytes(UVERBS_ATTR_UHW_IN, 0)), optional(out_bytes(UVERBS_ATTR_UHW_OUT, 0))},
           true},
    Method{UVERBS_OBJECT_DEVICE,
           UVERBS_METHOD_QUERY_CONTEXT,
           "QUERY_CONTEXT",
           query_context,
           {optional(out<uint32_t>(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS)),
            optional(out<uint64_t>(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT)),
            out_struct<mlx5_ib_alloc_ucontext_resp>(
                MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX,
                SIZE_UP_TO(mlx5_ib_alloc_ucontext_resp, dump_fill_mkey))}},
    Method{UVERBS_OBJECT_DEVICE,
           UVERBS_METHOD_QUERY_PORT,
           "QUERY_PORT",
           query_port_method,
           {constant(UVERBS_ATTR_QUERY_PORT_PORT_NUM),
            out_struct<ib_uverbs_query_port_resp_ex>(
                UVERBS_ATTR_QUERY_PORT_RESP, SIZE_UP_TO(ib_uverbs_query_port_resp_ex, reserved))}},
    Method{UVERBS_OBJECT_DEVICE,
           MLX5_IB_METHOD_QUERY_PORT,
           "QUERY_PORT",
           query_switch_port,
           {in<uint32_t>(MLX5_IB_ATTR_QUERY_PORT_PORT_NUM),
            out_struct<mlx5_ib_uapi_query_port>(MLX5_IB_ATTR_QUERY_PORT,
                                                SIZE_UP_TO(mlx5_ib_uapi_query_port, reg_c0))}},
    Method{UVERBS_OBJECT_DEVICE,
           UVERBS_METHOD_QUERY_GID_TABLE,
           "QUERY_GID_TABLE",
           query_gid_table,
           {constant(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE),
            optional(flags(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS)),
            out_bytes(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, 0),
            out<uint64_t>(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES)}},
    Method{UVERBS_OBJECT_PD,
           UVERBS_METHOD_PD_DESTROY,
           "DEALLOC_PD",
           destroy_method<Pd, UVERBS_ATTR_DESTROY_PD_HANDLE>,
           {handle(UVERBS_ATTR_DESTROY_PD_HANDLE)}},
    Method{UVERBS_OBJECT_PD,
           MLX5_IB_METHOD_PD_QUERY,
           "QUERY_PD",
           query_pd,
           {handle(MLX5_IB_ATTR_QUERY_PD_HANDLE), out<uint32_t>(MLX5_IB_ATTR_QUERY_PD_RESP_PDN)}},
    Method{UVERBS_OBJECT_MR,
           UVERBS_METHOD_MR_DESTROY,
           "DEREG_MR",
           destroy_method<Mr, UVERBS_ATTR_DESTROY_MR_HANDLE>,
           {handle(UVERBS_ATTR_DESTROY_MR_HANDLE)}},
    Method{UVERBS_OBJECT_MR,
           UVERBS_METHOD_QUERY_MR,
           "QUERY_MR",
           query_mr,
           {handle(UVERBS_ATTR_QUERY_MR_HANDLE), out<uint32_t>(UVERBS_ATTR_QUERY_MR_RESP_LKEY),
            out<uint32_t>(UVERBS_ATTR_QUERY_MR_RESP_RKEY),
            out<uint64_t>(UVERBS_ATTR_QUERY_MR_RESP_LENGTH),
            optional(out<uint64_t>(UVERBS_ATTR_QUERY_MR_RESP_IOVA))}},
    Method{UVERBS_OBJECT_MR,
           UVERBS_METHOD_DM_MR_REG,
           "DM_MR_REG",
           reg_dm_mr,
           {handle(UVERBS_ATTR_REG_DM_MR_HANDLE), handle(UVERBS_ATTR_REG_DM_MR_PD_HANDLE),
            handle(UVERBS_ATTR_REG_DM_MR_DM_HANDLE), in<uint64_t>(UVERBS_ATTR_REG_DM_MR_OFFSET),
            in<uint64_t>(UVERBS_ATTR_REG_DM_MR_LENGTH),
            optional(flags(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS)),
            out<uint32_t>(UVERBS_ATTR_REG_DM_MR_RESP_LKEY),
            out<uint32_t>(UVERBS_ATTR_REG_DM_MR_RESP_RKEY)}},
    Method{UVERBS_OBJECT_DM,
           UVERBS_METHOD_DM_ALLOC,
           "DM_ALLOC",
           alloc_dm,
           {handle(UVERBS_ATTR_ALLOC_DM_HANDLE), in<uint64_t>(UVERBS_ATTR_ALLOC_DM_LENGTH),
            in<uint32_t>(UVERBS_ATTR_ALLOC_DM_ALIGNMENT),
            optional(out<uint64_t>(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET)),
            optional(out<uint16_t>(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX)),
            optional(constant(MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE))}},
    Method{UVERBS_OBJECT_DM,
           UVERBS_METHOD_DM_FREE,
           "DM_FREE",
           destroy_method<Dm, UVERBS_ATTR_FREE_DM_HANDLE>,
           {handle(UVERBS_ATTR_FREE_DM_HANDLE)}},
    Method{
        UVERBS_OBJECT_CQ,
        UVERBS_METHOD_CQ_CREATE,
        "CREATE_CQ",
        create_cq_method,
        {handle(UVERBS_ATTR_CREATE_CQ_HANDLE), optional(handle(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL)),
         optional(handle(UVERBS_ATTR_CREATE_CQ_EVENT_FD)), in<uint32_t>(UVERBS_ATTR_CREATE_CQ_CQE),
         in<uint64_t>(UVERBS_ATTR_CREATE_CQ_USER_HANDLE),
         in<uint32_t>(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR),
         optional(flags(UVERBS_ATTR_CREATE_CQ_FLAGS)),
         out<uint32_t>(UVERBS_ATTR_CREATE_CQ_RESP_CQE), optional(in_bytes(UVERBS_ATTR_UHW_IN, 0)),
         optional(out_bytes(UVERBS_ATTR_UHW_OUT, 0)), optional(in<uint32_t>(kCreateCqUarIndex))}},
    Method{UVERBS_OBJECT_CQ,
           UVERBS_METHOD_CQ_DESTROY,
           "DESTROY_CQ",
           destroy_cq_method,
           {handle(UVERBS_ATTR_DESTROY_CQ_HANDLE),
            late_out<ib_uverbs_destroy_cq_resp>(UVERBS_ATTR_DESTROY_CQ_RESP)}},
    Method{
        UVERBS_OBJECT_QP,
        UVERBS_METHOD_QP_CREATE,
        "CREATE_QP",
        create_qp_method,
        {handle(UVERBS_ATTR_CREATE_QP_HANDLE), optional(handle(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE)),
         optional(handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE)),
         optional(handle(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE)),
         optional(handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE)),
         optional(handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE)),
         optional(handle(UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE)),
         optional(handle(UVERBS_ATTR_CREATE_QP_EVENT_FD)),
         in<uint64_t>(UVERBS_ATTR_CREATE_QP_USER_HANDLE),
         in_struct<ib_uverbs_qp_cap>(UVERBS_ATTR_CREATE_QP_CAP,
                                     SIZE_UP_TO(ib_uverbs_qp_cap, max_inline_data)),
         constant(UVERBS_ATTR_CREATE_QP_TYPE), optional(flags(UVERBS_ATTR_CREATE_QP_FLAGS)),
         optional(in<uint32_t>(UVERBS_ATTR_CREATE_QP_SOURCE_QPN)),
         out_struct<ib_uverbs_qp_cap>(UVERBS_ATTR_CREATE_QP_RESP_CAP,
                                      SIZE_UP_TO(ib_uverbs_qp_cap, max_inline_data)),
         out<uint32_t>(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM),
         optional(in_bytes(UVERBS_ATTR_UHW_IN, 0)), optional(out_bytes(UVERBS_ATTR_UHW_OUT, 0))}},
    Method{UVERBS_OBJECT_QP,
           UVERBS_METHOD_QP_DESTROY,
           "DESTROY_QP",
           destroy_qp_method,
           {handle(UVERBS_ATTR_DESTROY_QP_HANDLE),
            late_out<ib_uverbs_destroy_qp_resp>(UVERBS_ATTR_DESTROY_QP_RESP)}},
    Method{UVERBS_OBJECT_WQ,
           UVERBS_METHOD_WQ_CREATE,
           "CREATE_WQ",
           create_wq_method,
           {handle(UVERBS_ATTR_CREATE_WQ_HANDLE), handle(UVERBS_ATTR_CREATE_WQ_PD_HANDLE),
            optional(handle(UVERBS_ATTR_CREATE_WQ_CQ_HANDLE)),
            optional(handle(UVERBS_ATTR_CREATE_WQ_EVENT_FD)),
            in<uint64_t>(UVERBS_ATTR_CREATE_WQ_USER_HANDLE), constant(UVERBS_ATTR_CREATE_WQ_TYPE),
            in<uint32_t>(UVERBS_ATTR_CREATE_WQ_MAX_WR), in<uint32_t>(UVERBS_ATTR_CREATE_WQ_MAX_SGE),
            flags(UVERBS_ATTR_CREATE_WQ_FLAGS), out<uint32_t>(UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR),
            out<uint32_t>(UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE),
            optional(out<uint32_t>(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM)),
            optional(in_bytes(UVERBS_ATTR_UHW_IN, 0)),
            optional(out_bytes(UVERBS_ATTR_UHW_OUT, 0))}},
    Method{
        UVERBS_OBJECT_WQ,
        UVERBS_METHOD_WQ_DESTROY,
        "DESTROY_WQ",
        destroy_wq_method,
        {handle(UVERBS_ATTR_DESTROY_WQ_HANDLE), late_out<uint32_t>(UVERBS_ATTR_DESTROY_WQ_RESP)}},
    Method{UVERBS_OBJECT_RWQ_IND_TBL,
           UVERBS_METHOD_RWQ_IND_TBL_DESTROY,
           "DESTROY_RWQ_IND_TBL",
           destroy_method<IndirectionTable, UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE>,
           {handle(UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE)}},
    Method{UVERBS_OBJECT_ASYNC_EVENT,
           UVERBS_METHOD_ASYNC_EVENT_ALLOC,
           "ASYNC_EVENT_ALLOC",
           open_async_events,
           {handle(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE)}},
    Method{MLX5_IB_OBJECT_UAR,
           MLX5_IB_METHOD_UAR_OBJ_ALLOC,
           "UAR_OBJ_ALLOC",
           alloc_uar,
           {handle(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE), constant(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE),
            out<uint64_t>(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET),
            out<uint32_t>(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH),
            out<uint32_t>(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID)}},
    Method{MLX5_IB_OBJECT_UAR,
           MLX5_IB_METHOD_UAR_OBJ_DESTROY,
           "UAR_OBJ_DESTROY",
           destroy_method<Uar, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE>,
           {handle(MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE)}},
    Method{MLX5_IB_OBJECT_FLOW_MATCHER,
           MLX5_IB_METHOD_FLOW_MATCHER_CREATE,
           "FLOW_MATCHER_CREATE",
           create_flow_matcher,
           {handle(MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE),
            in_bytes(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK, 1, sizeof(mlx5_ib_match_params)),
            flow_type(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE),
            in<uint8_t>(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA),
            optional(flags(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS)),
            optional(constant(MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE))}},
    Method{MLX5_IB_OBJECT_FLOW_MATCHER,
           MLX5_IB_METHOD_FLOW_MATCHER_DESTROY,
           "FLOW_MATCHER_DESTROY",
           destroy_method<FlowMatcher, MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE>,
           {handle(MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE)}},
    Method{UVERBS_OBJECT_FLOW,
           UVERBS_METHOD_FLOW_DESTROY,
           "DESTROY_FLOW",
           destroy_method<Flow, UVERBS_ATTR_DESTROY_FLOW_HANDLE>,
           {handle(UVERBS_ATTR_DESTROY_FLOW_HANDLE)}},
    Method{UVERBS_OBJECT_FLOW,
           MLX5_IB_METHOD_CREATE_FLOW,
           "CREATE_FLOW",
           create_flow_dv,
           {handle(MLX5_IB_ATTR_CREATE_FLOW_HANDLE),
            optional(handle(MLX5_IB_ATTR_CREATE_FLOW_DEST_QP)),
            optional(handle(MLX5_IB_ATTR_CREATE_FLOW_DEST_DEVX)),
            handle(MLX5_IB_ATTR_CREATE_FLOW_MATCHER),
            in_bytes(MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE, 1, sizeof(mlx5_ib_match_params)),
            optional(handles(MLX5_IB_ATTR_CREATE_FLOW_ARR_FLOW_ACTIONS, 2)),
            optional(in<uint32_t>(MLX5_IB_ATTR_CREATE_FLOW_TAG)),
            optional(handles(MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX, 1)),
            optional(in_bytes(MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX_OFFSET, sizeof(uint32_t))),
            optional(flags(MLX5_IB_ATTR_CREATE_FLOW_FLAGS))}},
    Method{UVERBS_OBJECT_FLOW,
           MLX5_IB_METHOD_DESTROY_FLOW,
           "DESTROY_FLOW",
           destroy_method<Flow, MLX5_IB_ATTR_DESTROY_FLOW_HANDLE>,
           {handle(MLX5_IB_ATTR_DESTROY_FLOW_HANDLE)}},
    Method{UVERBS_OBJECT_FLOW_ACTION,
           MLX5_IB_METHOD_FLOW_ACTION_CREATE_MODIFY_HEADER,
           "CREATE_MODIFY_HEADER",
           create_modify_header,
           {handle(MLX5_IB_ATTR_CREATE_MODIFY_HEADER_HANDLE),
            in_bytes(MLX5_IB_ATTR_CREATE_MODIFY_HEADER_ACTIONS_PRM, 8),
            constant(MLX5_IB_ATTR_CREATE_MODIFY_HEADER_FT_TYPE)}},
    Method{UVERBS_OBJECT_FLOW_ACTION,
           MLX5_IB_METHOD_FLOW_ACTION_CREATE_PACKET_REFORMAT,
           "CREATE_PACKET_REFORMAT",
           create_packet_reformat,
           {handle(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_HANDLE),
            constant(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_TYPE),
            constant(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_FT_TYPE),
            optional(in_bytes(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_DATA_BUF, 1))}},
    Method{UVERBS_OBJECT_FLOW_ACTION,
           UVERBS_METHOD_FLOW_ACTION_DESTROY,
           "FLOW_ACTION_DESTROY",
           destroy_method<FlowAction, UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE>,
           {handle(UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE)}},
    Method{UVERBS_OBJECT_COUNTERS,
           UVERBS_METHOD_COUNTERS_CREATE,
           "COUNTERS_CREATE",
           create_counters,
           {handle(UVERBS_ATTR_CREATE_COUNTERS_HANDLE)}},
    Method{UVERBS_OBJECT_COUNTERS,
           UVERBS_METHOD_COUNTERS_DESTROY,
           "COUNTERS_DESTROY",
           destroy_method<Counters, UVERBS_ATTR_DESTROY_COUNTERS_HANDLE>,
           {handle(UVERBS_ATTR_DESTROY_COUNTERS_HANDLE)}},
    Method{UVERBS_OBJECT_COUNTERS,
           UVERBS_METHOD_COUNTERS_READ,
           "COUNTERS_READ",
           read_counters,
           {handle(UVERBS_ATTR_READ_COUNTERS_HANDLE), out_bytes(UVERBS_ATTR_READ_COUNTERS_BUFF, 0),
            optional(flags(UVERBS_ATTR_READ_COUNTERS_FLAGS))}},
};

static_assert(std::all_of(kMethods.begin(), kMethods.end(), [](const Method& method) {
    return !method.name || can_fail(method.name);
}));

} // namespace

Errno open_async_file(Context& context, Fd& user_fd) {
    auto pipe = EventPipe::create(EventPipe::Kind::async, context.serial, user_fd);
    if (!pipe) return pipe.error().code;
    if (!fd_table::insert(user_fd.get(), std::make_shared<AsyncFile>(*context.device, *pipe)))
        return EMFILE;
    if (!context.default_async) context.default_async = std::move(*pipe);
    return 0;
}

Errno run_method(Context& context, const IoctlAttributes& attributes) {
    // A kernel has no DevX methods for a device without DevX.
    const bool has_devx = context.port.config.devx.value_or(true);
    for (const std::span<const Method> methods :
         {std::span<const Method>(kMethods),
          has_devx ? devx_methods() : std::span<const Method>()}) {
        for (const Method& method : methods) {
            if (method.object != attributes.object() || method.method != attributes.method())
                continue;
            if (!context.device && !method.before_context) return EINVAL;
            Errno error = method.name ? context.injected_fault(method.name) : 0;
            if (!error) error = attributes.check(method.attributes);
            if (!error) error = method.run(context, attributes);
            if (!error) error = attributes.check_late(method.attributes);
            if (method.name) context.trace(method.name, error);
            return error;
        }
    }
    return EPROTONOSUPPORT;
}

} // namespace softhca::uverbs
