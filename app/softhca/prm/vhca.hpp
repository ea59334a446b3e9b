// SPDX-License-Identifier: BSD-3-Clause
// The number by which commands distinguish the functions of a NIC. All devices of a process are
// functions of one NIC.
#pragma once

#include "app/softhca/core/device.hpp"

#include <cstdint>
#include <shared_mutex>

namespace softhca::prm {

/// The number of a device while it lives. Derived from its MAC address, so that it is the same at
/// each start; if another device has that number, the next free one. Never 0. Thread-safe.
class Vhca {
  public:
    /// `device` outlives it.
    explicit Vhca(const core::Device& device);
    ~Vhca();
    Vhca(const Vhca&) = delete;
    Vhca& operator=(const Vhca&) = delete;

    [[nodiscard]] uint16_t id() const { return id_; }

  private:
    uint16_t id_;
};

/// Another function's device, which is not destroyed while this lives.
struct FoundVhca {
    std::shared_lock<std::shared_mutex> held;
    const core::Device* device = nullptr; ///< null: there is none of that number
};
[[nodiscard]] FoundVhca find_vhca(uint64_t id);

} // namespace softhca::prm
