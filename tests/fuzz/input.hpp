// SPDX-License-Identifier: BSD-3-Clause
// The bytes that a fuzzer has chosen. Past their end, zeros are read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace fuzz {

class Input {
  public:
    explicit Input(std::span<const uint8_t> bytes) : bytes_(bytes) {}
    [[nodiscard]] bool empty() const { return bytes_.empty(); }
    uint8_t byte() {
        uint8_t value = 0;
        fill({&value, 1});
        return value;
    }
    /// Low byte first.
    uint16_t two_bytes() {
        const uint8_t low = byte();
        return static_cast<uint16_t>(low | byte() << 8);
    }
    /// At most `count` bytes.
    std::vector<uint8_t> take(size_t count) {
        std::vector<uint8_t> taken(std::min(count, bytes_.size()));
        fill(taken);
        return taken;
    }
    /// All remaining bytes.
    std::string text() {
        const auto rest = std::exchange(bytes_, {});
        return {rest.begin(), rest.end()};
    }
    void fill(std::span<uint8_t> out) {
        const size_t count = std::min(out.size(), bytes_.size());
        std::fill(std::copy_n(bytes_.begin(), count, out.begin()), out.end(), uint8_t{0});
        bytes_ = bytes_.subspan(count);
    }

  private:
    std::span<const uint8_t> bytes_;
};

} // namespace fuzz
