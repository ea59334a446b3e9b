// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/flow_rule.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/unit/flow/fake_device.hpp"

#include <fmt/format.h>

namespace fuzz {
namespace {

using namespace rawqp;
constexpr size_t kMostRules = 8;

/// What a port needs to create rules.
struct Port {
    explicit Port(bool mlx5) {
        if (mlx5) device.offer_mlx5_flows();
        device.offers_devx = mlx5;
        steering =
            test::make_steering(device, qps, mlx5 ? FlowEngine::mlx5 : FlowEngine::automatic);
        table = std::make_unique<FlowTable>(*steering, device.rx_queues);
        if (!table->start()) table.reset();
    }
    ~Port() {
        if (table) table->flush(nullptr);
    }

    test::FakeDevice device{4};
    RssQps qps{device.api(), device.context(), device.pd(), device.rx_queues};
    std::unique_ptr<Steering> steering;
    std::unique_ptr<FlowTable> table;
};

/// One of each kind that the port supports.
std::vector<const rte_flow_action_handle*> shared_actions(FlowTable& table) {
    static constexpr uint16_t kQueues[] = {1, 3};
    static const rte_flow_action_count count{};
    rte_flow_action_rss rss{};
    rss.types = RTE_ETH_RSS_IP;
    rss.queue = kQueues;
    rss.queue_num = 2;
    rte_flow_indir_action_conf conf{};
    conf.ingress = 1;
    std::vector<const rte_flow_action_handle*> shared;
    for (const rte_flow_action& action : {rte_flow_action{RTE_FLOW_ACTION_TYPE_RSS, &rss},
                                          rte_flow_action{RTE_FLOW_ACTION_TYPE_COUNT, &count}})
        if (const auto* const handle = table.share(&conf, &action, nullptr))
            shared.push_back(handle);
    return shared;
}

/// Validates a rule, then creates it.
std::string play_rule(Port& port, Input& input,
                      const std::vector<const rte_flow_action_handle*>& shared) {
    FlowRule rule(shared);
    const rte_flow_attr attr = rule.attributes(input);
    const rte_flow_item* const items = rule.items(input);
    const rte_flow_action* const actions = rule.actions(input);
    rte_flow_error error{};
    const size_t before = port.device.flows.size();
    const int verdict = port.table->validate(&attr, items, actions, &error);
    const std::string why = verdict != 0 && error.message != nullptr ? error.message : "";
    if (verdict != 0 && why.empty()) return "refused without a reason";
    if (port.device.flows.size() != before) return "validation has left a flow";
    const rte_flow* const flow = port.table->create(&attr, items, actions, &error);
    if ((flow != nullptr) == (verdict == 0)) return "";
    return fmt::format("found {}, and then {}", verdict == 0 ? "good" : why,
                       flow != nullptr ? "made" : error.message);
}

} // namespace

std::string play_flows(std::span<const uint8_t> bytes) {
    Input input(bytes);
    Port port(input.byte() % 2 != 0);
    if (!port.table) return "the port does not start";
    const auto shared = shared_actions(*port.table);
    for (size_t rules = 0; !input.empty() && rules < kMostRules; rules++)
        if (std::string problem = play_rule(port, input, shared); !problem.empty()) return problem;
    port.table->flush(nullptr);
    if (!port.device.violations.empty()) return port.device.violations.front();
    return "";
}

} // namespace fuzz
