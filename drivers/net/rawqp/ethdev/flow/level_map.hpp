// SPDX-License-Identifier: BSD-3-Clause
// Which steering priority of the device serves which priority of rte_flow. The device has few; an
// application may number its own as it likes, so levels are given to those in use, in their order.
#pragma once

#include "common/result.hpp"

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>

namespace rawqp {

/// A priority and, within it, the depth of a traffic class: more headers are tried first. A rule
/// that takes over from another one of the same match stands in the other turn, until that is gone.
struct RulePlace {
    uint32_t priority = 0;
    uint16_t depth = 0;
    uint8_t turn = 0; ///< 0 or 1
    auto operator<=>(const RulePlace&) const = default;
};

class LevelMap {
  public:
    /// Has the rules of a place go to another level, which is free.
    using Move = std::function<Result<void>(const RulePlace& place, uint16_t level)>;

    /// Whether there are levels enough for these places as well; of one they are used already.
    [[nodiscard]] bool fits(std::span<const RulePlace> places, uint16_t levels) const;
    [[nodiscard]] bool uses(const RulePlace& place) const { return used_.contains(place); }
    /// Another user of the place. If no level is free between its neighbours, these make room.
    [[nodiscard]] Result<void> acquire(const RulePlace& place, uint16_t levels, const Move& move);
    void release(const RulePlace& place);
    /// Of a place in use.
    [[nodiscard]] uint16_t level_of(const RulePlace& place) const { return used_.at(place).level; }

  private:
    struct Used {
        uint16_t level;
        size_t users;
    };
    using Iterator = std::map<RulePlace, Used>::iterator;

    Result<void> shift(Iterator at, uint16_t level, const Move& move);
    Result<void> make_room(const RulePlace& place, uint16_t levels, const Move& move);

    std::map<RulePlace, Used> used_;
};

/// A use of a place, given back when it goes.
class PlaceRef {
  public:
    PlaceRef() = default;
    /// Takes over what acquire() has got.
    PlaceRef(LevelMap& map, const RulePlace& place) : map_(&map), place_(place) {}
    PlaceRef(PlaceRef&& other) noexcept
        : map_(std::exchange(other.map_, nullptr)), place_(other.place_) {}
    PlaceRef& operator=(PlaceRef&& other) noexcept {
        std::swap(map_, other.map_);
        std::swap(place_, other.place_);
        return *this;
    }
    ~PlaceRef() {
        if (map_ != nullptr) map_->release(place_);
    }

    [[nodiscard]] bool is(const RulePlace& place) const {
        return map_ != nullptr && place_ == place;
    }
    [[nodiscard]] uint16_t level() const { return map_->level_of(place_); }

  private:
    LevelMap* map_ = nullptr;
    RulePlace place_;
};

} // namespace rawqp
