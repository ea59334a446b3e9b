// SPDX-License-Identifier: BSD-3-Clause
// The page with the device clock's register, which the device thread writes, and the one that says
// how its ticks translate to real time; programs map both.
#pragma once

#include "common/fd.hpp"
#include "common/mlx5/formats.hpp"

#include <cstddef>

namespace softhca::uverbs {

/// A page that lives as long as the process: the device thread may write at any time.
class ClockPage {
  public:
    ClockPage();
    ClockPage(const ClockPage&) = delete;
    ClockPage& operator=(const ClockPage&) = delete;

    /// Null when the system has no memory for it: the device then has no readable clock.
    [[nodiscard]] mlx5::be64* clock() const { return clock_; }
    enum class Part : uint8_t { clock, info };
    /// As mmap(2), read-only.
    [[nodiscard]] void* map(Part part, void* address, size_t length, int flags) const;

    static constexpr size_t kBytes = 4096;

  private:
    Fd fd_;
    mlx5::be64* clock_ = nullptr;
};

} // namespace softhca::uverbs
