// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/rings/mlx5/compress.hpp"

#include <algorithm>
#include <cstring>

namespace softhca::core::mlx5_rings {
namespace {

/// The completion without what a block does not keep, or keeps in the mini CQE.
mlx5::Cqe common_part(mlx5::Cqe cqe) {
    // Neither format carries the other's result: that of the first completion stands for all.
    cqe.rx_hash_result = 0;
    cqe.check_sum = 0;
    cqe.byte_count = 0;
    cqe.timestamp = 0;
    cqe.wqe_counter = 0;
    cqe.signature = 0;
    cqe.op_own = 0;
    return cqe;
}

/// Strides that the completion uses up, or one WQE.
uint16_t steps(const mlx5::Cqe& cqe) {
    const auto strides = static_cast<uint16_t>(cqe.byte_count >> 16 & 0x7fff);
    return std::max<uint16_t>(strides, 1);
}

} // namespace

bool CqeBlock::fits(const mlx5::Cqe& cqe) const {
    if (count_ == minis_.size() || cqe.wqe_counter != next_counter_) return false;
    const mlx5::Cqe ours = common_part(first_), theirs = common_part(cqe);
    return std::memcmp(&ours, &theirs, sizeof ours) == 0;
}

uint32_t CqeBlock::result_of(const mlx5::Cqe& cqe) const {
    if (format_ == MiniFormat::hash) return cqe.rx_hash_result;
    const uint32_t check_sum = cqe.check_sum;
    const uint32_t stride = cqe.wqe_counter;
    return check_sum << 16 | (format_ == MiniFormat::checksum_stride ? stride : 0);
}

bool CqeBlock::add(const mlx5::Cqe& cqe) {
    if (count_ == 0) {
        first_ = cqe;
        minis_ = {};
    } else if (!fits(cqe)) {
        return false;
    }
    minis_[count_].result = result_of(cqe);
    minis_[count_].byte_count = cqe.byte_count;
    next_counter_ = static_cast<uint16_t>(cqe.wqe_counter + steps(cqe));
    count_++;
    return true;
}

} // namespace softhca::core::mlx5_rings
