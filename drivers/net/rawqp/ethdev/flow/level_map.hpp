// SPDX-License-Identifier: BSD-3-Clause
// Maps rte_flow priorities to steering priorities (levels) of the device. The device has few; an
// application may number its own as it likes, so levels are assigned to the priorities in use, in
// their order.
#pragma once

#include "common/result.hpp"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace rawqp {

/// A priority and, within it, the depth of a traffic class: more headers are tried first. A rule
/// that takes over from another one with the same match is installed in the other turn until that
/// one is gone.
struct RulePlace {
    uint32_t priority = 0;
    uint16_t depth = 0;
    uint8_t turn = 0; ///< 0 or 1
    auto operator<=>(const RulePlace&) const = default;
};

/// What a rule requires of its places.
struct PlaceTerms {
    bool ranked = false; ///< its parts have several depths and must be tried in order
    /// Priorities at which rules are taking over from others: their turns stay apart.
    std::vector<uint32_t> apart{};

    [[nodiscard]] bool keeps_apart(uint32_t priority) const {
        return std::ranges::find(apart, priority) != apart.end();
    }
};

class PlaceRef;

/// Each place has its own level as long as there are enough. After that, places of one priority
/// share a level, as rte_flow requires no order within a priority, except the places of a ranked
/// rule. Outlives its places.
class LevelMap {
  public:
    struct Moves {
        /// Moves the rules of a place to another level, which is free.
        std::function<Result<void>(const RulePlace& place, uint16_t level)> move;
        /// Moves the rules of a place to another place of the same priority, by share().
        std::function<Result<void>(const RulePlace& from, const RulePlace& to)> merge;
    };
    struct Need {
        size_t levels;     ///< at least
        size_t priorities; ///< of rte_flow
    };

    /// The need of everything present plus a rule with these places.
    [[nodiscard]] Need need(std::span<const RulePlace> places, const PlaceTerms& terms) const;
    [[nodiscard]] bool uses(const RulePlace& place) const { return used_.contains(place); }
    /// Adds a user of the place, or of one that it shares a level with. If no level is free between
    /// its neighbours, they make room.
    [[nodiscard]] Result<PlaceRef> acquire(const RulePlace& place, const PlaceTerms& terms,
                                           uint16_t levels, const Moves& moves);
    /// Adds a user, not ranked, of a place in use.
    [[nodiscard]] PlaceRef share(const RulePlace& place);
    /// The level of a place in use.
    [[nodiscard]] uint16_t level_of(const RulePlace& place) const { return used_.at(place).level; }

  private:
    friend PlaceRef;
    struct Used;
    using Places = std::map<RulePlace, Used>;
    using Iterator = Places::iterator;
    struct Users {
        Places::value_type* of = nullptr;
        size_t count = 0;
    };
    struct Used {
        LevelMap& map;
        uint16_t level;
        Users plain{}, ranked{};
    };

    static PlaceRef use(Places::value_type& place, bool ranked);
    Iterator neighbour(const RulePlace& place, const PlaceTerms& terms);
    Result<void> free_level(const PlaceTerms& terms, uint16_t levels, const Moves& moves);
    Result<void> shift(Iterator at, uint16_t level, const Moves& moves);
    Result<void> make_room(const RulePlace& place, uint16_t levels, const Moves& moves);

    Places used_;
};

/// A use of a place, released on destruction; or none.
class PlaceRef {
  public:
    PlaceRef() = default;
    PlaceRef(PlaceRef&& other) noexcept : users_(std::exchange(other.users_, nullptr)) {}
    PlaceRef& operator=(PlaceRef&& other) noexcept {
        std::swap(users_, other.users_);
        return *this;
    }
    ~PlaceRef() {
        if (users_ == nullptr || --users_->count != 0) return;
        const LevelMap::Used& used = users_->of->second;
        if (used.plain.count + used.ranked.count == 0) used.map.used_.erase(users_->of->first);
    }

    [[nodiscard]] bool is(const RulePlace& place) const {
        return users_ != nullptr && users_->of->first == place;
    }
    [[nodiscard]] const RulePlace& place() const { return users_->of->first; }
    [[nodiscard]] uint16_t level() const { return users_->of->second.level; }

  private:
    friend LevelMap;
    explicit PlaceRef(LevelMap::Users& users) : users_(&users) { ++users.count; }

    LevelMap::Users* users_ = nullptr; ///< stay where they are as long as the place is in use
};

} // namespace rawqp
