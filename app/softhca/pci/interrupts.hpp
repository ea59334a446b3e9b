// SPDX-License-Identifier: BSD-3-Clause
// MSI-X: the table in the BAR, masking, pending bits.
#pragma once

#include "app/softhca/pci/config_space.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

namespace softhca::pci {

/// Thread-safe: EQs raise vectors from device threads while the guest writes the table.
class Interrupts {
  public:
    /// Delivers one message; called with a lock held that no other device call takes.
    using Deliver = std::function<void(uint64_t address, uint32_t data)>;
    void deliver_by(Deliver deliver);
    /// The alternative: the callee keeps table and masks itself and is notified of every vector
    /// that is raised, with the same lock held.
    using Signal = std::function<void(uint32_t vector)>;
    void signal_by(Signal signal);

    void raise(uint32_t vector);
    /// The function's enable and mask-all bits changed.
    void set_enabled(bool enabled);
    void reset();

    /// `at` counts from the start of the table; `bytes` up to 8.
    [[nodiscard]] uint64_t read_table(uint32_t at, uint32_t bytes) const;
    void write_table(uint32_t at, uint64_t value, uint32_t bytes);
    [[nodiscard]] uint64_t read_pending(uint32_t at, uint32_t bytes) const;

    static constexpr uint32_t kEntryBytes = 16;
    static constexpr uint32_t kTableBytes = BarLayout::kVectors * kEntryBytes;

  private:
    [[nodiscard]] uint32_t word(uint32_t vector, uint32_t index) const;
    void deliver_pending();

    mutable std::mutex mutex_;
    Deliver deliver_;
    Signal signal_;
    bool enabled_ = false;
    uint32_t pending_ = 0; ///< a bit per vector
    std::array<std::byte, kTableBytes> table_{};
};

} // namespace softhca::pci
