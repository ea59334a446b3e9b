// SPDX-License-Identifier: BSD-3-Clause
// A CQ of the mlx5 format: writes CQEs, watches for overrun, raises events.
#pragma once

#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/rings/mlx5/compress.hpp"
#include "common/lines.hpp"
#include "common/mlx5/formats.hpp"

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <emmintrin.h>
#include <memory>
#include <type_traits>

namespace softhca::core::mlx5_rings {

/// Used by the device thread with the device locked.
class Cq final : public core::Cq {
  public:
    Cq(Number number, const CqAttr& attr);

    /// True when `entries` CQEs can be written without overrun.
    [[nodiscard]] bool has_room(uint32_t entries) {
        return !failed() && (room_ >= entries || refresh_room() >= entries);
    }

    /// Whether a flushed request may complete now: others wait for room. A CQ that is full on
    /// request (fill_up) has none ever: there the completion is to overrun it.
    [[nodiscard]] bool may_flush() { return has_room(1) || (full_ && !failed()); }

    /// Writes one CQE, or holds it for a block, and raises the event if the CQ is armed. `qpn_word`
    /// and `wqe_counter` are at its end; `fill(Entry&)` sets whatever else is not zero, directly in
    /// the ring. Entry: mlx5::Cqe or mlx5::ErrorCqe. False on overrun: nothing is written, the CQ
    /// is in error for good and its owner has been notified.
    template <class Entry, class Fill>
    bool write(mlx5::CqeOpcode opcode, uint32_t qpn_word, uint16_t wqe_counter, Fill&& fill) {
        static_assert(sizeof(Entry) == kBody + sizeof(Tail));
        if (!has_room(1)) {
            fail();
            return false;
        }
        if (block_) {
            if constexpr (std::is_same_v<Entry, mlx5::Cqe>) {
                if (opcode == mlx5::CqeOpcode::resp_send) {
                    mlx5::Cqe cqe{};
                    fill(cqe);
                    cqe.sop_drop_qpn = qpn_word;
                    cqe.wqe_counter = wqe_counter;
                    keep(cqe);
                    return true;
                }
            }
            write_block();
        }
        std::byte* const to = entry_at(producer_);
        const Tail tail{qpn_word, wqe_counter, 0, op_own(opcode)};
        if (collapsed_) {
            Entry entry{};
            fill(entry);
            write_over(to, reinterpret_cast<const std::byte*>(&entry), tail);
        } else {
            std::memset(to, 0, kBody);
            fill(*reinterpret_cast<Entry*>(to));
            finish(to, tail);
        }
        producer_++;
        room_--;
        if (armed_ != Armed::none) raise(opcode);
        return true;
    }

    /// Contiguous entries, for successful completions: everything but the rare features of a CQ.
    class Row {
      public:
        [[nodiscard]] uint32_t size() const { return size_; }
        /// Writes one of them; `fill` sets everything but its end.
        template <class Fill>
        void write(uint32_t index, mlx5::be32 qpn_word, uint16_t wqe_counter, Fill&& fill) const {
            std::byte* const to = at(index);
            fill(*reinterpret_cast<mlx5::Cqe*>(to));
            finish(to, {qpn_word, wqe_counter, 0, op_own_});
        }
        void claim() const {
            for (uint32_t i = 0; i < size_; i++)
                claim_line(at(i));
        }

      private:
        friend Cq;
        [[nodiscard]] std::byte* at(uint32_t index) const {
            return first_ + uint64_t{index} * cqe_size_;
        }
        std::byte* first_ = nullptr;
        uint32_t size_ = 0;
        uint16_t cqe_size_ = 0;
        uint8_t op_own_ = 0;
    };
    /// This many entries, or fewer; none: use write() instead.
    [[nodiscard]] Row row(uint32_t most);
    /// The first `entries` of the row have been written.
    void end_row(uint32_t entries) {
        producer_ += entries;
        room_ -= entries;
        if (armed_ != Armed::none) raise(mlx5::CqeOpcode::resp_send);
    }

    /// Prefetches for writing the line of the CQE that is `ahead` entries later.
    void claim(uint32_t ahead) const { claim_line(entry_at(producer_ + ahead)); }

