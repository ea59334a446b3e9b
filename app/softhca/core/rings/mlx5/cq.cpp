// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/rings/mlx5/cq.hpp"

#include <algorithm>
#include <utility>

namespace softhca::core::mlx5_rings {

Cq::Cq(Number number, const CqAttr& attr)
    : core::Cq(number, attr), ring_(attr.ring),
      block_(attr.compress ? std::make_unique<CqeBlock>(*attr.compress) : nullptr),
      cqe_size_(attr.cqe_size), log_entries_(attr.log_entries),
      ignores_overrun_(attr.ignore_overrun), collapsed_(attr.collapsed),
      plain_(!block_ && !collapsed_), doorbell_(attr.doorbell) {
    if (has_events()) doorbell_.arm.store(kArmTaken);
}

/// The consumer counter is taken modulo twice the size: some consumers keep only 16 bits of it. A
/// value that no consumer can have reached counts as full.
uint32_t Cq::refresh_room() {
    if (full_) return 0;
    const uint32_t consumer = net::to_be(doorbell_.consumer.load());
    const uint32_t kept = block_ ? block_->size() : 0;
    const uint32_t used = (producer_ + kept - consumer) & (2 * entries() - 1);
    room_ = ignores_overrun_ ? entries() : entries() - std::min(used, entries());
    return room_;
}

/// Number of contiguous entries from this one on.
uint32_t Cq::together(uint32_t index) const {
    const uint32_t slot = index & (entries() - 1);
    const uint64_t in_memory = ring_.run(uint64_t{slot} * cqe_size_) / cqe_size_;
    return static_cast<uint32_t>(std::min<uint64_t>(entries() - slot, in_memory));
}

Cq::Row Cq::row(uint32_t most) {
    if (!plain_ || !has_room(1)) return {};
    Row row;
    row.first_ = entry_at(producer_);
    row.size_ = std::min({most, room_, together(producer_)});
    row.cqe_size_ = cqe_size_;
    row.op_own_ = op_own(mlx5::CqeOpcode::resp_send);
    return row;
}

/// A block ends at the ring's end: consumers (net_mlx5) walk it without wrapping around.
void Cq::keep(const mlx5::Cqe& cqe) {
    const uint32_t to_end = entries() - (producer_ & (entries() - 1));
    if (block_->size() == to_end || !block_->add(cqe)) {
        write_block();
        (void)block_->add(cqe); // an empty block takes anything
    }
    room_--;
    if (block_->size() == 1) begin_block();
}

void Cq::write_block() {
    if (!block_ || block_->size() == 0) return;
    const uint32_t count = block_->size();
    for (uint32_t at = 0; count > 1 && at < count; at += mlx5::kMiniCqes)
        std::memcpy(entry_at(producer_ + std::max(at, 1u)), block_->array(at / mlx5::kMiniCqes),
                    sizeof(mlx5::Cqe));

    mlx5::Cqe title = block_->first();
    if (count > 1) title.byte_count = count;
    std::byte* const to = entry_at(producer_);
    std::memcpy(to, &title, kBody);
    const uint8_t format = count > 1 ? mlx5::kCqeFormatCompressed : 0;
    finish(to, {title.sop_drop_qpn, title.wqe_counter, 0,
                static_cast<uint8_t>(op_own(mlx5::CqeOpcode::resp_send) | format)});
    producer_ += count;
    block_->clear();
    if (armed_ != Armed::none) raise(mlx5::CqeOpcode::resp_send);
}

Outcome<void> Cq::resize(const DmaArea& ring, uint8_t log_entries, uint8_t cqe_size) {
    if (failed()) return tl::unexpected(Status::bad_state);
    write_block(); // while the CQ is still armed for it
    const uint32_t waiting = entries() - refresh_room();
    if (waiting == entries()) return tl::unexpected(Status::busy);
    if (waiting >= 1u << log_entries) return tl::unexpected(Status::bad_parameter);
    if (block_ && cqe_size != sizeof(mlx5::Cqe)) return tl::unexpected(Status::bad_parameter);
    const Armed armed = std::exchange(armed_, Armed::none); // the mark is no completion to tell of
    const bool marked = write<mlx5::Cqe>(mlx5::CqeOpcode::resize, 0, 0, [](mlx5::Cqe&) {});
    armed_ = armed;
    if (!marked) return tl::unexpected(Status::bad_state);
    if (ends_to_ != producer_ - 1) ends_from_ = producer_ - 1;
    ends_to_ = producer_;
    ring_ = ring;
    log_entries_ = log_entries;
    cqe_size_ = cqe_size;
    room_ = 0; // determined again with the next CQE
    return {};
}

void Cq::ignore_overrun(bool ignore) {
    ignores_overrun_ = ignore;
    room_ = 0; // determined again with the next CQE
}

void Cq::raise(mlx5::CqeOpcode opcode) {
    const bool error =
        opcode == mlx5::CqeOpcode::req_error || opcode == mlx5::CqeOpcode::resp_error;
    if (armed_ == Armed::solicited && !error) return;
    if (armed_ == Armed::any) await_arm();
    tell_armed();
}

void Cq::look(CqView& view) const {
    constexpr uint32_t kCounterMask = 0xffffff;
    view = {.entries = entries(),
            .entry_bytes = cqe_size_,
            .producer = producer_ & kCounterMask,
            .consumer = net::to_be(doorbell_.consumer.load()) & kCounterMask,
            .armed = armed_ != Armed::none};
}

void Cq::tell_armed() {
    armed_ = Armed::none;
    told_++;
    tell();
}

void Cq::fill_up() {
    full_ = true;
    room_ = 0;
}

Cq::Arm Cq::poll_arm() {
    if (doorbell_.arm.load() == kArmTaken) return Arm::none;
    const uint32_t arm = net::to_be(doorbell_.arm.exchange(kArmTaken));
    constexpr uint32_t kCounterMask = 0xffffff, kSequenceMask = 3;
    // A request carries the number of events so far. Any other value is not a request: Linux writes
    // one, once a CQ is created, to keep a CQ that is only polled from being armed by its record.
    if (((arm >> mlx5::kCqArmSequenceShift ^ told_) & kSequenceMask) != 0) return Arm::none;
    armed_ = arm & mlx5::kCqArmSolicited ? Armed::solicited : Armed::any;
    // Completions that arrived before the request was seen: the consumer must be notified of them,
    // but not of the ends of rings. A solicited-only consumer may get one event too many this way,
    // never one too few.
    const uint32_t ends = ends_to_ == producer_ ? ends_to_ - ends_from_ : 0;
    if (((producer_ - arm) & kCounterMask) > ends) tell_armed();
    return armed_ == Armed::any ? Arm::any : Arm::some;
}

} // namespace softhca::core::mlx5_rings
