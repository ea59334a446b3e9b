// SPDX-License-Identifier: BSD-3-Clause
// Doorbell pages of virtio queues (VARs) that programs have, allocated as the kernel's driver does.
#pragma once

#include "app/softhca/prm/virtio.hpp"

#include <bit>
#include <cstdint>
#include <mutex>
#include <optional>

namespace softhca::uverbs::devx {

/// Which of the device's VARs are taken. Thread-safe.
class VarTable {
  public:
    static constexpr unsigned kVars = 1u << prm::kLogVars;

    [[nodiscard]] std::optional<uint32_t> take() {
        const std::lock_guard lock(mutex_);
        const auto index = static_cast<uint32_t>(std::countr_one(taken_));
        if (index == kVars) return {};
        taken_ |= 1u << index;
        return index;
    }
    void give_back(uint32_t index) {
        const std::lock_guard lock(mutex_);
        taken_ &= ~(1u << index);
    }

  private:
    std::mutex mutex_;
    uint32_t taken_ = 0; ///< as a bit mask
    static_assert(kVars == 32);
};

} // namespace softhca::uverbs::devx
