// SPDX-License-Identifier: BSD-3-Clause
// The consumer side of a mapped completion queue.
#pragma once

#include "common/result.hpp"
#include "common/verbs/api.hpp"
#include "drivers/net/rawqp/rings/ahead.hpp"
#include "drivers/net/rawqp/rings/mlx5/uar.hpp"

#include <algorithm>
#include <bit>

namespace rawqp::mlx5rings {

using mlx5::Cqe;
using mlx5::CqeOpcode;
using mlx5::ErrorCqe;

/// Who owns the next CQE and what it says.
enum class CqeState : uint8_t { empty, complete, compressed, error };

/// How far a CQ and the receive queue that it serves have been consumed, in eight bytes. Bursts
/// move it with a single store: if a process is killed in a burst, another may go on with the queue
/// and finds that either all of it has moved or nothing.
struct alignas(uint64_t) CqPlace {
    uint32_t consumer = 0;  ///< CQ entries; counts without end, 24 bits reach the device
    uint8_t block_left = 0; ///< packets of the present block not taken yet, or kLeaving
    uint8_t log_entries = 0;
    uint16_t rq_consumer = 0; ///< WQEs (striding queues: strides); counts without end

    /// The whole block was taken, but the consumer index still points at its title.
    static constexpr uint8_t kLeaving = UINT8_MAX;
    static_assert(mlx5::kMaxCompressed < kLeaving);

    /// Steps over `count` plain entries, of one WQE or stride each.
    void take(uint32_t count) { take(count, count); }
    /// Steps over `count` plain entries, of `of_rq` WQEs or strides in all.
    void take(uint32_t count, uint32_t of_rq) {
        // In one word, as compilers would take the fields apart: the overflow of rq_consumer is
        // lost.
        const auto word = std::bit_cast<uint64_t>(*this);
        const auto next = static_cast<uint32_t>(word + count);
        move_to((word >> 32 << 32) + (uint64_t{of_rq} << 48) + next);
    }
    /// Takes `count` packets of the present block, of `of_rq` WQEs or strides in all. After the
    /// last ones the block is to be left.
    void take_from_block(uint32_t count, uint32_t of_rq) {
        CqPlace next = *this;
        next.rq_consumer = static_cast<uint16_t>(next.rq_consumer + of_rq);
        next.block_left =
            next.block_left == count ? kLeaving : static_cast<uint8_t>(next.block_left - count);
        move_to(next);
    }
    [[nodiscard]] bool is_leaving() const { return block_left == kLeaving; }
    /// Steps over the present block, of `count` entries.
    void leave_block(uint32_t count) {
        CqPlace next = *this;
        next.consumer += count;
        next.block_left = 0;
        move_to(next);
    }
    [[nodiscard]] uint32_t packets_left() const { return is_leaving() ? 0 : block_left; }

  private:
    void move_to(const CqPlace& next) { move_to(std::bit_cast<uint64_t>(next)); }
    void move_to(uint64_t next) {
        using Word [[gnu::may_alias]] = uint64_t;
        rte_compiler_barrier(); // what led there stays before, what it allows stays after
        __atomic_store_n(reinterpret_cast<Word*>(this), next, __ATOMIC_RELAXED);
        rte_compiler_barrier();
    }
};
static_assert(sizeof(CqPlace) == sizeof(uint64_t) && offsetof(CqPlace, consumer) == 0 &&
              offsetof(CqPlace, rq_consumer) == 6 && std::endian::native == std::endian::little);

/// Entries are consumed in order. The owner bit of entry i in lap n of the ring is n & 1 once the
/// device has written it; entries never written have the opcode `invalid`. The CQ keeps its place
/// when its queue is reset, and whatever is left from before must be drained. The device writes
/// only some entries of a compressed block: what the others hold must not look new in the next lap.
struct Cq : CqPlace {
    Cqe* entries = nullptr;
    mlx5::CqDoorbell* doorbell = nullptr;
    uint32_t mask = 0;

    /// Bits of op_own that tell opcode and owner; solicited and format bits lie between.
    static constexpr uint8_t kOpcodeAndOwner = 0xf0 | mlx5::kOwnerMask;
    /// With the format bits: a plain CQE and no compressed block.
    static constexpr uint8_t kAllButSolicited = 0xf0 | mlx5::kCqeFormatMask | mlx5::kOwnerMask;
    /// op_own of an entry that was never written.
    static constexpr uint8_t kInvalid = static_cast<uint8_t>(CqeOpcode::invalid) << 4;

    /// op_own (within kAllButSolicited) of entry `index` when `opcode` has been completed there.
    [[nodiscard]] uint8_t expected(CqeOpcode opcode, uint32_t index) const {
        return static_cast<uint8_t>((static_cast<uint8_t>(opcode) << 4) |
                                    ((index >> log_entries) & mlx5::kOwnerMask));
    }
    [[nodiscard]] const Cqe& at(uint32_t index) const { return entries[index & mask]; }

    /// Prefetches the entry that will be needed two vector steps after `index`.
    void fetch_ahead(uint32_t index) const { __builtin_prefetch(&at(index + ahead::kCqes)); }

