// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/steering.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/inputs.hpp"

#include <algorithm>
#include <deque>
#include <fmt/format.h>

namespace fuzz {
namespace {

using namespace softhca;
using namespace softhca::core;

constexpr size_t kMostRules = 64;

uint8_t* bytes_of(FlowKey& key) { return reinterpret_cast<uint8_t*>(&key); }
const uint8_t* bytes_of(const FlowKey& key) { return reinterpret_cast<const uint8_t*>(&key); }

FlowKey key_of(std::span<const uint8_t> frame) {
    const auto head = std::as_bytes(frame);
    const auto bytes = static_cast<uint32_t>(frame.size());
    FlowKey key;
    extract(net::parse(head.first(std::min<size_t>(bytes, net::kParseBytes)), bytes), head, bytes,
            key);
    return key;
}

/// A rule with some bytes of the key, of which one may be changed.
Flow rule_for(const FlowKey& key, Input& input) {
    Flow flow;
    flow.drop = true;
    flow.priority = input.byte() % 4;
    for (uint8_t fields = input.byte() % 5; fields > 0; --fields) {
        const size_t at = input.two_bytes() % sizeof(FlowKey);
        const uint8_t mask = input.byte();
        bytes_of(flow.mask)[at] = mask;
        bytes_of(flow.value)[at] = bytes_of(key)[at] & mask;
    }
    if (input.byte() % 2 != 0) {
        const size_t at = input.two_bytes() % sizeof(FlowKey);
        bytes_of(flow.value)[at] ^= static_cast<uint8_t>(input.byte() & bytes_of(flow.mask)[at]);
    }
    return flow;
}

bool matches(const Flow& flow, const FlowKey& key) {
    for (size_t i = 0; i < sizeof(FlowKey); ++i)
        if ((bytes_of(key)[i] & bytes_of(flow.mask)[i]) != bytes_of(flow.value)[i]) return false;
    return true;
}

} // namespace

std::string play_rules(std::span<const uint8_t> bytes) {
    Input input(bytes);
    const std::vector<uint8_t> frame = input.take(net::kEthernetBytes + input.byte());
    if (frame.size() < net::kEthernetBytes) return "";
    const FlowKey key = key_of(frame);
    Steering steering;
    std::deque<Flow> flows;
    std::vector<const Flow*> inserted;
    while (!input.empty() && flows.size() < kMostRules) {
        flows.push_back(rule_for(key, input));
        if (steering.insert(flows.back())) inserted.push_back(&flows.back());
        if (input.byte() % 8 == 0 && !inserted.empty()) {
            const auto gone = inserted.begin() + input.byte() % static_cast<long>(inserted.size());
            steering.erase(**gone);
            inserted.erase(gone);
        }
    }
    const Rule* const found = steering.match(FlowDomain::bypass, key);
    uint16_t best = UINT16_MAX;
    for (const Flow* flow : inserted)
        if (matches(*flow, key)) best = std::min(best, flow->priority);
    if (found == nullptr) return best == UINT16_MAX ? "" : "a rule that matches is not found";
    if (best == UINT16_MAX) return "a rule is found that does not match";
    const uint16_t priority = found->flows.front()->priority;
    return priority == best ? "" : fmt::format("priority {} before {}", priority, best);
}

} // namespace fuzz
