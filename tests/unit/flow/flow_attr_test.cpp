// SPDX-License-Identifier: BSD-3-Clause
// Verbs flow specs of consecutive rules: nothing of one is left in the next.
#include "drivers/net/rawqp/ethdev/steering/flow_attr.hpp"
#include "tests/unit/flow/rule.hpp"

namespace rawqp::test {
namespace {

SteeringRequest udp(uint16_t port, uint16_t mask = 0xffff) {
    SteeringRequest request;
    EXPECT_EQ(request.pattern.push(Protocol::ipv4), Pattern::Follows::yes);
    EXPECT_EQ(request.pattern.push(Protocol::udp), Pattern::Follows::yes);
    set_bits(request.pattern.last().value, 16, 16, port & mask);
    set_bits(request.pattern.last().mask, 16, 16, mask);
    return request;
}

template <class Change> SteeringRequest changed(SteeringRequest request, Change change) {
    change(request);
    return request;
}

TEST(FlowAttr, IsThatOfEachRequest) {
    ibv_counters one{}, other{};
    struct Asked {
        SteeringRequest request;
        ibv_counters* counters = nullptr;
    };
    const SteeringRequest group = changed(udp(7), [](SteeringRequest& request) {
        request.strict_level = true;
        request.pattern.eth().value[0] = request.pattern.eth().mask[0] = 1;
    });
    const Asked list[] = {
        {udp(0xffff)},
        {udp(1)}, // other values
        {udp(1, 0x00ff)},
        {changed(udp(1), [](SteeringRequest& request) { request.level = 3; })},
        {changed(udp(1), [](SteeringRequest& request) { request.tag = 5; })},
        {changed(udp(1), [](SteeringRequest& request) { request.tag = 6; })},
        {changed(udp(1), [](SteeringRequest& request) { request.drop = true; })},
        {udp(1), &one},
        {udp(2), &other},
        {group}, // a group address, which puts a tag first
        {changed(group, [](SteeringRequest& request) { request.pattern.eth().value[0] = 0; })},
        {changed(udp(1),
                 [](SteeringRequest& request) { request.type = IBV_FLOW_ATTR_ALL_DEFAULT; })},
        {SteeringRequest{}},
        {changed(SteeringRequest{},
                 [](SteeringRequest& request) { request.type = IBV_FLOW_ATTR_MC_DEFAULT; })},
    };
    FlowAttr used;
    for (const Asked& before : list)
        for (const Asked& asked : list) {
            used.write(before.request, 1, before.counters);
            used.write(asked.request, 1, asked.counters);
            FlowAttr fresh;
            fresh.write(asked.request, 1, asked.counters);
            EXPECT_TRUE(std::ranges::equal(used.bytes(), fresh.bytes()))
                << &asked - list << " after " << &before - list;
        }
}

} // namespace
} // namespace rawqp::test