    /// Whether entry `index`, whose op_own was read, has not been written yet.
    [[nodiscard]] bool is_empty(uint8_t op_own, uint32_t index) const {
        return ((op_own ^ (index >> log_entries)) & mlx5::kOwnerMask) != 0 ||
               static_cast<CqeOpcode>(op_own >> 4) == CqeOpcode::invalid;
    }

    /// The state of an entry whose op_own was read. Anything but a good completion of a send or a
    /// receive counts as an error: this CQ serves one queue, which has no other kind.
    [[nodiscard]] CqeState classify(uint8_t op_own, uint32_t index) const {
        const auto opcode = static_cast<CqeOpcode>(op_own >> 4);
        if (is_empty(op_own, index)) return CqeState::empty;
        const uint8_t format = op_own & mlx5::kCqeFormatMask;
        if (opcode == CqeOpcode::resp_send && format == mlx5::kCqeFormatCompressed)
            return CqeState::compressed;
        const bool good = opcode == CqeOpcode::req || opcode == CqeOpcode::resp_send;
        return good && format == 0 ? CqeState::complete : CqeState::error;
    }
    [[nodiscard]] CqeState state(uint32_t index) const {
        return classify(load_op_own(at(index)), index);
    }

    [[nodiscard]] uint32_t entries_to_end() const { return mask + 1 - (consumer & mask); }

    /// Completions in the block with this title; 0 when no device writes such a title (a block of
    /// one would have its array outside itself).
    [[nodiscard]] static uint32_t completions(const Cqe& title) {
        const uint32_t count = title.byte_count;
        return count >= 2 && count <= mlx5::kMaxCompressed ? count : 0;
    }
    /// The array that holds completion `number` of the block whose title is entry `title`.
    [[nodiscard]] const mlx5::MiniCqe* mini_array(uint32_t title, uint32_t number) const {
        const uint32_t array = number / mlx5::kMiniCqes;
        const uint32_t entry = title + (array == 0 ? 1 : array * mlx5::kMiniCqes);
        return reinterpret_cast<const mlx5::MiniCqe*>(&at(entry));
    }
    void invalidate(uint32_t index) { entries[index & mask].op_own = kInvalid; }
    /// Steps over a block of `count` completions whose title is at the consumer index.
    void drop_block(uint32_t count) {
        for (uint32_t i = 1; i < count; ++i)
            invalidate(consumer + i);
        consumer += count;
    }

    void publish_consumer() const { store_record(doorbell->consumer, consumer & 0xffffff); }

    /// Steps over every entry that the device has written. Its queue is in reset or has nothing
    /// posted, so no more come. Returns how many were good completions.
    uint32_t drain() {
        uint32_t good = 0;
        for (CqeState next; (next = state(consumer)) != CqeState::empty;) {
            const uint32_t count = completions_at(consumer, next);
            good += next == CqeState::error ? 0 : count;
            drop_block(count);
        }
        publish_consumer();
        return good;
    }

    /// How many completions wait from entry `index` on, `limit` at most, where there may be blocks.
    [[nodiscard]] uint32_t waiting_in_blocks(uint32_t index, uint32_t limit) const {
        uint32_t count = 0;
        while (count < limit) {
            const CqeState next = state(index + count);
            if (next == CqeState::empty) return count;
            count += completions_at(index + count, next);
        }
        return limit;
    }

    /// How many completions wait, `limit` at most. Entries are written in order, so it bisects.
    [[nodiscard]] uint32_t waiting(uint32_t limit) const {
        uint32_t low = 0; // entries before it are complete
        uint32_t high = limit;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            if (state(consumer + middle) == CqeState::empty)
                high = middle;
            else
                low = middle + 1;
        }
        return low;
    }

  private:
    /// Entries that belong to the completion or block at `index`, whose state is not empty.
    [[nodiscard]] uint32_t completions_at(uint32_t index, CqeState now) const {
        if (now != CqeState::compressed) return 1;
        owner_before_content();
        return std::max(completions(at(index)), 1u);
    }
};

/// Requests an event from the device.
struct CqArm {
    RegisterSlot slot = 0; ///< of cq_registers
    uint32_t number = 0;   ///< of the CQ
    uint32_t events = 0;   ///< taken from the completion channel; two bits reach the device

    /// The device raises the event at once if its producer counter is past our consumer index.
    void request(const Cq& cq) const {
        constexpr uint32_t kCqDoorbell = 0x20; // MLX5_CQ_DOORBELL
        const uint32_t word = (events & 3) << 28 | (cq.consumer & 0xffffff);
        cq.publish_consumer();
        store_record(cq.doorbell->arm, word);
        const mlx5::be64 doorbell = uint64_t{word} << 32 | number;
        record_before_uar();
        *reinterpret_cast<volatile uint64_t*>(cq_registers[slot] + kCqDoorbell) = doorbell.raw;
        flush_uar();
    }
};

/// Maps the ring of `cq`, which must hold `min_entries`, and, for `arm`, the register in its slot.
/// `what` names the queue in errors.
[[nodiscard]] Result<Cq> map_cq(const verbs::Api& api, ibv_cq_ex* cq, uint32_t min_entries,
                                const std::string& what, CqArm* arm = nullptr);

} // namespace rawqp::mlx5rings
