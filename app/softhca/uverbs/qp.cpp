// SPDX-License-Identifier: BSD-3-Clause
// RAW_PACKET queue pairs: an SQ, an RQ, and a TIR through which flows reach the RQ.
#include "app/softhca/core/rings/mlx5/doorbells.hpp"
#include "app/softhca/core/ste/entry.hpp"
#include "app/softhca/identity.hpp"
#include "app/softhca/uverbs/commands.hpp"

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>

namespace softhca::uverbs {
namespace {

using core::Limits;
using core::QueueState;

/// The attributes that both commands know (IB_QP_ATTR_STANDARD_BITS of the kernel).
constexpr uint32_t kStandardAttributes = (uint32_t{IBV_QP_DEST_QPN} << 1) - 1;

constexpr uint32_t kMaxUserIndex = 0xffffff;
constexpr uint32_t kNoBfreg =
    1u << 31; // MLX5_IB_INVALID_BFREG: doorbell pages are the program's own

/// For users who wonder why: libibverbs shows only the errno.
void tell_of_other_types(const Context& context, uint32_t type) {
    static std::atomic_flag told;
    if (told.test_and_set()) return;
    const char* const name = type == IBV_QPT_RC   ? "RC"
                             : type == IBV_QPT_UC ? "UC"
                             : type == IBV_QPT_UD ? "UD"
                                                  : "such";
    std::fputs(fmt::format("softhca: {}: no {} queue pairs (QP type {}): this device carries "
                           "Ethernet frames, by QPs of type RAW_PACKET only\n",
                           context.port.config.device, name, type)
                   .c_str(),
               stderr);
}

Errno check_flags(const Context& context, const ib_uverbs_ex_create_qp& request,
                  const mlx5_ib_create_qp& driver) {
    // As in mlx5_ib, a QP never receives its own multicast, whether it requests that or not.
    constexpr uint32_t kKnownFlags =
        IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK | IB_UVERBS_QP_CREATE_SCATTER_FCS |
        IB_UVERBS_QP_CREATE_CVLAN_STRIPPING | IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING;
    // libmlx5 always requests scatter to CQE; it has no effect on Ethernet queues.
    constexpr uint32_t kKnownDriverFlags =
        MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_ALLOW_SCATTER_CQE | MLX5_QP_FLAG_BFREG_INDEX |
        MLX5_QP_FLAG_UAR_PAGE_INDEX | MLX5_QP_FLAG_TUNNEL_OFFLOADS |
        MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC | MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC;
    if (request.qp_type != IB_UVERBS_QPT_RAW_PACKET) {
        tell_of_other_types(context, request.qp_type);
        return EINVAL; // so says the device
    }
    if (request.is_srq || request.source_qpn) return EINVAL;
    if (request.create_flags & ~kKnownFlags) return EOPNOTSUPP;
    if (driver.flags & MLX5_QP_FLAG_SIGNATURE) return EOPNOTSUPP; // signed WQEs
    if (driver.flags & ~kKnownDriverFlags || driver.uidx > kMaxUserIndex) return EINVAL;
    if (!is_doorbell_address(driver.db_addr)) return EINVAL;
    // There are no other doorbell registers than those that the program has allocated.
    return driver.flags & MLX5_QP_FLAG_UAR_PAGE_INDEX ? 0 : EINVAL;
}

Errno add_sq(Context& context, const ib_uverbs_ex_create_qp& request,
             const mlx5_ib_create_qp& driver, core::Number pd, Qp& qp) {
    const uint32_t wqebbs = driver.sq_wqe_count;
    if (wqebbs == 0) return 0;
    if (!std::has_single_bit(wqebbs) || wqebbs > 1u << Limits::kLogMaxWqebbs) return EINVAL;
    const Cq* cq = context.objects.find<Cq>(request.send_cq_handle);
    if (!cq) return context.objects.absence(request.send_cq_handle);
    auto registers = context.registers_of(driver.bfreg_index);
    if (!registers) return EINVAL;
    const uint64_t bytes = uint64_t{wqebbs} * mlx5::kWqebb;
    if (const Errno error = context.pin_queue(qp, driver.sq_buf_addr, bytes, driver.db_addr))
        return error;
    auto ring = user_area(driver.sq_buf_addr, bytes, true);
    auto* doorbell = user_doorbell<mlx5::QueueDoorbell>(driver.db_addr);
    if (!ring || !doorbell) return EFAULT;
    qp.sq = {.attr = {.pd = pd,
                      .cqn = cq->number,
                      .transport_domain = context.transport_domain,
                      .ring = std::move(*ring),
                      .doorbell = core::mlx5_rings::send_doorbell(doorbell),
                      .registers = std::move(registers),
                      .log_wqebbs = static_cast<uint8_t>(std::countr_zero(wqebbs)),
                      .user_index = driver.uidx,
                      .listener = &context.events,
                      .cookie = reinterpret_cast<uint64_t>(&qp.events)},
             .place = {driver.sq_buf_addr, driver.db_addr, driver.bfreg_index}};
    const auto sqn = context.device->create_sq(qp.sq.attr);
    if (!sqn) return errno_of(sqn);
    qp.sqn = *sqn;
    return 0;
}

Errno add_rq(Context& context, const ib_uverbs_ex_create_qp& request,
             const mlx5_ib_create_qp& driver, core::Number pd, Qp& qp) {
    if (request.max_recv_wr == 0) return 0;
    if (request.max_recv_wr > 1u << Limits::kLogMaxRqWqes) return EINVAL;
    const uint32_t wqes = driver.rq_wqe_count;
    if (!std::has_single_bit(wqes) || wqes > 1u << Limits::kLogMaxRqWqes) return EINVAL;
    if (driver.rq_wqe_shift < 4 || 1u << std::min(driver.rq_wqe_shift, 31u) > kMaxReceiveWqeBytes)
        return EINVAL;
    const Cq* cq = context.objects.find<Cq>(request.recv_cq_handle);
    if (!cq) return context.objects.absence(request.recv_cq_handle);
    const uint64_t bytes = uint64_t{wqes} << driver.rq_wqe_shift;
    if (const Errno error = context.pin_queue(qp, driver.buf_addr, bytes, driver.db_addr))
        return error;
    auto ring = user_area(driver.buf_addr, bytes, true);
    auto* doorbell = user_doorbell<mlx5::QueueDoorbell>(driver.db_addr);
    if (!ring || !doorbell) return EFAULT;
    const auto requested = [&](uint32_t flag) { return (request.create_flags & flag) != 0; };
    qp.rq = {.attr = {.pd = pd,
                      .cqn = cq->number,
                      .ring = std::move(*ring),
                      .doorbell = core::mlx5_rings::receive_doorbell(doorbell),
                      .log_wqes = static_cast<uint8_t>(std::countr_zero(wqes)),
                      .log_wqe_bytes = static_cast<uint8_t>(driver.rq_wqe_shift),
                      .user_index = driver.uidx,
                      .vlan_strip = requested(IB_UVERBS_QP_CREATE_CVLAN_STRIPPING),
                      .scatter_fcs = requested(IB_UVERBS_QP_CREATE_SCATTER_FCS),
                      .striding = std::nullopt,
                      .listener = &context.events,
                      .cookie = reinterpret_cast<uint64_t>(&qp.events)},
             .place = {.ring = driver.buf_addr, .record = driver.db_addr},
             .pads_writes = requested(IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING)};
    const auto rqn = context.device->create_rq(qp.rq.attr);
    if (!rqn) return errno_of(rqn);
    qp.rqn = *rqn;
    // As mlx5_ib, which tells what the ring has room for.
    qp.max_recv_wr = wqes;
    qp.max_recv_sge = (1u << driver.rq_wqe_shift) / uint32_t{sizeof(mlx5::WqeDataSeg)};
    core::TirAttr direct;
    direct.rqn = *rqn;
    direct.tunnels = (driver.flags & MLX5_QP_FLAG_TUNNEL_OFFLOADS) != 0;
    return add_tir(context, direct, driver.flags, qp);
}

/// The numbers by which commands refer to the QP's parts.
void tell_numbers(Context& context, Qp& qp, mlx5_ib_create_qp_resp& out) {
    if (qp.sqn) {
        qp.sq.tisn = context.devx->make_tis();
        out.comp_mask |= MLX5_IB_CREATE_QP_RESP_MASK_SQN | MLX5_IB_CREATE_QP_RESP_MASK_TISN;
        out.sqn = qp.sqn;
        out.tisn = qp.sq.tisn;
    }
    if (qp.rqn) {
        out.comp_mask |= MLX5_IB_CREATE_QP_RESP_MASK_RQN;
        out.rqn = qp.rqn;
        tell_tir(qp, out);
    }
}

/// Creates the QP and fills in what both forms of the command answer.
Errno make_qp(Context& context, const ib_uverbs_ex_create_qp& request, const WriteCommand& command,
              ib_uverbs_create_qp_resp& out) {
    // Anyone may learn that there are no others.
    if (request.qp_type == IB_UVERBS_QPT_RAW_PACKET)
        if (const Errno error = may_use_raw_packets()) return error;
    if (command.driver_in.size() < offsetof(mlx5_ib_create_qp, ece_options)) return EINVAL;
    const auto driver = command.driver_in.as<mlx5_ib_create_qp>();
    if (const Errno error = check_flags(context, request, driver)) return error;
    const Pd* pd = context.objects.find<Pd>(request.pd_handle);
    if (!pd) return context.objects.absence(request.pd_handle);
    if (driver.sq_wqe_count == 0 && request.max_recv_wr == 0) return EINVAL;

    auto qp = std::make_unique<Qp>();
    qp->pd = pd->number;
    qp->events.user_handle = request.user_handle;
    qp->events.fatal_event = IBV_EVENT_QP_FATAL;
    qp->events.async = command.async;
    qp->max_send_wr = request.max_send_wr;
    qp->max_send_sge = request.max_send_sge;
    qp->max_inline_data = request.max_inline_data;
    qp->signal_all = request.sq_sig_all;
    Errno error = add_sq(context, request, driver, pd->number, *qp);
    if (!error) error = add_rq(context, request, driver, pd->number, *qp);
    if (error) {
        (void)qp->destroy(*context.device);
        return error;
    }
    out.qpn = qp->sqn ? qp->sqn : qp->rqn;
    out.max_send_wr = request.max_send_wr;
    out.max_recv_wr = request.max_recv_wr;
    out.max_send_sge = request.max_send_sge;
    out.max_recv_sge = request.max_recv_sge;
    out.max_inline_data = request.max_inline_data;
    mlx5_ib_create_qp_resp driver_out{};
    driver_out.bfreg_index = kNoBfreg;
    if (context.devx) tell_numbers(context, *qp, driver_out);
    out.qp_handle = context.objects.add(std::move(qp));
    command.driver_out.put(driver_out);
    return 0;
}

/// Valid state transitions of RAW_PACKET QPs (ib_modify_qp_is_ok and mlx5_ib).
bool may_follow(uint8_t from, uint8_t to) {
    if (to == IBV_QPS_RESET) return true;
    if (to == IBV_QPS_ERR) return from != IBV_QPS_RESET;
    switch (from) {
    case IBV_QPS_RESET: return to == IBV_QPS_INIT;
    case IBV_QPS_INIT: return to == IBV_QPS_INIT || to == IBV_QPS_RTR;
    case IBV_QPS_RTR:
    case IBV_QPS_RTS: return to == IBV_QPS_RTS;
    default: return false;
    }
}

/// Attributes that a transition requires, and those that it also allows: for RAW_PACKET QPs
/// never IBV_QP_CUR_STATE (qp_state_table of the kernel).
bool attributes_fit(uint8_t from, uint8_t to, uint32_t mask) {
    const uint32_t rest = mask & ~uint32_t{IBV_QP_STATE};
    if (from == IBV_QPS_RESET && to == IBV_QPS_INIT) return rest == IBV_QP_PORT;
    if (to == IBV_QPS_RTS) return (rest & ~uint32_t{IBV_QP_RATE_LIMIT}) == 0;
    return rest == 0;
}

Errno move_queues(core::Device& device, const Qp& qp, QueueState sq, QueueState rq) {
    // A queue that was never started has nothing to flush.
    const auto skip = [](QueueState now, QueueState wanted) {
        return now == wanted || (now == QueueState::reset && wanted == QueueState::error);
    };
    if (qp.sqn) {
        const auto now = device.query_sq(qp.sqn);
        if (!now) return errno_of(now);
        if (!skip(*now, sq))
            if (const Errno error = errno_of(device.modify_sq(qp.sqn, sq))) return error;
    }
    if (qp.rqn) {
        const auto now = device.query_rq(qp.rqn);
        if (!now) return errno_of(now);
        if (!skip(*now, rq))
            if (const Errno error = errno_of(device.modify_rq(qp.rqn, rq))) return error;
    }
    return 0;
}

Errno make_receive(core::Device& device, Qp& qp) {
    if (qp.rqn) count_for_driver(device, qp.rqn, qp.rq, qp.known_to);
    return move_queues(device, qp, QueueState::reset, QueueState::ready);
}

Errno change_state(core::Device& device, Qp& qp, uint8_t to) {
    Errno error = 0;
    if (to == IBV_QPS_RESET)
        error = move_queues(device, qp, QueueState::reset, QueueState::reset);
    else if (to == IBV_QPS_ERR)
        error = move_queues(device, qp, QueueState::error, QueueState::error);
    else if (qp.state == IBV_QPS_RESET) // to INIT: what arrives finds no posted WQE before RTR
        error = make_receive(device, qp);
    else if (qp.state == IBV_QPS_RTR)
        error = move_queues(device, qp, QueueState::ready, QueueState::ready);
    else if (qp.state == IBV_QPS_RTS && qp.sqn && device.query_sq(qp.sqn) == QueueState::error)
        error = EINVAL; // it has failed by itself, and only a reset makes it ready
    // As mlx5_ib, which gives the rate back when the SQ leaves the ready state.
    if (!error && qp.sqn && (to == IBV_QPS_RESET || to == IBV_QPS_ERR))
        error = errno_of(device.pace_sq(qp.sqn, 0));
    if (!error) qp.state = to;
    return error;
}

Errno modify(Context& context, const ib_uverbs_modify_qp& request) {
    Qp* qp = context.objects.find<Qp>(request.qp_handle);
    if (!qp) return context.objects.absence(request.qp_handle);
    if (qp->rss) return EOPNOTSUPP;
    const uint32_t mask = request.attr_mask;
    if (mask & IBV_QP_PORT && request.port_num != 1) return EINVAL;
    const uint8_t to = mask & IBV_QP_STATE ? request.qp_state : qp->state;
    if (!may_follow(qp->state, to) || !attributes_fit(qp->state, to, mask)) return EINVAL;
    const Errno error = mask & IBV_QP_STATE ? change_state(*context.device, *qp, to) : 0;
    if (!error && mask & IBV_QP_PORT) qp->port = request.port_num;
    return error;
}

} // namespace

uint8_t state_of(const core::Device& device, const Qp& qp) {
    if (!qp.rqn) return qp.state;
    const auto rq = device.query_rq(qp.rqn);
    if (!rq) return IBV_QPS_ERR;
    if (*rq == QueueState::reset) return IBV_QPS_RESET;
    if (*rq == QueueState::error) return IBV_QPS_ERR;
    const bool sq_error = qp.sqn && device.query_sq(qp.sqn) == QueueState::error;
    return sq_error ? static_cast<uint8_t>(IBV_QPS_SQE) : qp.state;
}

void tell_tir(const Qp& qp, mlx5_ib_create_qp_resp& out) {
    out.comp_mask |= MLX5_IB_CREATE_QP_RESP_MASK_TIRN | MLX5_IB_CREATE_QP_RESP_MASK_TIR_ICM_ADDR;
    out.tirn = qp.tirn;
    out.tir_icm_addr = core::ste::address_of(core::ste::Place::tir, qp.tirn);
}

Errno add_tir(Context& context, core::TirAttr attr, uint32_t driver_flags, Qp& qp) {
    attr.transport_domain = context.transport_domain;
    attr.self_loopback = {.unicast = (driver_flags & MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC) != 0,
                          .multicast = (driver_flags & MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC) != 0};
    const auto tirn = context.device->create_tir(attr);
    if (!tirn) return errno_of(tirn);
    qp.tirn = *tirn;
    qp.tir = attr;
    if (attr.self_loopback.any())
        qp.self_loopback.emplace(context.port.loopback, LocalLoopback::Use::self_hearing_qp,
                                 *context.device);
    return 0;
}

Errno create_qp(Context& context, const WriteCommand& command) {
    const auto in = command.in.as<ib_uverbs_create_qp>();
    ib_uverbs_ex_create_qp request{};
    request.user_handle = in.user_handle;
    request.pd_handle = in.pd_handle;
    request.send_cq_handle = in.send_cq_handle;
    request.recv_cq_handle = in.recv_cq_handle;
    request.max_send_wr = in.max_send_wr;
    request.max_recv_wr = in.max_recv_wr;
    request.max_send_sge = in.max_send_sge;
    request.max_recv_sge = in.max_recv_sge;
    request.max_inline_data = in.max_inline_data;
    request.sq_sig_all = in.sq_sig_all;
    request.qp_type = in.qp_type;
    request.is_srq = in.is_srq;
    ib_uverbs_create_qp_resp out{};
    if (const Errno error = make_qp(context, request, command, out)) return error;
    command.out.put(out);
    return 0;
}

Errno create_qp_ex(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_ex_create_qp>();
    if (request.comp_mask & ~uint32_t{IB_UVERBS_CREATE_QP_MASK_IND_TABLE}) return EINVAL;
    if (request.comp_mask) return create_rss_qp(context, request, command);
    ib_uverbs_ex_create_qp_resp out{};
    if (const Errno error = make_qp(context, request, command, out.base)) return error;
    command.out.put(out);
    return 0;
}

Errno query_qp(Context& context, const WriteCommand& command) {
    const uint32_t handle = command.in.as<ib_uverbs_query_qp>().qp_handle;
    Qp* qp = context.objects.find<Qp>(handle);
    if (!qp) return context.objects.absence(handle);
    if (qp->rss) return EOPNOTSUPP;
    ib_uverbs_query_qp_resp out{};
    // As in mlx5_ib, which learns here that a queue has failed.
    out.qp_state = out.cur_qp_state = qp->state = state_of(*context.device, *qp);
    out.max_send_wr = qp->max_send_wr;
    out.max_recv_wr = qp->max_recv_wr;
    out.max_send_sge = qp->max_send_sge;
    out.max_recv_sge = qp->max_recv_sge;
    out.max_inline_data = qp->max_inline_data;
    out.port_num = 1;
    out.sq_sig_all = qp->signal_all;
    command.out.put(out);
    return 0;
}

Errno modify_qp(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_modify_qp>();
    if (request.attr_mask & ~kStandardAttributes) return EOPNOTSUPP;
    return modify(context, request);
}

Errno modify_qp_ex(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_ex_modify_qp>();
    if (request.base.attr_mask & ~(kStandardAttributes | IBV_QP_RATE_LIMIT)) return EOPNOTSUPP;
    const bool paces = request.base.attr_mask & IBV_QP_RATE_LIMIT;
    const Qp* const qp = context.objects.find<Qp>(request.base.qp_handle);
    // First, as a refusal leaves the QP in its state.
    if (paces && qp && !qp->rss && (!qp->sqn || request.rate_limit > Limits::kMaxRateKbps))
        return EINVAL;
    if (const Errno error = modify(context, request.base)) return error;
    if (paces)
        if (const Errno error = errno_of(context.device->pace_sq(qp->sqn, request.rate_limit)))
            return error;
    ib_uverbs_ex_modify_qp_resp out{};
    command.out.put(out);
    command.driver_out.put(mlx5_ib_modify_qp_resp{});
    return 0;
}

namespace {

Errno destroy(Context& context, uint64_t handle, const OutBuffer& answer) {
    ib_uverbs_destroy_qp_resp out{};
    const Errno error = context.objects.destroy<Qp>(handle, *context.device, [&](Qp& qp) {
        out.events_reported = EventReporter::settle_async(qp.events);
    });
    if (!error) answer.put(out);
    return error;
}

} // namespace

Errno destroy_qp(Context& context, const WriteCommand& command) {
    return destroy(context, command.in.as<ib_uverbs_destroy_qp>().qp_handle, command.out);
}

Errno destroy_qp_method(Context& context, const IoctlAttributes& attributes) {
    return destroy(context, attributes.number(UVERBS_ATTR_DESTROY_QP_HANDLE).value_or(0),
                   attributes.out(UVERBS_ATTR_DESTROY_QP_RESP));
}

} // namespace softhca::uverbs
