// SPDX-License-Identifier: BSD-3-Clause
// The bytes that a fuzzer has chosen. What is missing at the end reads as zeros.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

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
    void fill(std::span<uint8_t> out) {
        const size_t count = std::min(out.size(), bytes_.size());
        std::fill(std::copy_n(bytes_.begin(), count, out.begin()), out.end(), uint8_t{0});
        bytes_ = bytes_.subspan(count);
    }

  private:
    std::span<const uint8_t> bytes_;
};

} // namespace fuzz
