// SPDX-License-Identifier: BSD-3-Clause
// Memory for rules. An application may have many alike and make and destroy them by the thousand,
// so the heap is asked for several at a time.
#pragma once

#include "common/poison.hpp"
#include "drivers/net/rawqp/ethdev/flow/rule.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace rawqp {

class RulePool final : public RuleMemory {
  public:
    static constexpr size_t kTogether = 32;

    [[nodiscard]] void* take(size_t bytes) {
        const size_t units = units_of(bytes);
        if (units > kMostUnits) return ::operator new(bytes);
        Piece*& free = free_[units - 1];
        if (free == nullptr) free = grow(units);
        ++used_;
        unpoison(free, bytes);
        return std::exchange(free, free->next);
    }
    void release(void* memory, size_t bytes) override {
        const size_t units = units_of(bytes);
        if (units > kMostUnits) return ::operator delete(memory);
        free_[units - 1] = new (memory) Piece{free_[units - 1]};
        poison(memory, units * sizeof(Unit));
        if (--used_ == 0) give_back();
    }

  private:
    using Unit = std::max_align_t;
    static constexpr size_t kMostUnits = 1024 / sizeof(Unit); ///< rules with many parts are few
    struct Piece {
        Piece* next;
    };

    [[nodiscard]] static size_t units_of(size_t bytes) {
        return (bytes + sizeof(Unit) - 1) / sizeof(Unit);
    }
    /// Makes free pieces of `units` units, of which there were none.
    [[nodiscard]] Piece* grow(size_t units) {
        auto& chunk = chunks_.emplace_back(new Unit[kTogether * units]); // not initialised
        Piece* free = nullptr;
        for (size_t i = kTogether; i-- > 0;)
            free = new (&chunk[i * units]) Piece{free};
        poison(chunk.get(), kTogether * units * sizeof(Unit));
        return free;
    }
    /// Called when no rule is left.
    void give_back() {
        free_ = {};
        chunks_.clear();
    }

    std::array<Piece*, kMostUnits> free_{}; ///< by their number of units
    std::vector<std::unique_ptr<Unit[]>> chunks_;
    size_t used_ = 0; ///< pieces of chunks
};

} // namespace rawqp
