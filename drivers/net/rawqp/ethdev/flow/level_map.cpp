// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/level_map.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <set>

namespace rawqp {

void LevelMap::Users::unused() {
    const Level& level = of->second;
    if (level.plain.users() + level.ranked.users() == 0) level.map.used_.erase(of->first);
}

PlaceRef LevelMap::use(Places::value_type& place, bool ranked) {
    Level& used = place.second;
    used.plain.of = used.ranked.of = &place;
    return PlaceRef(ranked ? used.ranked : used.plain);
}

PlaceRef LevelMap::share(const RulePlace& place) { return use(*used_.find(place), false); }

LevelMap::Need LevelMap::need(std::span<const RulePlace> places, const PlaceTerms& terms) const {
    using Sharing = std::pair<uint32_t, uint8_t>; // a priority, and a turn if they are apart
    const auto sharing = [&](const RulePlace& place) {
        return Sharing(place.priority, terms.keeps_apart(place.priority) ? place.turn : uint8_t{0});
    };
    std::set<uint32_t> priorities;
    std::map<Sharing, size_t> ranked; // of the places in use, those that share no level
    for (const auto& [place, used] : used_) {
        const bool becomes = terms.ranked && std::ranges::count(places, place) != 0;
        ranked[sharing(place)] += used.ranked.users() != 0 || becomes ? 1 : 0;
        priorities.insert(place.priority);
    }
    size_t levels = 0;
    for (const auto& [key, count] : ranked)
        levels += std::max<size_t>(count, 1);
    std::set<RulePlace> fresh;
    for (const RulePlace& place : places)
        if (!used_.contains(place) && (terms.ranked || !ranked.contains(sharing(place))))
            fresh.insert(place);
    std::set<Sharing> begun;
    for (const RulePlace& place : fresh) {
        levels += terms.ranked || begun.insert(sharing(place)).second ? 1 : 0;
        priorities.insert(place.priority);
    }
    return {levels, priorities.size()};
}

/// The place that this one may share a level with: the one nearest in depth.
LevelMap::Iterator LevelMap::neighbour(const RulePlace& place, const PlaceTerms& terms) {
    Iterator nearest = used_.end();
    const bool apart = terms.keeps_apart(place.priority);
    const auto distance = [&](Iterator at) { return std::abs(at->first.depth - place.depth); };
    for (Iterator at = used_.lower_bound({place.priority, 0, 0});
         at != used_.end() && at->first.priority == place.priority; ++at) {
        if (at->first == place || (apart && at->first.turn != place.turn)) continue;
        if (nearest == used_.end() || distance(at) < distance(nearest)) nearest = at;
    }
    return nearest;
}

/// Makes one place share the level of another one: the place with the fewest rules to move and,
/// among these, of the least priority.
Result<void> LevelMap::free_level(const PlaceTerms& terms, uint16_t levels, const Moves& moves) {
    Iterator best = used_.end();
    for (Iterator at = used_.begin(); at != used_.end(); ++at) {
        if (at->second.ranked.users() != 0 || neighbour(at->first, terms) == used_.end()) continue;
        if (best == used_.end() || at->second.plain.users() <= best->second.plain.users())
            best = at;
    }
    if (best == used_.end())
        return fail(ENOSPC,
                    "all {} steering priorities that the device has for rules are in use: use "
                    "fewer rte_flow priorities",
                    levels);
    const RulePlace from = best->first, to = neighbour(from, terms)->first;
    return moves.merge(from, to);
}

Result<void> LevelMap::shift(Iterator at, uint16_t level, const Moves& moves) {
    Result<void> moved = moves.move(at->first, level);
    if (moved) at->second.level = level;
    return moved;
}

/// Moves the fewest places by one level, towards the nearest free one, the farthest of them first.
Result<void> LevelMap::make_room(const RulePlace& place, uint16_t levels, const Moves& moves) {
    const Iterator next = used_.lower_bound(place);
    Iterator last = next; // of the places that follow each other without a gap
    uint16_t end = next == used_.end() ? levels : next->second.level;
    for (; last != used_.end() && last->second.level == end; ++last)
        ++end;
    const bool down = next != used_.end() && end < levels;
    if (down) {
        for (Iterator at = last; at != next;) {
            --at;
            if (auto ok = shift(at, static_cast<uint16_t>(at->second.level + 1), moves); !ok)
                return ok;
        }
        return {};
    }
    Iterator first = next; // what comes before moves up
    uint16_t start = std::prev(next)->second.level;
    while (first != used_.begin() && std::prev(first)->second.level == start) {
        --first;
        if (start-- == 0) break;
    }
    for (Iterator at = first; at != next; ++at)
        if (auto ok = shift(at, static_cast<uint16_t>(at->second.level - 1), moves); !ok) return ok;
    return {};
}

Result<PlaceRef> LevelMap::acquire(const RulePlace& place, const PlaceTerms& terms, uint16_t levels,
                                   const Moves& moves) {
    if (const auto at = used_.find(place); at != used_.end()) return use(*at, terms.ranked);
    if (used_.size() >= levels) {
        const Iterator other = terms.ranked ? used_.end() : neighbour(place, terms);
        if (other != used_.end()) return use(*other, false);
        if (auto freed = free_level(terms, levels, moves); !freed)
            return tl::unexpected(std::move(freed.error()));
    }
    // The levels between its neighbours.
    const auto bounds = [&] {
        const Iterator next = used_.lower_bound(place);
        const int low = next == used_.begin() ? 0 : std::prev(next)->second.level + 1;
        const int high = next == used_.end() ? levels : int{next->second.level};
        return std::pair(low, high);
    };
    if (bounds().first == bounds().second)
        if (auto room = make_room(place, levels, moves); !room)
            return tl::unexpected(std::move(room.error()));
    const auto [low, high] = bounds();
    // Where it would be if all before it were in use; towards the middle, if that is not free.
    const uint64_t natural = uint64_t{place.priority} * 3 + place.depth;
    const auto level = natural >= uint64_t(low) && natural < uint64_t(high)
                           ? static_cast<int>(natural)
                           : (low + high) / 2;
    return use(*used_.emplace(place, Level{*this, static_cast<uint16_t>(level)}).first,
               terms.ranked);
}

} // namespace rawqp
