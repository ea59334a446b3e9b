// SPDX-License-Identifier: BSD-3-Clause
// Maps rte_flow priorities to steering priorities (levels) of the device. The device has few; an
// application may number its own as it likes, so levels are assigned to the priorities in use, in
// their order.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/flow/use_ref.hpp"

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
    struct Level;
    using Places = std::map<RulePlace, Level>;
    using Iterator = Places::iterator;
    struct Users final : Used {
        Places::value_type* of = nullptr;
        void unused() override;
    };
    struct Level {
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

/// A use of a place; or none.
class PlaceRef : public UseRef {
  public:
    PlaceRef() = default;

    /// Of a use that is known to be one of a place.
    [[nodiscard]] static const RulePlace& place_of(const UseRef& use) { return at(use).first; }
    [[nodiscard]] static uint16_t level_of(const UseRef& use) { return at(use).second.level; }
    [[nodiscard]] bool is(const RulePlace& place) const { return *this && this->place() == place; }
    [[nodiscard]] const RulePlace& place() const { return place_of(*this); }
    [[nodiscard]] uint16_t level() const { return level_of(*this); }

  private:
    friend LevelMap;
    using UseRef::UseRef;
    static const LevelMap::Places::value_type& at(const UseRef& use) {
        return *use.as<LevelMap::Users>().of;
    }
};

} // namespace rawqp
