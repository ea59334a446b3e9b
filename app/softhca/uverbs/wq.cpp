// SPDX-License-Identifier: BSD-3-Clause
// Receive work queues and the indirection tables that RSS spreads over.
#include "app/softhca/core/rings/mlx5/doorbells.hpp"
#include "app/softhca/identity.hpp"
#include "app/softhca/uverbs/commands.hpp"

#include <bit>
#include <cerrno>
#include <infiniband/verbs.h>
#include <optional>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>

namespace softhca::uverbs {
namespace {

using core::Limits;
using core::QueueState;

// The values that mlx5_ib requests, and roughly how long it takes to rearm after a timeout.
constexpr uint64_t kDelayDropNs = 100'000'000, kDelayDropRearmNs = 1'000'000;

Errno read_striding(const mlx5_ib_create_wq& driver, std::optional<core::StridingAttr>& out) {
    if (driver.comp_mask & ~uint32_t{MLX5_IB_CREATE_WQ_STRIDING_RQ}) return EOPNOTSUPP;
    if (!(driver.comp_mask & MLX5_IB_CREATE_WQ_STRIDING_RQ)) return 0;
    const uint32_t bytes = driver.single_stride_log_num_of_bytes;
    const uint32_t strides = driver.single_wqe_log_num_of_strides;
    if (bytes < Limits::kLogMinStrideBytes || bytes > Limits::kLogMaxStrideBytes) return EINVAL;
    if (strides < kMinLogStrides || strides > Limits::kLogMaxStrides) return EINVAL;
    out = core::StridingAttr{.log_strides = static_cast<uint8_t>(strides),
                             .log_stride_bytes = static_cast<uint8_t>(bytes),
                             .two_byte_shift = driver.two_byte_shift_en != 0};
    return 0;
}

/// The device's attributes of a receive queue, checked.
Errno read_attributes(Context& context, const ib_uverbs_ex_create_wq& request,
                      const mlx5_ib_create_wq& driver, Wq& wq, core::RqAttr& out) {
    if (request.comp_mask) return EOPNOTSUPP;
    if (request.wq_type != IB_UVERBS_WQT_RQ) return EINVAL;
    if (request.create_flags & ~kWqFlags) return EOPNOTSUPP;
    if (driver.flags) return EOPNOTSUPP; // signed WQEs
    if (!is_doorbell_address(driver.db_addr)) return EINVAL;
    const Pd* pd = context.objects.find<Pd>(request.pd_handle);
    const Cq* cq = context.objects.find<Cq>(request.cq_handle);
    if (!pd) return context.objects.absence(request.pd_handle);
    if (!cq) return context.objects.absence(request.cq_handle);
    if (request.max_wr > 1u << Limits::kLogMaxRqWqes) return EINVAL;
    const uint32_t wqes = driver.rq_wqe_count;
    if (!std::has_single_bit(wqes) || wqes > 1u << Limits::kLogMaxRqWqes) return EINVAL;
    if (driver.rq_wqe_shift < 4 || 1u << std::min(driver.rq_wqe_shift, 31u) > kMaxReceiveWqeBytes)
        return EINVAL;
    if (const Errno error = read_striding(driver, out.striding)) return error;
    const uint64_t bytes = uint64_t{wqes} << driver.rq_wqe_shift;
    if (const Errno error = context.pin_queue(wq, driver.buf_addr, bytes, driver.db_addr))
        return error;
    auto ring = user_area(driver.buf_addr, bytes, true);
    out.doorbell =
        core::mlx5_rings::receive_doorbell(user_doorbell<mlx5::QueueDoorbell>(driver.db_addr));
    if (!ring || !out.doorbell) return EFAULT;
    out.pd = pd->number;
    out.cqn = cq->number;
    out.ring = std::move(*ring);
    out.log_wqes = static_cast<uint8_t>(std::countr_zero(wqes));
    out.log_wqe_bytes = static_cast<uint8_t>(driver.rq_wqe_shift);
    out.user_index = driver.user_index;
    out.vlan_strip = request.create_flags & IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING;
    out.scatter_fcs = request.create_flags & IB_UVERBS_WQ_FLAGS_SCATTER_FCS;
    out.delay_drop = request.create_flags & IB_UVERBS_WQ_FLAGS_DELAY_DROP;
    return 0;
}

std::optional<QueueState> queue_state(uint32_t ib_state) {
    switch (ib_state) {
    case IBV_WQS_RESET: return QueueState::reset;
    case IBV_WQS_RDY: return QueueState::ready;
    case IBV_WQS_ERR: return QueueState::error;
    default: return std::nullopt;
    }
}

} // namespace

Errno create_wq(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_ex_create_wq>();
    const auto driver = command.driver_in.as<mlx5_ib_create_wq>();
    if (command.driver_in.size() < offsetof(mlx5_ib_create_wq, single_stride_log_num_of_bytes))
        return EINVAL;
    if (command.driver_in.has_more_than(sizeof driver)) return EOPNOTSUPP;
    const size_t room = command.driver_out.size();
    if (room != 0 && room < sizeof(mlx5_ib_create_wq_resp)) return EINVAL;

    auto wq = std::make_unique<Wq>();
    wq->events.user_handle = request.user_handle;
    wq->events.fatal_event = IBV_EVENT_WQ_FATAL;
    wq->events.async = command.async;
    core::RqAttr attributes;
    if (const Errno error = read_attributes(context, request, driver, *wq, attributes))
        return error;
    attributes.listener = &context.events;
    attributes.cookie = reinterpret_cast<uint64_t>(&wq->events);
    const auto rqn = context.device->create_rq(attributes);
    if (!rqn) return errno_of(rqn);
    wq->rqn = *rqn;
    wq->description = {.attr = std::move(attributes),
                       .place = {.ring = driver.buf_addr, .record = driver.db_addr},
                       .pads_writes =
                           (request.create_flags & IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING) != 0};
    if (request.create_flags & IB_UVERBS_WQ_FLAGS_DELAY_DROP)
        context.device->set_delay_drop(kDelayDropNs, kDelayDropRearmNs);

    ib_uverbs_ex_create_wq_resp out{};
    out.wq_handle = context.objects.add(std::move(wq));
    out.max_wr = request.max_wr;
    out.max_sge = request.max_sge;
    out.wqn = *rqn;
    command.out.put(out);
    command.driver_out.put(mlx5_ib_create_wq_resp{});
    return 0;
}

Errno modify_wq(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_ex_modify_wq>();
    constexpr uint32_t kKnownMask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_FLAGS;
    if (request.attr_mask == 0 || request.attr_mask & ~kKnownMask) return EINVAL;
    const auto driver = command.driver_in.as<mlx5_ib_modify_wq>();
    if (driver.comp_mask || driver.reserved) return EOPNOTSUPP;
    Wq* wq = context.objects.find<Wq>(request.wq_handle);
    if (!wq) return context.objects.absence(request.wq_handle);
    const auto now = context.device->query_rq(wq->rqn);
    if (!now) return errno_of(now);
    if (request.attr_mask & IBV_WQ_ATTR_CURR_STATE) {
        const auto supposed = queue_state(request.curr_wq_state);
        // The device itself may have put the queue into error, and the program not know it yet.
        if (!supposed || (*now != QueueState::error && *supposed != *now)) return EINVAL;
    }
    const bool change = request.attr_mask & IBV_WQ_ATTR_STATE;
    const auto wanted = change ? queue_state(request.wq_state) : *now;
    if (!wanted) return EINVAL;
    if (*now == QueueState::error && *wanted == QueueState::ready) return EINVAL;
    if (request.attr_mask & IBV_WQ_ATTR_FLAGS) { // only these two flags are checked
        if (request.flags_mask & IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING) return EOPNOTSUPP;
        const bool strip = request.flags & IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING;
        // In mlx5_ib, the start of a WQ takes the place of this change.
        const bool starts = *now == QueueState::reset && *wanted == QueueState::ready;
        if (request.flags_mask & IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING && !starts) {
            if (const Errno error = errno_of(context.device->modify_rq_vlan_strip(wq->rqn, strip)))
                return error;
            wq->description.attr.vlan_strip = strip;
            wq->tell(prm::RqPart::vlan_strip);
        }
    }
    if (!change || *wanted == *now) return 0;
    if (*wanted == QueueState::ready)
        count_for_driver(*context.device, wq->rqn, wq->description, wq->known_to);
    return errno_of(context.device->modify_rq(wq->rqn, *wanted));
}

namespace {

/// `reported`: asynchronous events, which the program must have acknowledged.
Errno destroy(Context& context, uint64_t handle, uint32_t& reported) {
    return context.objects.destroy<Wq>(handle, *context.device, [&](Wq& wq) {
        reported = EventReporter::settle_async(wq.events);
    });
}

} // namespace

Errno destroy_wq(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_ex_destroy_wq>();
    if (request.comp_mask) return EOPNOTSUPP;
    ib_uverbs_ex_destroy_wq_resp out{};
    if (const Errno error = destroy(context, request.wq_handle, out.events_reported)) return error;
    command.out.put(out);
    return 0;
}

Errno destroy_wq_method(Context& context, const IoctlAttributes& attributes) {
    uint32_t reported = 0;
    const uint64_t handle = attributes.number(UVERBS_ATTR_DESTROY_WQ_HANDLE).value_or(0);
    if (const Errno error = destroy(context, handle, reported)) return error;
    attributes.out(UVERBS_ATTR_DESTROY_WQ_RESP).put(reported);
    return 0;
}

Errno create_rwq_ind_tbl(Context& context, const WriteCommand& command) {
    using Request = ib_uverbs_ex_create_rwq_ind_table;
    using Response = ib_uverbs_ex_create_rwq_ind_table_resp;
    const auto request = command.in.as<Request>();
    if (request.comp_mask) return EOPNOTSUPP;
    if (request.log_ind_tbl_size > IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE) return EINVAL;
    const size_t entries = size_t{1} << request.log_ind_tbl_size;
    const size_t known = sizeof(Request) + entries * sizeof(uint32_t);
    if (command.in.size() < known) return ENOSPC;
    if (command.in.has_more_than(known)) return EOPNOTSUPP;
    if (entries > Limits::kMaxRqtSize) return EINVAL;

    std::vector<core::Number> rqns;
    for (size_t i = 0; i < entries; i++) {
        uint32_t handle;
        std::memcpy(&handle, command.in.bytes().data() + sizeof(Request) + i * sizeof handle,
                    sizeof handle);
        const Wq* wq = context.objects.find<Wq>(handle);
        if (!wq) return context.objects.absence(handle);
        rqns.push_back(wq->rqn);
    }
    const auto rqt = context.device->create_rqt(rqns);
    if (!rqt) return errno_of(rqt);
    auto table = std::make_unique<IndirectionTable>();
    table->rqt = *rqt;
    table->rqns = std::move(rqns);
    Response out{};
    out.ind_tbl_handle = context.objects.add(std::move(table));
    out.ind_tbl_num = *rqt;
    command.out.put(out);
    command.driver_out.put(mlx5_ib_create_rwq_ind_tbl_resp{});
    return 0;
}

Errno destroy_rwq_ind_tbl(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_ex_destroy_rwq_ind_table>();
    if (request.comp_mask) return EOPNOTSUPP;
    return context.objects.destroy<IndirectionTable>(request.ind_tbl_handle, *context.device);
}

} // namespace softhca::uverbs
