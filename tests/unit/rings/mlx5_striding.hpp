// SPDX-License-Identifier: BSD-3-Clause
// A striding receive queue on fake rings, with a device that fills the strides.
#pragma once

#include "tests/unit/rings/mlx5_rx.hpp"

namespace rings_test {

inline constexpr uint32_t kLogStrides = 3, kStrides = 1u << kLogStrides;
inline constexpr uint32_t kLogStrideBytes = 11, kStrideBytes = 1u << kLogStrideBytes;
inline constexpr uint32_t kFiller = 1u << 31;
inline constexpr uint16_t kCopyBytes = 128;
inline constexpr uint32_t kWqes = 8, kBuffers = 4 * kWqes;

class Mlx5StridingRing : public Mlx5Rx {
  protected:
    const rawqp::RingFormat& format = *rawqp::kMlx5Format.striding;

    void start(const RxSetup& setup = {}) {
        ASSERT_NO_FATAL_FAILURE(create(setup));
        const auto started = format.rx_start(*ring);
        ASSERT_TRUE(started) << started.error().what;
    }
    /// Does not start the queue.
    void create(const RxSetup& setup) {
        if (setup.own_pool == nullptr) {
            pool = test_eal::make_pool(setup.pool_size, setup.data_room, setup.cache);
            ASSERT_NE(pool, nullptr);
        }
        cq.emplace(setup.cq_entries);
        rq.emplace(kWqes, 2);
        spec.api = &fake_api();
        spec.cq = &cq->handle;
        spec.wq = &rq->handle;
        spec.port_id = kPort;
        spec.queue_id = kQueue;
        spec.descriptors = kWqes * kStrides;
        spec.segments = setup.segments;
        spec.offloads = setup.offloads;
        spec.compressed = setup.compressed;
        spec.real_time = setup.real_time;
        spec.active_simd_bits = simd_bits;
        spec.striding = {kLogStrides, kLogStrideBytes, kCopyBytes};
        spec.pool = setup.own_pool != nullptr ? setup.own_pool : pool.get();
        spec.mrs = &mrs.table;
        const auto created = format.rx_create(spec);
        ASSERT_TRUE(created) << created.error().what;
        ring = *created;
        ring->tell_all = setup.mark;
        if (setup.metadata) ask_for_metadata(*ring);
        mrs.on_reset = [this] {
            used_ = 0;
            return on_reset();
        };
        burst = format.rx_burst(spec);
    }
    void TearDown() override { stop(); }
    /// The reader's name without its options.
    [[nodiscard]] std::string name() const {
        const std::string cyclic = reader_name(simd_bits);
        return simd_bits == kScalar ? "mlx5 striding"
                                    : "mlx5 striding" + cyclic.substr(cyclic.find(' '));
    }
    void stop() {
        if (ring == nullptr) return;
        format.rx_stop(*ring);
        format.rx_destroy(ring);
        ring = nullptr;
    }

    [[nodiscard]] static uint32_t strides_for(uint32_t bytes) {
        return std::max((bytes + kStrideBytes - 1) / kStrideBytes, 1u);
    }
    /// Writes the device's next packet, after a filler completion if the WQE has no room for it.
    void place(uint32_t bytes, bool filler_in_block, std::vector<mlx5::MiniCqe>* minis) {
        const uint32_t strides = strides_for(bytes);
        if (used_ + strides > kStrides) {
            const uint32_t count = kFiller | (kStrides - used_) << 16;
            if (filler_in_block)
                minis->push_back({0, count});
            else
                complete(count, {});
            next_wqe();
        }
        ASSERT_GT(posted(), 0u);
        const mlx5::WqeDataSeg& data = rq->ring[consumed % kWqes * 2 + 1];
        ASSERT_EQ(data.byte_count, kStrides * kStrideBytes);
        ASSERT_EQ(data.lkey & ~1u, FakeMrs::kLkey);
        auto* to = reinterpret_cast<uint8_t*>(uint64_t{data.addr}) + used_ * kStrideBytes;
        for (uint32_t at = 0; at < bytes; ++at)
            to[at] = content(at);
        ++sequence;
    }
    void complete(uint32_t byte_count, mlx5::Cqe cqe) {
        cqe.byte_count = byte_count;
        cqe.wqe_id = consumed;
        cqe.wqe_counter = static_cast<uint16_t>(used_);
        cq->write(cqe, mlx5::CqeOpcode::resp_send);
    }
    void move_on(uint32_t strides) {
        used_ += strides;
        if (used_ == kStrides) next_wqe();
    }
    void next_wqe() {
        ++consumed;
        used_ = 0;
    }
    void deliver(uint32_t bytes, const mlx5::Cqe& cqe = {}) {
        place(bytes, false, nullptr);
        complete(strides_for(bytes) << 16 | bytes, cqe);
        move_on(strides_for(bytes));
    }
    void deliver(const Bytes& frame, const mlx5::Cqe& cqe) {
        own_frame = &frame;
        deliver(static_cast<uint32_t>(frame.size()), cqe);
        own_frame = nullptr;
    }
    /// In one block. Unlike real blocks, it may span WQEs, which makes no difference here.
    void deliver_block(const mlx5::Cqe& title, const std::vector<uint32_t>& sizes) {
        std::vector<mlx5::MiniCqe> minis;
        for (const uint32_t bytes : sizes) {
            place(bytes, true, &minis);
            minis.push_back({sequence, strides_for(bytes) << 16 | bytes});
            move_on(strides_for(bytes));
        }
        cq->write_block(title, minis);
    }
    uint32_t used_ = 0; ///< strides of the current WQE
};

} // namespace rings_test
