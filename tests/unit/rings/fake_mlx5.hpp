// SPDX-License-Identifier: BSD-3-Clause
// The device side of mapped mlx5 rings, in plain memory: tests write CQEs by hand and read back
// WQEs, doorbell records and UAR writes.
#pragma once

#include "common/mlx5/formats.hpp"
#include "drivers/net/rawqp/rings/mlx5/format.hpp"
#include "tests/unit/rings/fake_mrs.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace rings_test {

/// Cqe::rx_hash_type of IPv4 addresses, and of TCP ports as well.
inline constexpr uint8_t kHashedAddresses = 0x05, kHashedPorts = 0x55;

/// Initial content: invalid opcode, owned by the device.
inline constexpr uint8_t kFreshOpOwn = static_cast<uint8_t>(mlx5::CqeOpcode::invalid) << 4;

/// Rings start on a cache line, as providers' rings do.
template <class T> struct LineAllocator {
    using value_type = T;
    static constexpr std::align_val_t kLine{RTE_CACHE_LINE_SIZE};
    T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
    void deallocate(T* memory, size_t) { ::operator delete(memory, kLine); }
    bool operator==(const LineAllocator&) const = default;
};
template <class T> using RingVector = std::vector<T, LineAllocator<T>>;

struct FakeCq {
    explicit FakeCq(uint32_t entries) : ring(entries) {
        for (mlx5::Cqe& cqe : ring)
            cqe.op_own = kFreshOpOwn;
        handle.cq_context = this;
    }

    /// Writes the next CQE as the device does: contents first, then opcode and owner.
    void write(mlx5::Cqe cqe, mlx5::CqeOpcode opcode) {
        const auto size = static_cast<uint32_t>(ring.size());
        cqe.op_own = static_cast<uint8_t>(static_cast<uint8_t>(opcode) << 4 |
                                          (producer / size & mlx5::kOwnerMask));
        ring[producer++ % size] = cqe;
    }
    /// A compressed block: arrays first, the title last. Entries in between are left alone.
    void write_block(mlx5::Cqe title, const std::vector<mlx5::MiniCqe>& minis) {
        const auto size = static_cast<uint32_t>(ring.size());
        for (uint32_t i = 0; i < minis.size(); ++i) {
            const uint32_t array = i / mlx5::kMiniCqes;
            mlx5::Cqe& entry = ring[(producer + std::max(array * mlx5::kMiniCqes, 1u)) % size];
            memcpy(reinterpret_cast<uint8_t*>(&entry) + i % mlx5::kMiniCqes * sizeof minis[i],
                   &minis[i], sizeof minis[i]);
        }
        const auto count = static_cast<uint32_t>(minis.size());
        title.byte_count = count;
        title.op_own =
            static_cast<uint8_t>(static_cast<uint8_t>(mlx5::CqeOpcode::resp_send) << 4 |
                                 mlx5::kCqeFormatCompressed | (producer / size & mlx5::kOwnerMask));
        ring[producer % size] = title;
        producer += count;
    }
    void write_error(mlx5::CqeOpcode opcode, mlx5::CqeSyndrome syndrome, uint16_t wqe_counter) {
        mlx5::ErrorCqe error{};
        error.syndrome = static_cast<uint8_t>(syndrome);
        error.wqe_counter = wqe_counter;
        mlx5::Cqe cqe;
        memcpy(&cqe, &error, sizeof cqe);
        write(cqe, opcode);
    }

    RingVector<mlx5::Cqe> ring;
    mlx5::CqDoorbell doorbell{};
    uint32_t producer = 0;
    uint32_t cqe_size = sizeof(mlx5::Cqe);
    std::vector<uint64_t> uar = std::vector<uint64_t>(16);
    static constexpr uint32_t kNumber = 0x1234;
    ibv_cq_ex handle{};
};

struct FakeRq {
    FakeRq(uint32_t wqes, uint32_t segments) : segments_per_wqe(segments), ring(wqes * segments) {
        handle.wq_context = this;
    }
    [[nodiscard]] uint32_t wqes() const {
        return static_cast<uint32_t>(ring.size()) / segments_per_wqe;
    }