    [[nodiscard]] Outcome<void> resize(const DmaArea& ring, uint8_t log_entries,
                                       uint8_t cqe_size) override;
    void ignore_overrun(bool ignore) override;
    void write_block() override;
    [[nodiscard]] uint32_t producer() const { return producer_; }
    [[nodiscard]] uint32_t completions() const override {
        return producer_ + (block_ ? block_->size() : 0);
    }
    [[nodiscard]] bool keeps_last_only() const override { return collapsed_ && ignores_overrun_; }
    void pass_over(uint32_t completions) override { producer_ += completions; }
    [[nodiscard]] bool compresses() const override { return block_ != nullptr; }
    Arm poll_arm() override;
    [[nodiscard]] std::pair<Doorbell, uint32_t> arm_record() const override {
        return {doorbell_.arm, kArmTaken};
    }
    void fill_up() override;
    void look(CqView& view) const override;
    [[nodiscard]] bool works_on(const void* address) const override {
        return ring_.contains(address) || doorbell_.consumer.lies_at(address) ||
               doorbell_.arm.lies_at(address);
    }

  private:
    enum class Armed : uint8_t { none, any, solicited };

    /// The last eight bytes of every CQE.
    struct Tail {
        mlx5::be32 qpn_word;
        mlx5::be16 wqe_counter;
        uint8_t signature;
        uint8_t op_own;
    };
    static constexpr size_t kBody = sizeof(mlx5::Cqe) - sizeof(Tail);
    static_assert(sizeof(Tail) == 8 && offsetof(mlx5::Cqe, sop_drop_qpn) == kBody &&
                  offsetof(mlx5::ErrorCqe, wqe_opcode_qpn) == kBody);

    // A consumer may arm with a value equal to the record's initial zero (libmlx5's first arm
    // does), so the device marks an arm as taken with a value that no consumer writes.
    static constexpr uint32_t kArmTaken = ~0u;

    [[nodiscard]] uint8_t op_own(mlx5::CqeOpcode opcode) const {
        const auto owner = static_cast<uint8_t>((producer_ >> log_entries_) & mlx5::kOwnerMask);
        return static_cast<uint8_t>(static_cast<uint8_t>(opcode) << 4 | owner);
    }
    /// The owner bit must become visible last: it is written with the last eight bytes, in one
    /// store.
    static void finish(std::byte* entry, const Tail& tail) {
        __atomic_store_n(reinterpret_cast<uint64_t*>(entry + kBody), std::bit_cast<uint64_t>(tail),
                         __ATOMIC_RELEASE);
    }
    /// For the single entry that is overwritten each time: its last 16 bytes are written in one
    /// store, as the reader (net_mlx5) takes time and index together.
    static void write_over(std::byte* entry, const std::byte* body, const Tail& tail) {
        constexpr size_t kTogether = kBody - sizeof(uint64_t);
        // Not torn, as loads and stores of aligned vectors are atomic on all CPUs with AVX (Intel
        // SDM 3A, 9.1.1; AMD APM 2, 7.3.2).
        const auto last = _mm_set_epi64x(std::bit_cast<int64_t>(tail), load_word(body + kTogether));
        std::memcpy(entry, body, kTogether);
        std::atomic_thread_fence(std::memory_order_release);
        _mm_store_si128(reinterpret_cast<__m128i*>(entry + kTogether), last);
    }
    [[nodiscard]] static int64_t load_word(const std::byte* from) {
        int64_t word;
        std::memcpy(&word, from, sizeof word);
        return word;
    }
    void keep(const mlx5::Cqe& cqe);

    [[nodiscard]] uint32_t entries() const { return 1u << log_entries_; }
    [[nodiscard]] std::byte* entry_at(uint32_t index) const {
        const uint64_t slot = collapsed_ ? 0 : index & (entries() - 1);
        return ring_.at(slot * cqe_size_ + (cqe_size_ - sizeof(mlx5::Cqe)));
    }

    [[nodiscard]] uint32_t together(uint32_t index) const;
    uint32_t refresh_room();
    void raise(mlx5::CqeOpcode opcode);
    void tell_armed();

    DmaArea ring_;
    std::unique_ptr<CqeBlock> block_; ///< null: every completion is a CQE of its own
    uint32_t producer_ = 0;
    uint32_t told_ = 0; ///< completion events so far
    /// The last entries that are ends of rings, one after the other: see resize().
    uint32_t ends_from_ = 0, ends_to_ = 0;
    uint32_t room_ = 0; ///< entries known to be free; the truth may be more
    uint16_t cqe_size_;
    uint8_t log_entries_;
    Armed armed_ = Armed::none;
    bool full_ = false; ///< see fill_up()
    bool ignores_overrun_, collapsed_;
    bool plain_; ///< each completion is a CQE of its own, in an entry of its own
    CqDoorbell doorbell_;
};

/// Queues over rings of this format complete in CQs of this format.
[[nodiscard]] inline Cq& cq_of(Queue& queue) { return static_cast<Cq&>(*queue.cq); }

} // namespace softhca::core::mlx5_rings
