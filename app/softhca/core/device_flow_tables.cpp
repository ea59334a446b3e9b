// SPDX-License-Identifier: BSD-3-Clause
// Control calls about flow tables. Each takes the device lock.
#include "app/softhca/core/device_state.hpp"

#include <algorithm>

namespace softhca::core {
namespace {

constexpr size_t kRegisters = std::extent_v<decltype(MetaKey::reg_c)>;

} // namespace

Outcome<Number> Device::create_flow_table(const FlowTableAttr& attr) {
    const ControlLock lock(*state_);
    return state_->flow_tables.create_table(attr);
}

Outcome<void> Device::set_flow_table_miss(Number table, Number miss) {
    const ControlLock lock(*state_);
    return state_->flow_tables.set_miss(table, miss);
}

Outcome<void> Device::destroy_flow_table(Number table) {
    const ControlLock lock(*state_);
    return state_->flow_tables.destroy_table(table);
}

Outcome<void> Device::set_flow_table_root(Number table, FlowRoot root) {
    const ControlLock lock(*state_);
    if (const auto set = state_->flow_tables.set_root(root, table); !set) return set;
    if (table != 0) state_->port.start();
    return {};
}

Outcome<Number> Device::create_flow_group(Number table, const FlowGroupAttr& attr) {
    const ControlLock lock(*state_);
    return state_->flow_tables.create_group(table, attr);
}

Outcome<void> Device::destroy_flow_group(Number table, Number group) {
    const ControlLock lock(*state_);
    return state_->flow_tables.destroy_group(table, group);
}

Outcome<void> Device::set_flow_entry(Number table, uint32_t index, const FlowEntryAttr& attr) {
    const ControlLock lock(*state_);
    if (attr.tag.value_or(0) > Limits::kMaxFlowTag) return refuse(Status::bad_parameter);
    std::vector<Tir*> tirs;
    for (const Number number : attr.tirs) {
        tirs.push_back(state_->tirs.find(number));
        if (!tirs.back()) return refuse(Status::bad_resource);
    }
    std::vector<Metering> metering;
    for (const MeteringAttr& asked : attr.metering) {
        MeterPair* const pair = state_->meters.find(asked.pair);
        if (!pair) return refuse(Status::bad_resource);
        if (asked.meter >= pair->meters.size() || asked.reg_c >= kRegisters)
            return refuse(Status::bad_parameter);
        metering.push_back({pair, asked.meter, asked.reg_c, asked.before});
    }
    return state_->flow_tables.set_entry(table, index, attr, std::move(tirs), std::move(metering));
}

Outcome<void> Device::delete_flow_entry(Number table, uint32_t index) {
    const ControlLock lock(*state_);
    return state_->flow_tables.erase_entry(table, index);
}

Outcome<Number> Device::create_header_edits(std::vector<HeaderEdit> edits) {
    const ControlLock lock(*state_);
    return state_->flow_tables.create_edits(std::move(edits));
}

Outcome<void> Device::destroy_header_edits(Number number) {
    const ControlLock lock(*state_);
    return state_->flow_tables.destroy_edits(number);
}

Outcome<Number> Device::create_reformat(ReformatKind kind, std::span<const std::byte> headers) {
    const ControlLock lock(*state_);
    return state_->flow_tables.create_reformat(kind, headers);
}

Outcome<void> Device::destroy_reformat(Number number) {
    const ControlLock lock(*state_);
    return state_->flow_tables.destroy_reformat(number);
}

Outcome<Number> Device::create_sampler(const SamplerAttr& attr) {
    const ControlLock lock(*state_);
    return state_->flow_tables.create_sampler(attr);
}

Outcome<void> Device::destroy_sampler(Number number) {
    const ControlLock lock(*state_);
    return state_->flow_tables.destroy_sampler(number);
}

Outcome<Number> Device::create_flow_counters(uint32_t count) {
    const ControlLock lock(*state_);
    return state_->flow_tables.create_counters(count);
}

Outcome<void> Device::destroy_flow_counters(Number first) {
    const ControlLock lock(*state_);
    return state_->flow_tables.destroy_counters(first);
}

Outcome<FlowCounts> Device::query_flow_counter(Number counter, bool clear) {
    const ControlLock lock(*state_);
    FlowCounter* const found = state_->flow_tables.find_counter(counter);
    if (!found) return refuse(Status::bad_resource);
    return clear ? std::exchange(found->counts, {}) : found->counts;
}

void Device::query_flow_counters(Number first, std::span<FlowCounts> counts, bool clear) {
    const ControlLock lock(*state_);
    for (FlowCounts& to : counts) {
        FlowCounter* const found = state_->flow_tables.find_counter(first++);
        if (found) to = clear ? std::exchange(found->counts, {}) : found->counts;
    }
}

void Device::deduct_flow_counts(Number first, std::span<const FlowCounts> counts) {
    const ControlLock lock(*state_);
    for (const FlowCounts& known : counts) {
        FlowCounter* const found = state_->flow_tables.find_counter(first++);
        if (!found) continue;
        // Somebody else may have cleared it meanwhile.
        found->counts.packets -= std::min(found->counts.packets, known.packets);
        found->counts.bytes -= std::min(found->counts.bytes, known.bytes);
    }
}

void Device::destroy_all_flow_tables() {
    const ControlLock lock(*state_);
    state_->flow_tables.clear();
    state_->clear_in_pds(state_->meters);
    state_->clear_in_pds(state_->edit_arguments);
    state_->definers.clear();
}

} // namespace softhca::core
