// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/metering.hpp"

#include "drivers/net/rawqp/ethdev/devx/meter.hpp"

namespace rawqp {
namespace {

constexpr std::array<uint8_t, RTE_COLORS> kInDevice{prm::kColorGreen, prm::kColorYellow,
                                                    prm::kColorRed};

Mlx5Match match_of(uint8_t color) {
    Pattern pattern;
    pattern.metadata(Protocol::color).set(0, 8, color);
    return mlx5_match(pattern);
}

} // namespace

std::unique_ptr<Metering> Metering::make(Devx& devx, bool sends, const Meter& meter,
                                         EntryActions actions) {
    constexpr uint8_t kLogEntries = 5; // enough for the first place
    auto made = std::make_unique<Metering>();
    made->table_ = GroupTable::make(devx, sends, kLastLevel, kLogEntries);
    if (!made->table_) return nullptr;
    actions.any_level = actions.table.has_value();
    if (actions.counter) { // an entry has one counter, and a color's has that of the color
        made->passed_ = Leaf::make(devx, sends, actions);
        if (!made->passed_.entry) return nullptr;
        actions = {};
        actions.table = made->passed_.table->object().number;
        actions.any_level = true;
    }
    for (size_t i = 0; i < RTE_COLORS; ++i) {
        const ColorAction& color = meter.colors[i];
        EntryActions done = color.drop ? EntryActions{} : actions;
        done.drop = done.drop || color.drop;
        const DevxObject* const counter = color.counter->devx();
        if (counter == nullptr) return nullptr;
        done.counter = counter->number;
        made->entries_[i] = made->table_->add(0, match_of(kInDevice[i]), done);
        if (!made->entries_[i]) return nullptr;
    }
    return made;
}

} // namespace rawqp
