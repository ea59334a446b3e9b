// SPDX-License-Identifier: BSD-3-Clause
// Flow tables whose entries meter packets.
#pragma once

#include "tests/unit/softhca/testbed.hpp"

#include <map>

namespace testbed {

/// Tokens for that many packets, and never any more.
inline MeterAttr packets_only(uint8_t committed, uint8_t excess = 0) {
    return {.valid = true,
            .mode = MeterMode::packets,
            .committed = {.size_mantissa = committed, .size_exponent = 7},
            .excess = {.size_mantissa = excess, .size_exponent = 7}};
}

class MetersTest : public Testbed {
  protected:
    MetersTest() {
        root = table(0);
        EXPECT_TRUE(device->set_flow_table_root(root));
    }
    Number table(uint8_t level, bool sends = false) {
        const Number made =
            *device->create_flow_table({.level = level, .log_size = 3, .sends = sends});
        groups[made] = *device->create_flow_group(made, {});
        return made;
    }
    /// A table whose entries drop packets and count them by the color in this register.
    Number colors_table(uint8_t level, uint8_t reg_c) {
        const Number made = *device->create_flow_table({.level = level, .log_size = 3});
        FlowKey mask;
        mask.meta.reg_c[reg_c] = 0xff;
        const Number group =
            *device->create_flow_group(made, {.first = 0, .last = 3, .mask = mask});
        for (const Color color : {Color::red, Color::yellow, Color::green}) {
            const auto index = static_cast<uint32_t>(color);
            FlowEntryAttr entry{.group = group, .drop = true};
            entry.value.meta.reg_c[reg_c] = index;
            entry.counters = {by_color[index] = *device->create_flow_counters()};
            EXPECT_TRUE(device->set_flow_entry(made, index, entry));
        }
        return made;
    }
    /// Packets counted as red, yellow, green.
    std::array<uint64_t, 3> counts() {
        std::array<uint64_t, 3> packets;
        for (size_t i = 0; i < packets.size(); i++)
            packets[i] = device->query_flow_counter(by_color[i], false)->packets;
        return packets;
    }
    using Counts = std::array<uint64_t, 3>;

    auto lead(Number from, std::vector<MeteringAttr> metering, Number to) {
        return device->set_flow_entry(
            from, 0, {.group = groups[from], .tables = {to}, .metering = std::move(metering)});
    }
    Number pairs(const MeterAttr& first, const MeterAttr& second = {}, uint32_t count = 1) {
        return *device->create_meters({.pd = pd, .pairs = count, .meters = {first, second}});
    }
    /// Sent packets are metered by the returned pair, and leave.
    Number meter_sent(const MeterAttr& attr) {
        const Number first = table(0, true), meters = pairs(attr);
        EXPECT_TRUE(device->set_flow_table_root(first, FlowRoot::transmit));
        EXPECT_TRUE(device->set_flow_entry(
            first, 0,
            {.group = groups[first], .metering = {{.pair = meters, .reg_c = 2}}, .send = true}));
        return meters;
    }
    void receive(int number) {
        for (int i = 0; i < number; i++)
            wire->incoming.push_back(frames::build({}));
        run();
    }
    Number root = 0;
    std::map<Number, Number> groups;
    std::array<Number, 3> by_color{};
};

} // namespace testbed
