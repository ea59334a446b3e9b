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
    auto pipe = EventPipe::create(EventPipe::Kind::async, context.serial, user_fd);
    if (!pipe) return pipe.error().code;
    if (!fd_table::insert(user_fd.get(), std::make_shared<AsyncFile>(*context.device, *pipe)))
        return EMFILE;
    if (!context.default_async) context.default_async = std::move(*pipe);
    attributes.set_handle(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE,
                          static_cast<uint64_t>(user_fd.release()));
    return 0;
}

Errno alloc_uar(Context& context, const IoctlAttributes& attributes) {
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

Errno destroy_uar(Context& context, const IoctlAttributes& attributes) {
    const auto handle = attributes.number(MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE);
    return context.objects.destroy<Uar>(handle.value_or(0), *context.device);
}

/// MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX, which older headers do not have.
constexpr uint16_t kCreateCqUarIndex = UVERBS_ATTR_UHW_OUT + 1;

constexpr std::array kMethods{
    Method{UVERBS_OBJECT_DEVICE,
           UVERBS_METHOD_INVOKE_WRITE,
           nullptr,
           invoke_write,
           {},
           {UVERBS_ATTR_CORE_IN, UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_WRITE_CMD, UVERBS_ATTR_UHW_IN,
            UVERBS_ATTR_UHW_OUT}},
    Method{UVERBS_OBJECT_DEVICE,
           UVERBS_METHOD_GET_CONTEXT,
           "GET_CONTEXT",
           open_context,
           {},
           {UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT,
            UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT},
           true},
    Method{UVERBS_OBJECT_DEVICE,
           UVERBS_METHOD_QUERY_CONTEXT,
           "QUERY_CONTEXT",
           query_context,
           {},
           {UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT,
            MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX}},
    Method{UVERBS_OBJECT_DEVICE,
           UVERBS_METHOD_QUERY_PORT,
           "QUERY_PORT",
           query_port_method,
           {},
           {UVERBS_ATTR_QUERY_PORT_PORT_NUM, UVERBS_ATTR_QUERY_PORT_RESP}},
    Method{UVERBS_OBJECT_DEVICE,
           MLX5_IB_METHOD_QUERY_PORT,
           "QUERY_PORT",
           query_switch_port,
           {},
           {MLX5_IB_ATTR_QUERY_PORT_PORT_NUM, MLX5_IB_ATTR_QUERY_PORT}},
    Method{UVERBS_OBJECT_DEVICE,
           UVERBS_METHOD_QUERY_GID_TABLE,
           "QUERY_GID_TABLE",
           query_gid_table,
           {},
           {UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS,
            UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES,
            UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES}},
    Method{UVERBS_OBJECT_PD,
           MLX5_IB_METHOD_PD_QUERY,
           "QUERY_PD",
           query_pd,
           {MLX5_IB_ATTR_QUERY_PD_HANDLE},
           {MLX5_IB_ATTR_QUERY_PD_RESP_PDN}},
    Method{UVERBS_OBJECT_MR,
           UVERBS_METHOD_QUERY_MR,
           "QUERY_MR",
           query_mr,
           {UVERBS_ATTR_QUERY_MR_HANDLE},
           {UVERBS_ATTR_QUERY_MR_RESP_LKEY, UVERBS_ATTR_QUERY_MR_RESP_RKEY,
            UVERBS_ATTR_QUERY_MR_RESP_LENGTH, UVERBS_ATTR_QUERY_MR_RESP_IOVA}},
    Method{UVERBS_OBJECT_MR,
           UVERBS_METHOD_DM_MR_REG,
           "DM_MR_REG",
           reg_dm_mr,
           {UVERBS_ATTR_REG_DM_MR_HANDLE, UVERBS_ATTR_REG_DM_MR_PD_HANDLE,
            UVERBS_ATTR_REG_DM_MR_DM_HANDLE},
           {UVERBS_ATTR_REG_DM_MR_OFFSET, UVERBS_ATTR_REG_DM_MR_LENGTH,
            UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, UVERBS_ATTR_REG_DM_MR_RESP_LKEY,
            UVERBS_ATTR_REG_DM_MR_RESP_RKEY}},
    Method{UVERBS_OBJECT_DM,
           UVERBS_METHOD_DM_ALLOC,
           "DM_ALLOC",
           alloc_dm,
           {UVERBS_ATTR_ALLOC_DM_HANDLE},
           {UVERBS_ATTR_ALLOC_DM_LENGTH, UVERBS_ATTR_ALLOC_DM_ALIGNMENT,
            MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX,
            MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE}},
    Method{UVERBS_OBJECT_DM,
           UVERBS_METHOD_DM_FREE,
           "DM_FREE",
           free_dm,
           {UVERBS_ATTR_FREE_DM_HANDLE},
           {}},
    Method{UVERBS_OBJECT_CQ,
           UVERBS_METHOD_CQ_CREATE,
           "CREATE_CQ",
           create_cq_method,
           {UVERBS_ATTR_CREATE_CQ_HANDLE, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL,
            UVERBS_ATTR_CREATE_CQ_EVENT_FD},
           {UVERBS_ATTR_CREATE_CQ_CQE, UVERBS_ATTR_CREATE_CQ_USER_HANDLE,
            UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, UVERBS_ATTR_CREATE_CQ_FLAGS,
            UVERBS_ATTR_CREATE_CQ_RESP_CQE, UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT,
            kCreateCqUarIndex}},
    Method{UVERBS_OBJECT_QP,
           UVERBS_METHOD_QP_CREATE,
           "CREATE_QP",
           create_qp_method,
           {UVERBS_ATTR_CREATE_QP_HANDLE, UVERBS_ATTR_CREATE_QP_XRCD_HANDLE,
            UVERBS_ATTR_CREATE_QP_PD_HANDLE, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE,
            UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE,
            UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, UVERBS_ATTR_CREATE_QP_EVENT_FD},
           {UVERBS_ATTR_CREATE_QP_USER_HANDLE, UVERBS_ATTR_CREATE_QP_CAP,
            UVERBS_ATTR_CREATE_QP_TYPE, UVERBS_ATTR_CREATE_QP_FLAGS,
            UVERBS_ATTR_CREATE_QP_SOURCE_QPN, UVERBS_ATTR_CREATE_QP_RESP_CAP,
            UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT}},
    Method{UVERBS_OBJECT_WQ,
           UVERBS_METHOD_WQ_CREATE,
           "CREATE_WQ",
           create_wq_method,
           {UVERBS_ATTR_CREATE_WQ_HANDLE, UVERBS_ATTR_CREATE_WQ_PD_HANDLE,
            UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, UVERBS_ATTR_CREATE_WQ_EVENT_FD},
           {UVERBS_ATTR_CREATE_WQ_USER_HANDLE, UVERBS_ATTR_CREATE_WQ_TYPE,
            UVERBS_ATTR_CREATE_WQ_MAX_WR, UVERBS_ATTR_CREATE_WQ_MAX_SGE,
            UVERBS_ATTR_CREATE_WQ_FLAGS, UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR,
            UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM,
            UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT}},
    Method{UVERBS_OBJECT_ASYNC_EVENT,
           UVERBS_METHOD_ASYNC_EVENT_ALLOC,
           "ASYNC_EVENT_ALLOC",
           open_async_events,
           {UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE},
           {}},
    Method{MLX5_IB_OBJECT_UAR,
           MLX5_IB_METHOD_UAR_OBJ_ALLOC,
           "UAR_OBJ_ALLOC",
           alloc_uar,
           {MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE},
           {MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET,
            MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID}},
    Method{MLX5_IB_OBJECT_UAR,
           MLX5_IB_METHOD_UAR_OBJ_DESTROY,
           "UAR_OBJ_DESTROY",
           destroy_uar,
           {MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE},
           {}},
    Method{MLX5_IB_OBJECT_FLOW_MATCHER,
           MLX5_IB_METHOD_FLOW_MATCHER_CREATE,
           "FLOW_MATCHER_CREATE",
           create_flow_matcher,
           {MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE},
           {MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK, MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE,
            MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA, MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS,
            MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE}},
    Method{MLX5_IB_OBJECT_FLOW_MATCHER,
           MLX5_IB_METHOD_FLOW_MATCHER_DESTROY,
           "FLOW_MATCHER_DESTROY",
           destroy_flow_matcher,
           {MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE},
           {}},
    Method{UVERBS_OBJECT_FLOW,
           MLX5_IB_METHOD_CREATE_FLOW,
           "CREATE_FLOW",
           create_flow_dv,
           {MLX5_IB_ATTR_CREATE_FLOW_HANDLE, MLX5_IB_ATTR_CREATE_FLOW_DEST_QP,
            MLX5_IB_ATTR_CREATE_FLOW_DEST_DEVX, MLX5_IB_ATTR_CREATE_FLOW_MATCHER},
           {MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE, MLX5_IB_ATTR_CREATE_FLOW_ARR_FLOW_ACTIONS,
            MLX5_IB_ATTR_CREATE_FLOW_TAG, MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX,
            MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX_OFFSET, MLX5_IB_ATTR_CREATE_FLOW_FLAGS}},
    Method{UVERBS_OBJECT_FLOW,
           MLX5_IB_METHOD_DESTROY_FLOW,
           "DESTROY_FLOW",
           destroy_flow_dv,
           {MLX5_IB_ATTR_DESTROY_FLOW_HANDLE},
           {}},
    Method{
        UVERBS_OBJECT_FLOW_ACTION,
        MLX5_IB_METHOD_FLOW_ACTION_CREATE_MODIFY_HEADER,
        "CREATE_MODIFY_HEADER",
        create_modify_header,
        {MLX5_IB_ATTR_CREATE_MODIFY_HEADER_HANDLE},
        {MLX5_IB_ATTR_CREATE_MODIFY_HEADER_ACTIONS_PRM, MLX5_IB_ATTR_CREATE_MODIFY_HEADER_FT_TYPE}},
    Method{UVERBS_OBJECT_FLOW_ACTION,
           MLX5_IB_METHOD_FLOW_ACTION_CREATE_PACKET_REFORMAT,
           "CREATE_PACKET_REFORMAT",
           create_packet_reformat,
           {MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_HANDLE},
           {MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_TYPE, MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_FT_TYPE,
            MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_DATA_BUF}},
    Method{UVERBS_OBJECT_FLOW_ACTION,
           UVERBS_METHOD_FLOW_ACTION_DESTROY,
           "FLOW_ACTION_DESTROY",
           destroy_flow_action,
           {UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE},
           {}},
    Method{UVERBS_OBJECT_COUNTERS,
           UVERBS_METHOD_COUNTERS_CREATE,
           "COUNTERS_CREATE",
           create_counters,
           {UVERBS_ATTR_CREATE_COUNTERS_HANDLE},
           {}},
    Method{UVERBS_OBJECT_COUNTERS,
           UVERBS_METHOD_COUNTERS_DESTROY,
           "COUNTERS_DESTROY",
           destroy_counters,
           {UVERBS_ATTR_DESTROY_COUNTERS_HANDLE},
           {}},
    Method{UVERBS_OBJECT_COUNTERS,
           UVERBS_METHOD_COUNTERS_READ,
           "COUNTERS_READ",
           read_counters,
           {UVERBS_ATTR_READ_COUNTERS_HANDLE},
           {UVERBS_ATTR_READ_COUNTERS_BUFF, UVERBS_ATTR_READ_COUNTERS_FLAGS}},
};

static_assert(std::all_of(kMethods.begin(), kMethods.end(), [](const Method& method) {
    return !method.name || can_fail(method.name);
}));

} // namespace

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
            if (!error) error = attributes.check(method.handles, method.data);
            if (!error) error = method.run(context, attributes);
            if (method.name) context.trace(method.name, error);
            return error;
        }
    }
    return EPROTONOSUPPORT;
}

} // namespace softhca::uverbs
