// SPDX-License-Identifier: BSD-3-Clause
// A queue of rte_flow operations: keeps what was done until the application asks for it.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace rawqp {

class FlowQueue {
  public:
    explicit FlowQueue(size_t size) : user_data_(size) {}

    [[nodiscard]] bool has_room() const { return count_ < user_data_.size(); }
    /// Results that the application has not asked for yet.
    [[nodiscard]] size_t waiting() const { return count_; }
    /// Another operation has succeeded; there must be room.
    void done(void* user_data) { user_data_[(first_ + count_++) % user_data_.size()] = user_data; }
    /// Hands out the results of the oldest operations, each once; returns how many.
    size_t pull(std::span<rte_flow_op_result> results) {
        const size_t taken = std::min(results.size(), count_);
        for (rte_flow_op_result& result : results.first(taken)) {
            result.status = RTE_FLOW_OP_SUCCESS;
            result.user_data = user_data_[first_];
            first_ = (first_ + 1) % user_data_.size();
        }
        count_ -= taken;
        return taken;
    }

  private:
    std::vector<void*> user_data_;
    size_t first_ = 0, count_ = 0;
};

} // namespace rawqp
