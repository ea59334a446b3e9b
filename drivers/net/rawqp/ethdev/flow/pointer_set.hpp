// SPDX-License-Identifier: BSD-3-Clause
// Objects found by their hash and owned by somebody else. Open addressing with linear probing:
// insertion and removal cost the same whatever the number, and no single object needs an
// allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rawqp {

struct NoStep {
    void operator()() const {}
};

/// `Step` is called for each slot that an operation looks at: tests count them.
template <class T, class Step = NoStep> class PointerSet {
  public:
    /// The object with this hash for which `same` returns true, or null.
    template <class Same> [[nodiscard]] T* find(uint64_t hash, Same same) const {
        for (size_t at = hash & last(); holds(at); at = (at + 1) & last())
            if (slots_[at].hash == hash && same(*slots_[at].object)) return slots_[at].object;
        return nullptr;
    }
    void insert(uint64_t hash, T& object) {
        if (2 * (used_ + 1) > slots_.size()) grow();
        place({hash, &object});
        ++used_;
    }
    /// Removes an object that is in the set.
    void erase(uint64_t hash, const T& object) {
        size_t hole = hash & last();
        while (holds(hole) && slots_[hole].object != &object)
            hole = (hole + 1) & last();
        // Objects that the removed one had displaced move up.
        for (size_t at = (hole + 1) & last(); holds(at); at = (at + 1) & last())
            if (((at - slots_[at].hash) & last()) >= ((at - hole) & last())) {
                slots_[hole] = slots_[at];
                hole = at;
            }
        slots_[hole] = {};
        --used_;
    }
    [[nodiscard]] size_t size() const { return used_; }
    /// Makes room for this many objects in all: inserting them then allocates nothing.
    void reserve(size_t count) {
        while (2 * count > slots_.size())
            grow();
    }

  private:
    struct Slot {
        uint64_t hash = 0;
        T* object = nullptr;
    };
    [[nodiscard]] size_t last() const { return slots_.size() - 1; }
    /// Whether there is an object in this slot.
    [[nodiscard]] bool holds(size_t at) const {
        Step()();
        return slots_[at].object != nullptr;
    }
    void place(Slot slot) {
        size_t at = slot.hash & last();
        while (holds(at))
            at = (at + 1) & last();
        slots_[at] = slot;
    }
    void grow() {
        std::vector<Slot> before(2 * slots_.size());
        before.swap(slots_);
        for (const Slot& slot : before)
            if (slot.object != nullptr) place(slot);
    }

    std::vector<Slot> slots_{16}; ///< a power of two; at most half of it is used, so probing ends
    size_t used_ = 0;
};

} // namespace rawqp
