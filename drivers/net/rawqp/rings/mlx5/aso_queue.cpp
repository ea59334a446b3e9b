// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/mlx5/aso_queue.hpp"

#include "common/verbs/errno_text.hpp"
#include "drivers/net/rawqp/rings/mlx5/ordering.hpp"

#include <chrono>
#include <cstring>

namespace rawqp::mlx5rings {
namespace {

constexpr uint32_t kWqebbs = 2;
constexpr int kCqes = 4;
constexpr uint64_t kAllButReserved = 0x80ffffff; // of MeterParams' bytes, the first one in bit 31
constexpr uint32_t kRequests = 4;                // of which one is used at a time
constexpr auto kPatience = std::chrono::seconds(1);

tl::unexpected<Error> refuse(const char* what, int error) {
    return fail(error, "meters: {}: {}", what,
                verbs::errno_text(error, verbs::Attempt::create_send_qp));
}

} // namespace

struct AsoQueue::Wqe {
    mlx5::WqeCtrlSeg control; ///< `imm` is the object
    mlx5::WqeAsoCtrlSeg access;
    mlx5::MeterParams meters[2];
};

Result<std::unique_ptr<AsoQueue>> AsoQueue::make(const verbs::Api& api, ibv_context* context,
                                                 ibv_pd* pd, uint8_t ib_port) {
    std::unique_ptr<AsoQueue> made(new AsoQueue);
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = kCqes;
    made->cq_ = verbs::CqEx(ibv_create_cq_ex(context, &wanted), {api.destroy_cq});
    if (!made->cq_) return refuse("cannot create a CQ", errno);
    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RAW_PACKET;
    attributes.send_cq = attributes.recv_cq = ibv_cq_ex_to_cq(made->cq_.get());
    attributes.cap.max_send_wr = kRequests * kWqebbs;
    attributes.cap.max_send_sge = 1;
    made->qp_ = verbs::Qp(api.create_qp(pd, &attributes), {api.destroy_qp, "QP"});
    if (!made->qp_) return refuse("cannot create a QP", errno);
    if (auto mapped = made->map(api); !mapped) return tl::unexpected(mapped.error());
    if (auto ready = made->make_ready(api, ib_port); !ready) return tl::unexpected(ready.error());
    return made;
}

Result<void> AsoQueue::map(const verbs::Api& api) {
    auto mapped = map_cq(api, cq_.get(), kCqes, "meters");
    if (!mapped) return tl::unexpected(mapped.error());
    completions_ = *mapped;
    mlx5dv_qp qp{};
    mlx5dv_obj object{};
    object.qp.in = qp_.get();
    object.qp.out = &qp;
    if (const int error = api.mlx5_init_obj(&object, MLX5DV_OBJ_QP))
        return fail(error, "meters: libmlx5 does not map their SQ ({})", strerror(error));
    if (qp.sq.stride != mlx5::kWqebb || qp.sq.wqe_cnt < kWqebbs ||
        !rte_is_power_of_2(qp.sq.wqe_cnt))
        return fail(EINVAL,
                    "meters: their SQ has {} blocks of {} bytes, at least {} of {} are needed",
                    qp.sq.wqe_cnt, qp.sq.stride, kWqebbs, mlx5::kWqebb);
    wqes_ = static_cast<uint8_t*>(qp.sq.buf);
    wqebb_mask_ = qp.sq.wqe_cnt - 1;
    record_ = reinterpret_cast<mlx5::QueueDoorbell*>(qp.dbrec);
    register_ = static_cast<uint8_t*>(qp.bf.reg);
    register_size_ = qp.bf.size;
    return {};
}

Result<void> AsoQueue::make_ready(const verbs::Api& api, uint8_t ib_port) const {
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
        ibv_qp_attr attributes{};
        attributes.qp_state = state;
        attributes.port_num = ib_port;
        const int mask = IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0);
        if (const int error = api.modify_qp(qp_.get(), &attributes, mask))
            return fail(error, "meters: cannot bring their QP up: {}", strerror(error));
    }
    return {};
}

void AsoQueue::post(const Wqe& wqe) {
    static_assert(sizeof wqe == kWqebbs * mlx5::kWqebb);
    // The SQ is a whole number of such WQEs, so that none of them wraps.
    std::memcpy(wqes_ + size_t{producer_ & wqebb_mask_} * mlx5::kWqebb, &wqe, sizeof wqe);
    producer_ += kWqebbs;
    wqes_before_record();
    store_record(record_->send, producer_ & 0xffff);
    record_before_uar();
    uint64_t doorbell;
    std::memcpy(&doorbell, &wqe, sizeof doorbell);
    *reinterpret_cast<volatile uint64_t*>(register_ + register_offset_) = doorbell;
    flush_uar();
    register_offset_ ^= register_size_;
}

Result<void> AsoQueue::wait(uint32_t object) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    CqeState state;
    while ((state = completions_.state(completions_.consumer)) == CqeState::empty) {
        if (std::chrono::steady_clock::now() > deadline)
            return fail(ETIMEDOUT,
                        "meter object {}: the device has not answered within a second: "
                        "it is gone, or was reset",
                        object);
        rte_delay_us_sleep(10);
    }
    owner_before_content();
    const auto& failed = reinterpret_cast<const ErrorCqe&>(completions_.at(completions_.consumer));
    ++completions_.consumer;
    completions_.publish_consumer();
    if (state == CqeState::complete) return {};
    return fail(EIO, "meter object {}: the device refuses to change it (syndrome {:#x}, {:#x})",
                object, failed.syndrome, failed.vendor_syndrome);
}

Result<void> AsoQueue::write(uint32_t object, unsigned place, const mlx5::MeterParams& parameters) {
    Wqe wqe{};
    wqe.control.opmod_idx_opcode = uint32_t{mlx5::kAsoPolicer} << 24 | (producer_ & 0xffff) << 8 |
                                   static_cast<uint8_t>(mlx5::WqeOpcode::access_aso);
    wqe.control.qpn_ds = qp_->qp_num << 8 | sizeof wqe / mlx5::kSegment;
    wqe.control.fm_ce_se = mlx5::kCqUpdate;
    wqe.control.imm = object;
    wqe.access.data_mask_mode = mlx5::kAsoBytewise;
    wqe.access.operators = mlx5::kAsoAlwaysTrue << 4 | mlx5::kAsoAlwaysTrue;
    // The first meter's bytes are the upper half. Since a time stamp of zero, its buckets have
    // filled.
    wqe.access.data_mask = kAllButReserved << (place == 0 ? 32 : 0);
    wqe.meters[place] = parameters;
    post(wqe);
    return wait(object);
}

} // namespace rawqp::mlx5rings
