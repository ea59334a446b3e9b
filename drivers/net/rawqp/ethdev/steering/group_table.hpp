// SPDX-License-Identifier: BSD-3-Clause
// A flow table that the process makes itself (DevX): the rules of an rte_flow group above 0.
//
// The device tries a table's entries by their index, and wants those of one mask in ranges. So each
// place (priority, depth and turn) has a share of the indices, in the order of places; better
// priorities get larger ones. Within its share, each mask has ranges that double.
#pragma once

#include "drivers/net/rawqp/ethdev/devx/devx.hpp"
#include "drivers/net/rawqp/ethdev/steering/engine.hpp"

#include <map>
#include <vector>

namespace rawqp {

/// What happens to an entry's packets. Numbers are the device's.
struct EntryActions {
    uint32_t tag = 0; ///< 0: none
    bool drop = false;
    bool decap = false;
    bool pop_vlan = false;
    std::optional<uint32_t> push_vlan; ///< the tag: TPID and TCI
    std::optional<uint32_t> tir;       ///< neither this nor a table: dropped, or sent
    std::optional<uint32_t> table;
    std::optional<uint32_t> sampler; ///< instead of either
    std::optional<uint32_t> counter;
    std::optional<uint32_t> rewriting;
    std::optional<uint32_t> reformatting;
    const Meter* meter = nullptr; ///< run first; its color is in kColorRegister
    bool any_level = false;       ///< `table` may have a lower level
};

/// The end of every path: tables of this level lead to no other.
inline constexpr uint8_t kLastLevel = 63;

class GroupTable {
  public:
    static constexpr uint32_t kPriorities = 4096, kTurns = 2;
    static constexpr uint32_t kPlaces = kPriorities * kClassDepths * kTurns;
    /// Behind those of all priorities: of what leads on to the group's next table.
    static constexpr uint16_t kLastPlace = kPlaces;
    /// The place of a priority, its depth and the turn in which one rule takes over from another.
    [[nodiscard]] static constexpr uint16_t place_of(uint32_t priority, uint16_t depth,
                                                     uint8_t turn) {
        return static_cast<uint16_t>((priority * kClassDepths + depth) * kTurns + turn);
    }

    /// Null with errno. A table leads only to those of higher levels. `entries`: of 2^n.
    [[nodiscard]] static std::unique_ptr<GroupTable> make(Devx& devx, bool sends, uint8_t level,
                                                          uint8_t log_entries);

    /// An entry, removed when the reference goes, which must be before the table does. Null with
    /// errno.
    [[nodiscard]] PartRef add(uint32_t place, const Mlx5Match& match, const EntryActions& actions);
    [[nodiscard]] const DevxObject& object() const { return table_; }
    /// The first index of a place's share.
    [[nodiscard]] uint32_t share(uint32_t place) const;

  private:
    struct MaskKey {
        uint32_t place;
        uint8_t criteria;
        std::array<uint8_t, Mlx5Match::kBytes> mask;
        auto operator<=>(const MaskKey&) const = default;
    };
    struct Range;
    using Ranges = std::vector<Range*>;
    /// An entry in the device, at the index that is its own in the range.
    struct Entry final : SharedPart {
        Range* range = nullptr;
        DevxObject object;
        void release() override;
    };
    /// Includes the memory for its entries: none is allocated for a single one.
    struct Range {
        GroupTable* table;
        uint32_t first, end;
        DevxObject group;
        std::map<MaskKey, Ranges>::iterator owner;
        uint32_t next = first; ///< the first index that was never used
        std::vector<Entry> entries = std::vector<Entry>(end - first);
        std::vector<Entry*> free{}; ///< used before; has room for all

        [[nodiscard]] bool full() const { return free.empty() && next == end; }
        [[nodiscard]] bool empty() const { return free.size() == next - first; }
        [[nodiscard]] Entry& take();
        [[nodiscard]] uint32_t index_of(const Entry& entry) const {
            return first + static_cast<uint32_t>(&entry - entries.data());
        }
    };

    GroupTable(Devx& devx, bool sends, uint32_t size) : devx_(devx), sends_(sends), size_(size) {}

    Range* open_range(std::map<MaskKey, Ranges>::iterator owner);
    void give_back(Entry& entry);
    void close(Range& range);

    Devx& devx_;
    bool sends_;
    uint32_t size_;
    DevxObject table_;
    std::map<uint32_t, Range> ranges_; ///< by their first index
    std::map<MaskKey, Ranges> by_mask_;
};

/// A table of one entry that takes everything, at the end of a path.
struct Leaf {
    std::unique_ptr<GroupTable> table;
    PartRef entry; ///< null with errno

    [[nodiscard]] static Leaf make(Devx& devx, bool sends, const EntryActions& actions);
};

} // namespace rawqp
