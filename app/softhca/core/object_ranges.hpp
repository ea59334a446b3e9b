// SPDX-License-Identifier: BSD-3-Clause
// Objects that are created in ranges with consecutive numbers, and destroyed together.
#pragma once

#include "app/softhca/core/types.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace softhca::core {

template <class T> class ObjectRanges {
  public:
    using Range = std::vector<T>;
    struct Added {
        Number first;
        Range& objects;
    };
    /// Adds this many (not 0), with the lowest consecutive free numbers.
    Added add(uint32_t count) {
        const auto gap =
            std::ranges::find_if(gaps_, [&](const auto& one) { return one.second >= count; });
        const auto [first, room] = *gap;
        gaps_.erase(gap);
        if (room > count) gaps_.emplace(first + count, room - count);
        size_ += count;
        return {first, ranges_.emplace(first, count).first->second};
    }
    /// The range that begins with this number; null if none does.
    [[nodiscard]] const Range* find_range(Number first) const {
        const auto found = ranges_.find(first);
        return found == ranges_.end() ? nullptr : &found->second;
    }
    /// The range must exist.
    void erase(Number first) {
        const auto found = ranges_.find(first);
        auto room = static_cast<uint32_t>(found->second.size());
        size_ -= room;
        ranges_.erase(found);
        const auto after = gaps_.find(first + room);
        if (after != gaps_.end()) {
            room += after->second;
            gaps_.erase(after);
        }
        const auto before = gaps_.lower_bound(first);
        if (before != gaps_.begin())
            if (auto& [number, count] = *std::prev(before); number + count == first) {
                count += room;
                return;
            }
        gaps_.emplace(first, room);
    }
    [[nodiscard]] T* find(Number number) {
        return const_cast<T*>(std::as_const(*this).find(number));
    }
    [[nodiscard]] const T* find(Number number) const {
        const auto after = ranges_.upper_bound(number);
        if (after == ranges_.begin()) return nullptr;
        const auto& [first, range] = *std::prev(after);
        return number - first < range.size() ? &range[number - first] : nullptr;
    }
    /// Of all ranges.
    [[nodiscard]] uint32_t size() const { return size_; }
    void clear() {
        ranges_.clear();
        gaps_ = kAllFree;
        size_ = 0;
    }
    // By the number of their first object.
    [[nodiscard]] auto begin() const { return ranges_.begin(); }
    [[nodiscard]] auto end() const { return ranges_.end(); }

  private:
    using Gaps = std::map<Number, uint32_t>; ///< how many numbers from there on are free
    static inline const Gaps kAllFree{{1, std::numeric_limits<Number>::max()}};

    std::map<Number, Range> ranges_;
    Gaps gaps_ = kAllFree;
    uint32_t size_ = 0;
};

} // namespace softhca::core