    uint32_t segments_per_wqe;
    RingVector<mlx5::WqeDataSeg> ring;
    mlx5::QueueDoorbell doorbell{};
    ibv_wq handle{};
};

struct FakeSq {
    static constexpr uint32_t kNumber = 0xabcde;
    static constexpr uint32_t kBlueFlame = 256; ///< bytes of one BlueFlame buffer

    explicit FakeSq(uint32_t wqebbs) : ring(wqebbs * mlx5::kWqebb, 0xee), uar(2 * kBlueFlame / 8) {
        handle.qp_context = this;
        handle.qp_num = kNumber;
    }
    [[nodiscard]] uint32_t wqebbs() const {
        return static_cast<uint32_t>(ring.size()) / mlx5::kWqebb;
    }

    /// The bytes of the WQE at WQEBB `index`, without the wrap-around.
    [[nodiscard]] std::vector<uint8_t> wqe(uint16_t index, uint32_t bytes) const {
        std::vector<uint8_t> out(bytes);
        for (uint32_t i = 0; i < bytes; ++i)
            out[i] = ring[(index * size_t{mlx5::kWqebb} + i) % ring.size()];
        return out;
    }
    template <class T> [[nodiscard]] T segment(uint16_t index, uint32_t number) const {
        const auto bytes = wqe(index, (number + 1) * mlx5::kSegment);
        T value;
        static_assert(sizeof value == mlx5::kSegment);
        memcpy(&value, &bytes[number * mlx5::kSegment], sizeof value);
        return value;
    }

    RingVector<uint8_t> ring;
    std::vector<uint64_t> uar;
    uint32_t blue_flame = kBlueFlame;
    mlx5::QueueDoorbell doorbell{};
    ibv_qp handle{};
};

inline constexpr uint32_t kFakePartId = 0x1019;                 ///< ConnectX-5 Ex
inline uint64_t fake_flags = MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW; ///< of mlx5dv_context

inline int fake_init_obj(mlx5dv_obj* object, uint64_t type) {
    if (type & MLX5DV_OBJ_CQ) {
        auto& cq = *static_cast<FakeCq*>(object->cq.in->cq_context);
        object->cq.out->buf = cq.ring.data();
        object->cq.out->dbrec = reinterpret_cast<__be32*>(&cq.doorbell);
        object->cq.out->cqe_cnt = static_cast<uint32_t>(cq.ring.size());
        object->cq.out->cqe_size = cq.cqe_size;
        object->cq.out->cq_uar = cq.uar.data();
        object->cq.out->cqn = FakeCq::kNumber;
    }
    if (type & MLX5DV_OBJ_RWQ) {
        auto& rq = *static_cast<FakeRq*>(object->rwq.in->wq_context);
        object->rwq.out->buf = rq.ring.data();
        object->rwq.out->dbrec = reinterpret_cast<__be32*>(&rq.doorbell);
        object->rwq.out->wqe_cnt = rq.wqes();
        object->rwq.out->stride = rq.segments_per_wqe * mlx5::kSegment;
    }
    if (type & MLX5DV_OBJ_QP) {
        auto& sq = *static_cast<FakeSq*>(object->qp.in->qp_context);
        object->qp.out->dbrec = reinterpret_cast<__be32*>(&sq.doorbell);
        object->qp.out->sq.buf = sq.ring.data();
        object->qp.out->sq.wqe_cnt = sq.wqebbs();
        object->qp.out->sq.stride = mlx5::kWqebb;
        object->qp.out->bf.reg = sq.uar.data();
        object->qp.out->bf.size = sq.blue_flame;
    }
    return 0;
}

inline const verbs::Api& fake_api() {
    static const verbs::Api api = [] {
        verbs::Api table;
        table.mlx5_init_obj = fake_init_obj;
        table.mlx5_is_supported = [](ibv_device*) { return true; };
        table.mlx5_query_device = [](ibv_context*, mlx5dv_context* details) {
            details->flags = fake_flags;
            return 0;
        };
        table.mlx5_get_clock_info = [](ibv_context*, mlx5dv_clock_info* info) {
            *info = fake_clock;
            return 0;
        };
        return table;
    }();
    return api;
}

} // namespace rings_test
