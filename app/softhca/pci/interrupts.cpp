// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/pci/interrupts.hpp"

#include <algorithm>
#include <cstring>

namespace softhca::pci {
namespace {

static_assert(BarLayout::kVectors == 32, "pending bits are one word");
constexpr uint32_t kMasked = 1; // in the fourth word of an entry

} // namespace

void Interrupts::deliver_by(Deliver deliver) {
    const std::lock_guard lock(mutex_);
    deliver_ = std::move(deliver);
}

void Interrupts::signal_by(Signal signal) {
    const std::lock_guard lock(mutex_);
    signal_ = std::move(signal);
}

uint32_t Interrupts::word(uint32_t vector, uint32_t index) const {
    uint32_t value;
    std::memcpy(&value, table_.data() + vector * kEntryBytes + index * 4, sizeof value);
    return value;
}

void Interrupts::raise(uint32_t vector) {
    if (vector >= BarLayout::kVectors) return;
    const std::lock_guard lock(mutex_);
    if (signal_) {
        signal_(vector);
        return;
    }
    pending_ |= 1u << vector;
    deliver_pending();
}

void Interrupts::deliver_pending() {
    if (!enabled_ || !deliver_) return;
    for (uint32_t vector = 0; vector < BarLayout::kVectors; vector++) {
        if (!(pending_ >> vector & 1) || word(vector, 3) & kMasked) continue;
        pending_ &= ~(1u << vector);
        deliver_(uint64_t{word(vector, 1)} << 32 | word(vector, 0), word(vector, 2));
    }
}

void Interrupts::set_enabled(bool enabled) {
    const std::lock_guard lock(mutex_);
    enabled_ = enabled;
    deliver_pending();
}

void Interrupts::reset() {
    const std::lock_guard lock(mutex_);
    enabled_ = false;
    pending_ = 0;
    table_ = {};
    for (uint32_t vector = 0; vector < BarLayout::kVectors; vector++)
        std::memcpy(table_.data() + vector * kEntryBytes + 12, &kMasked, sizeof kMasked);
}

uint64_t Interrupts::read_table(uint32_t at, uint32_t bytes) const {
    const std::lock_guard lock(mutex_);
    uint64_t value = 0;
    if (at < kTableBytes)
        std::memcpy(&value, table_.data() + at, std::min(bytes, kTableBytes - at));
    return value;
}

void Interrupts::write_table(uint32_t at, uint64_t value, uint32_t bytes) {
    const std::lock_guard lock(mutex_);
    if (at >= kTableBytes) return;
    std::memcpy(table_.data() + at, &value, std::min(bytes, kTableBytes - at));
    deliver_pending();
}

uint64_t Interrupts::read_pending(uint32_t at, uint32_t bytes) const {
    const std::lock_guard lock(mutex_);
    uint64_t value = 0;
    if (at < sizeof pending_)
        std::memcpy(&value, reinterpret_cast<const char*>(&pending_) + at,
                    std::min<size_t>(bytes, sizeof pending_ - at));
    return value;
}

} // namespace softhca::pci
