// SPDX-License-Identifier: BSD-3-Clause
// Observers of packets on their way through a device.
#pragma once

#include "app/softhca/core/types.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace softhca::core {

/// One packet's way through the device, or that of a failed send request.
struct Passage {
    enum class Direction : uint8_t { received, sent };
    /// Something that happened to it.
    struct Step {
        const char* where; ///< part of the device: "wire", "rules", "RQ" …
        std::string text;
    };

    const std::string* device = nullptr; ///< its name
    Direction direction{};
    uint64_t time = 0;              ///< device clock, ns
    Number queue = 0;               ///< first one that it came to, or that it came from; 0: none
    std::vector<std::byte> frame{}; ///< as it arrived; as its send request makes it. May be empty
    std::vector<Step> steps{};      ///< in order; only if somebody wants them
    std::string verdict{};          ///< what became of it, in short
};

/// Called on a device thread with the device locked: keep it short, never call back into Device.
class Observer {
  public:
    virtual ~Observer() = default;
    /// Whether Passage::steps are wanted. Does not change.
    [[nodiscard]] virtual bool wants_steps() const = 0;
    /// The packet's way has ended.
    virtual void on_packet(const Passage& passage) = 0;
};

} // namespace softhca::core
