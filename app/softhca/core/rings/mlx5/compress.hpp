// SPDX-License-Identifier: BSD-3-Clause
// Completions that differ little, gathered to be written as one block of mini CQEs.
#pragma once

#include "app/softhca/core/types.hpp"
#include "common/mlx5/formats.hpp"

#include <array>

namespace softhca::core::mlx5_rings {

/// The block being gathered. Lives for at most one round of the device thread.
class CqeBlock {
  public:
    explicit CqeBlock(MiniFormat format) : format_(format) {}

    /// Adds the completion if it fits the others.
    [[nodiscard]] bool add(const mlx5::Cqe& cqe);

    [[nodiscard]] uint32_t size() const { return count_; }
    /// The first completion; the only one in a block of one.
    [[nodiscard]] const mlx5::Cqe& first() const { return first_; }
    /// Mini CQEs from 8 * `array` on; what follows the last one is zero.
    [[nodiscard]] const mlx5::MiniCqe* array(uint32_t number) const {
        return &minis_[number * mlx5::kMiniCqes];
    }
    void clear() { count_ = 0; }

  private:
    [[nodiscard]] bool fits(const mlx5::Cqe& cqe) const;
    [[nodiscard]] uint32_t result_of(const mlx5::Cqe& cqe) const;

    mlx5::Cqe first_{};
    std::array<mlx5::MiniCqe, mlx5::kMaxCompressed> minis_{};
    uint32_t count_ = 0;
    uint16_t next_counter_ = 0; ///< wqe_counter that continues the block
    MiniFormat format_;
};

} // namespace softhca::core::mlx5_rings
