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

class PlaceRef;

/// Outlives its places.
class LevelMap {
  public:
    /// Has the rules of a place go to another level, which is free.
    using Move = std::function<Result<void>(const RulePlace& place, uint16_t level)>;

    /// Whether there are levels enough for these places as well; of one they are used already.
    [[nodiscard]] bool fits(std::span<const RulePlace> places, uint16_t levels) const;
    [[nodiscard]] bool uses(const RulePlace& place) const { return used_.contains(place); }
    /// Another user of the place. If no level is free between its neighbours, these make room.
    [[nodiscard]] Result<PlaceRef> acquire(const RulePlace& place, uint16_t levels,
                                           const Move& move);
    /// Of a place in use.
    [[nodiscard]] uint16_t level_of(const RulePlace& place) const { return used_.at(place).level; }

  private:
    friend PlaceRef;
    struct Used {
        LevelMap& map;
        uint16_t level;
        size_t users = 0;
    };
    using Places = std::map<RulePlace, Used>;
    using Iterator = Places::iterator;

    Result<void> shift(Iterator at, uint16_t level, const Move& move);
    Result<void> make_room(const RulePlace& place, uint16_t levels, const Move& move);

    Places used_;
};

/// A use of a place, given back when it goes; or none.
class PlaceRef {
  public:
    PlaceRef() = default;
    PlaceRef(PlaceRef&& other) noexcept : used_(std::exchange(other.used_, nullptr)) {}
    PlaceRef& operator=(PlaceRef&& other) noexcept {
        std::swap(used_, other.used_);
        return *this;
    }
    ~PlaceRef() {
        if (used_ != nullptr && --used_->second.users == 0)
            used_->second.map.used_.erase(used_->first);
    }

    [[nodiscard]] bool is(const RulePlace& place) const {
        return used_ != nullptr && used_->first == place;
    }
    [[nodiscard]] uint16_t level() const { return used_->second.level; }

  private:
    friend LevelMap;
    explicit PlaceRef(LevelMap::Places::value_type& used) : used_(&used) { ++used.second.users; }

    LevelMap::Places::value_type* used_ = nullptr; ///< stays where it is as long as it is in use
};

} // namespace rawqp
