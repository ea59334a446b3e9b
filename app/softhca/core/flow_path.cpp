// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/flow_path.hpp"

#include "app/softhca/core/flow_tables.hpp"
#include "app/softhca/core/meters.hpp"
#include "app/softhca/core/objects.hpp"

#include <algorithm>

namespace softhca::core {

void FlowActions::add_users(int count) const {
    const auto add = [count](auto* object) { object->users += static_cast<uint32_t>(count); };
    for (Tir* const tir : tirs)
        add(tir);
    for (FlowTable* const table : tables)
        add(table);
    for (Sampler* const sampler : samplers)
        add(sampler);
    for (FlowCounter* const counter : counters)
        add(counter);
    for (const Metering& one : metering)
        add(one.pair);
    if (rewrite.edits) add(rewrite.edits);
    if (rewrite.reformat) add(rewrite.reformat);
}

Color FlowPath::meter(const Metering& metering, const Packet& packet) {
    Meter* const meter = &metering.pair->meters[metering.meter];
    repeats = false;
    if (colors && colored < colors->size()) return (*colors)[colored++];
    auto known = std::ranges::find(metered, meter, &Metered::meter);
    if (known == metered.end()) known = metered.insert(known, {meter, *meter});
    const Color color = known->other.run(packet, metering.before, now);
    if (colors) {
        colors->push_back(color);
        colored++;
    }
    return color;
}

} // namespace softhca::core
