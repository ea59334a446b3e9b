// SPDX-License-Identifier: BSD-3-Clause
// CQs, QPs and WQs created by methods of the ioctl ABI. These take what the commands of the classic
// ABI take, plus the asynchronous event file for the object: an imported context has its own.
#include "app/softhca/uverbs/commands.hpp"

#include <array>
#include <cerrno>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <utility>

namespace softhca::uverbs {
namespace {

/// The handle in an attribute, 0 when it is absent. A missing object is an error.
template <class T>
Errno read_handle(const Context& context, const IoctlAttributes& attributes, uint16_t id,
                  uint32_t& handle) {
    handle = 0;
    const auto given = attributes.number(id);
    if (!given) return 0;
    if (!context.objects.find<T>(*given)) return context.objects.absence(*given);
    handle = static_cast<uint32_t>(*given);
    return 0;
}

/// A small number; 0 when it is absent.
template <class T = uint32_t> T read_number(const IoctlAttributes& attributes, uint16_t id) {
    return static_cast<T>(attributes.number(id).value_or(0));
}

/// A file descriptor; empty: no number of one.
std::optional<int> read_fd(const IoctlAttributes& attributes, uint16_t id) {
    const auto given = static_cast<int64_t>(attributes.number(id).value_or(0));
    return std::in_range<int>(given) ? std::optional(static_cast<int>(given)) : std::nullopt;
}

/// The arguments of the command of the classic ABI: the request, and the driver's part unchanged.
template <class Request, class Response>
Errno read_command(const Context& context, const IoctlAttributes& attributes, uint16_t event_fd,
                   const Request& request, Response& response, WriteCommand& out) {
    constexpr std::array<uint16_t, 1> kIn = {UVERBS_ATTR_UHW_IN}, kOut = {UVERBS_ATTR_UHW_OUT};
    if (!attributes.pointers_are_good(kIn, false) || !attributes.pointers_are_good(kOut, true))
        return EFAULT;
    out = {.in = {&request, sizeof request},
           .out = {&response, sizeof response},
           .driver_in = attributes.in(UVERBS_ATTR_UHW_IN),
           .driver_out = attributes.out(UVERBS_ATTR_UHW_OUT),
           .async = context.default_async};
    if (!attributes.has(event_fd)) return 0;
    const auto fd = read_fd(attributes, event_fd);
    if (!fd) return EINVAL;
    const auto file = fd_table::find_of<AsyncFile>(context.serial, *fd);
    if (!file) return EBADF;
    out.async = file->pipe();
    return 0;
}

} // namespace

Errno create_cq_method(Context& context, const IoctlAttributes& attributes) {
    ib_uverbs_ex_create_cq request{};
    request.user_handle = read_number<uint64_t>(attributes, UVERBS_ATTR_CREATE_CQ_USER_HANDLE);
    request.cqe = read_number(attributes, UVERBS_ATTR_CREATE_CQ_CQE);
    request.comp_vector = read_number(attributes, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR);
    request.comp_channel = -1;
    if (attributes.has(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL)) {
        const auto channel = read_fd(attributes, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL);
        if (!channel) return EINVAL;
        if (*channel < 0) return EBADF;
        request.comp_channel = *channel;
    }
    request.flags = read_number(attributes, UVERBS_ATTR_CREATE_CQ_FLAGS);
    ib_uverbs_ex_create_cq_resp response{};
    WriteCommand command;
    if (const Errno error = read_command(context, attributes, UVERBS_ATTR_CREATE_CQ_EVENT_FD,
                                         request, response, command))
        return error;
    if (attributes.has(kCreateCqUarIndex)) command.uar = read_number(attributes, kCreateCqUarIndex);
    if (const Errno error = create_cq_ex(context, command)) return error;
    attributes.set_handle(UVERBS_ATTR_CREATE_CQ_HANDLE, response.base.cq_handle);
    attributes.out(UVERBS_ATTR_CREATE_CQ_RESP_CQE).put(response.base.cqe);
    return 0;
}

Errno create_qp_method(Context& context, const IoctlAttributes& attributes) {
    ib_uverbs_ex_create_qp request{};
    if (!attributes.has(UVERBS_ATTR_CREATE_QP_PD_HANDLE)) return ENOENT; // or it is an XRC target
    Errno error =
        read_handle<Pd>(context, attributes, UVERBS_ATTR_CREATE_QP_PD_HANDLE, request.pd_handle);
    if (!error)
        error = read_handle<Cq>(context, attributes, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE,
                                request.send_cq_handle);
    if (!error)
        error = read_handle<Cq>(context, attributes, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE,
                                request.recv_cq_handle);
    if (!error)
        error = read_handle<IndirectionTable>(context, attributes,
                                              UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE,
                                              request.rwq_ind_tbl_handle);
    if (error) return error;
    const auto cap = attributes.in(UVERBS_ATTR_CREATE_QP_CAP).as<ib_uverbs_qp_cap>();
    const uint32_t flags = read_number(attributes, UVERBS_ATTR_CREATE_QP_FLAGS);
    request.user_handle = read_number<uint64_t>(attributes, UVERBS_ATTR_CREATE_QP_USER_HANDLE);
    request.max_send_wr = cap.max_send_wr;
    request.max_recv_wr = cap.max_recv_wr;
    request.max_send_sge = cap.max_send_sge;
    request.max_recv_sge = cap.max_recv_sge;
    request.max_inline_data = cap.max_inline_data;
    request.qp_type = read_number<uint8_t>(attributes, UVERBS_ATTR_CREATE_QP_TYPE);
    request.sq_sig_all = (flags & IB_UVERBS_QP_CREATE_SQ_SIG_ALL) != 0;
    request.create_flags = flags & ~uint32_t{IB_UVERBS_QP_CREATE_SQ_SIG_ALL};
    request.source_qpn = read_number(attributes, UVERBS_ATTR_CREATE_QP_SOURCE_QPN);
    request.is_srq = attributes.has(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE);
    if (attributes.has(UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE))
        request.comp_mask = IB_UVERBS_CREATE_QP_MASK_IND_TABLE;

    ib_uverbs_ex_create_qp_resp response{};
    WriteCommand command;
    error = read_command(context, attributes, UVERBS_ATTR_CREATE_QP_EVENT_FD, request, response,
                         command);
    if (!error) error = create_qp_ex(context, command);
    if (error) return error;
    attributes.set_handle(UVERBS_ATTR_CREATE_QP_HANDLE, response.base.qp_handle);
    attributes.out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM).put(response.base.qpn);
    attributes.out(UVERBS_ATTR_CREATE_QP_RESP_CAP)
        .put(ib_uverbs_qp_cap{.max_send_wr = response.base.max_send_wr,
                              .max_recv_wr = response.base.max_recv_wr,
                              .max_send_sge = response.base.max_send_sge,
                              .max_recv_sge = response.base.max_recv_sge,
                              .max_inline_data = response.base.max_inline_data});
    return 0;
}

