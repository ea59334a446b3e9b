// SPDX-License-Identifier: BSD-3-Clause
// Where the device learns how far the owner of a queue has got.
#pragma once

#include "app/softhca/core/dma.hpp"

#include <cstddef>
#include <cstdint>

namespace softhca::core {

/// A doorbell register of the device. The code that plays the bus writes to it at any time; the
/// register outlives the queue that it belongs to.
class DoorbellRegister {
  public:
    DoorbellRegister() = default;
    DoorbellRegister(const DoorbellRegister&) = delete;
    DoorbellRegister& operator=(const DoorbellRegister&) = delete;

    /// Keeps what the owner wrote, in the owner's byte order.
    void write(uint32_t value) { __atomic_store_n(&value_, value, __ATOMIC_RELEASE); }

  private:
    friend class Doorbell;
    uint32_t value_ = 0;
};

/// The source of a doorbell: a record in its owner's memory, or a register. Device threads poll
/// both alike. The value is in the owner's byte order, which the ring format knows.
class Doorbell {
  public:
    Doorbell() = default; ///< none
    explicit Doorbell(DoorbellRegister& source) : value_(&source.value_) {}
    /// `value` is a part of the record, which outlives the queue unless its owner takes the memory
    /// away.
    template <class Record> [[nodiscard]] static Doorbell in(Record& record, uint32_t& value) {
        return {&value, reinterpret_cast<std::byte*>(&record), sizeof record};
    }

    [[nodiscard]] explicit operator bool() const { return value_ != nullptr; }
    [[nodiscard]] uint32_t load() const { return __atomic_load_n(value_, __ATOMIC_ACQUIRE); }
    void prefetch() const { __builtin_prefetch(value_); }
    void store(uint32_t value) const { __atomic_store_n(value_, value, __ATOMIC_RELEASE); }
    [[nodiscard]] uint32_t exchange(uint32_t value) const {
        return __atomic_exchange_n(value_, value, __ATOMIC_ACQ_REL);
    }

    /// The record, by which the queues of one QP identify each other; null for registers.
    [[nodiscard]] const void* record() const { return record_; }
    /// Whether this byte of the owner's memory belongs to the record.
    [[nodiscard]] bool lies_at(const void* address) const {
        return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(record_) < bytes_;
    }

  private:
    Doorbell(uint32_t* value, std::byte* record, size_t bytes)
        : value_(value), record_(record), bytes_(bytes) {}

    uint32_t* value_ = nullptr;
    const std::byte* record_ = nullptr;
    size_t bytes_ = 0; ///< of the record
};

/// A CQ's doorbell: how far its consumer has got, and when it wants to be notified of completions.
struct CqDoorbell {
    Doorbell consumer, arm;
    [[nodiscard]] explicit operator bool() const { return consumer && arm; }
};

} // namespace softhca::core
