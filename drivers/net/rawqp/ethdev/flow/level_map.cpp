// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/level_map.hpp"

#include <algorithm>
#include <cerrno>
#include <set>

namespace rawqp {

bool LevelMap::fits(std::span<const RulePlace> places, uint16_t levels) const {
    std::set<RulePlace> fresh;
    for (const RulePlace& place : places)
        if (!used_.contains(place)) fresh.insert(place);
    return used_.size() + fresh.size() <= levels;
}

Result<void> LevelMap::shift(Iterator at, uint16_t level, const Move& move) {
    Result<void> moved = move(at->first, level);
    if (moved) at->second.level = level;
    return moved;
}

/// Moves the fewest places by one level, towards the nearest free one, the farthest of them first.
Result<void> LevelMap::make_room(const RulePlace& place, uint16_t levels, const Move& move) {
    const Iterator next = used_.lower_bound(place);
    Iterator last = next; // of those that follow each other without a gap
    uint16_t end = next == used_.end() ? levels : next->second.level;
    for (; last != used_.end() && last->second.level == end; ++last)
        ++end;
    const bool down = next != used_.end() && end < levels;
    if (down) {
        for (Iterator at = last; at != next;) {
            --at;
            if (auto ok = shift(at, static_cast<uint16_t>(at->second.level + 1), move); !ok)
                return ok;
        }
        return {};
    }
    Iterator first = next; // what stands before moves up
    uint16_t start = std::prev(next)->second.level;
    while (first != used_.begin() && std::prev(first)->second.level == start) {
        --first;
        if (start-- == 0) break;
    }
    for (Iterator at = first; at != next; ++at)
        if (auto ok = shift(at, static_cast<uint16_t>(at->second.level - 1), move); !ok) return ok;
    return {};
}

Result<PlaceRef> LevelMap::acquire(const RulePlace& place, uint16_t levels, const Move& move) {
    if (const auto at = used_.find(place); at != used_.end()) return PlaceRef(*at);
    if (used_.size() >= levels)
        return fail(ENOSPC,
                    "all {} steering priorities that the device has for rules are in use: use "
                    "fewer rte_flow priorities, or rules of the same depth",
                    levels);
    // The levels between its neighbours.
    const auto bounds = [&] {
        const Iterator next = used_.lower_bound(place);
        const int low = next == used_.begin() ? 0 : std::prev(next)->second.level + 1;
        const int high = next == used_.end() ? levels : int{next->second.level};
        return std::pair(low, high);
    };
    if (bounds().first == bounds().second)
        if (auto room = make_room(place, levels, move); !room)
            return tl::unexpected(std::move(room.error()));
    const auto [low, high] = bounds();
    // Where it would stand if all before it were in use; towards the middle, if that is not free.
    const uint64_t natural = uint64_t{place.priority} * 3 + place.depth;
    const auto level = natural >= uint64_t(low) && natural < uint64_t(high)
                           ? static_cast<int>(natural)
                           : (low + high) / 2;
    return PlaceRef(*used_.emplace(place, Used{*this, static_cast<uint16_t>(level)}).first);
}

} // namespace rawqp