Errno create_wq_method(Context& context, const IoctlAttributes& attributes) {
    ib_uverbs_ex_create_wq request{};
    Errno error =
        read_handle<Pd>(context, attributes, UVERBS_ATTR_CREATE_WQ_PD_HANDLE, request.pd_handle);
    if (!error)
        error = read_handle<Cq>(context, attributes, UVERBS_ATTR_CREATE_WQ_CQ_HANDLE,
                                request.cq_handle);
    if (error) return error;
    request.user_handle = read_number<uint64_t>(attributes, UVERBS_ATTR_CREATE_WQ_USER_HANDLE);
    request.wq_type = read_number(attributes, UVERBS_ATTR_CREATE_WQ_TYPE);
    request.max_wr = read_number(attributes, UVERBS_ATTR_CREATE_WQ_MAX_WR);
    request.max_sge = read_number(attributes, UVERBS_ATTR_CREATE_WQ_MAX_SGE);
    request.create_flags = read_number(attributes, UVERBS_ATTR_CREATE_WQ_FLAGS);
    if (request.create_flags & ~kWqFlags) return EINVAL;

    ib_uverbs_ex_create_wq_resp response{};
    WriteCommand command;
    error = read_command(context, attributes, UVERBS_ATTR_CREATE_WQ_EVENT_FD, request, response,
                         command);
    if (!error) error = create_wq(context, command);
    if (error) return error;
    attributes.set_handle(UVERBS_ATTR_CREATE_WQ_HANDLE, response.wq_handle);
    attributes.out(UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR).put(response.max_wr);
    attributes.out(UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE).put(response.max_sge);
    attributes.out(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM).put(response.wqn);
    return 0;
}

} // namespace softhca::uverbs
