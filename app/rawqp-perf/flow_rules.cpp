// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/flow_rules.hpp"

#include "app/rawqp-perf/frames.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <malloc.h>
#include <stdexcept>
#include <vector>

namespace perf {
namespace {

[[noreturn]] void fail(const Port& port, const std::string& what, const rte_flow_error& error) {
    throw std::runtime_error(fmt::format("port {}: {}: {}", port.id(), what,
                                         error.message ? error.message : "no reason"));
}

/// Destination addresses from 10.0.0.0 on and a UDP port, to queue 0. Its members point to each
/// other.
struct Rule {
    explicit Rule(unsigned number) {
        ip.hdr.dst_addr = rte_cpu_to_be_32(0x0a000000 + number);
        ip_mask.hdr.dst_addr = UINT32_MAX;
        udp.hdr.dst_port = rte_cpu_to_be_16(static_cast<uint16_t>(1000 + number % 1000));
        udp_mask.hdr.dst_port = UINT16_MAX;
    }
    Rule(const Rule&) = delete;
    Rule& operator=(const Rule&) = delete;

    rte_flow_item_ipv4 ip{}, ip_mask{};
    rte_flow_item_udp udp{}, udp_mask{};
    rte_flow_action_queue queue{.index = 0};
    std::array<rte_flow_item, 4> items{{{RTE_FLOW_ITEM_TYPE_ETH, nullptr, nullptr, nullptr},
                                        {RTE_FLOW_ITEM_TYPE_IPV4, &ip, nullptr, &ip_mask},
                                        {RTE_FLOW_ITEM_TYPE_UDP, &udp, nullptr, &udp_mask},
                                        {RTE_FLOW_ITEM_TYPE_END, nullptr, nullptr, nullptr}}};
    std::array<rte_flow_action, 2> actions{
        {{RTE_FLOW_ACTION_TYPE_QUEUE, &queue}, {RTE_FLOW_ACTION_TYPE_END, nullptr}}};
};

/// Makes a group receive all packets, unless it is group 0.
class Jump {
  public:
    Jump(const Port& port, uint32_t group) : port_(port) {
        if (group == 0) return;
        const rte_flow_action_jump jump{.group = group};
        const rte_flow_item items[] = {{RTE_FLOW_ITEM_TYPE_ETH, nullptr, nullptr, nullptr},
                                       {RTE_FLOW_ITEM_TYPE_END, nullptr, nullptr, nullptr}};
        const rte_flow_action actions[] = {{RTE_FLOW_ACTION_TYPE_JUMP, &jump},
                                           {RTE_FLOW_ACTION_TYPE_END, nullptr}};
        rte_flow_attr ingress{};
        ingress.ingress = 1;
        rte_flow_error error{};
        rule_ = rte_flow_create(port.id(), &ingress, items, actions, &error);
        if (rule_ == nullptr) fail(port, fmt::format("no jump to group {}", group), error);
    }
    ~Jump() {
        if (rule_ != nullptr) rte_flow_destroy(port_.id(), rule_, nullptr);
    }
    Jump(const Jump&) = delete;
    Jump& operator=(const Jump&) = delete;

  private:
    const Port& port_;
    rte_flow* rule_ = nullptr;
};

/// What malloc and DPDK have allocated for this process, including a software device in it.
double bytes_in_use() {
    size_t bytes = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (unsigned i = 0; i < rte_socket_count(); ++i) {
        rte_malloc_socket_stats stats{};
        if (rte_malloc_get_socket_stats(rte_socket_id_by_idx(i), &stats) == 0)
            bytes += stats.heap_allocsz_bytes;
    }
    return static_cast<double>(bytes);
}

/// A table for `rules` rules like Rule, and its queue of operations.
class RuleTable {
  public:
    RuleTable(const Port& port, unsigned rules, uint32_t group);
    ~RuleTable();
    RuleTable(const RuleTable&) = delete;
    RuleTable& operator=(const RuleTable&) = delete;

    [[nodiscard]] rte_flow* insert(unsigned number) {
        const Rule rule(number);
        rte_flow* const handle =
            rte_flow_async_create(port_.id(), kQueue, &kPostponed, table_, rule.items.data(), 0,
                                  rule.actions.data(), 0, nullptr, &error_);
        if (handle == nullptr) fail(port_, fmt::format("flow rule {} refused", number), error_);
        count_one();
        return handle;
    }
    void remove(rte_flow* handle) {
        if (rte_flow_async_destroy(port_.id(), kQueue, &kPostponed, handle, nullptr, &error_) != 0)
            fail(port_, "flow rule not destroyed", error_);
        count_one();
    }
    /// Waits for all results.
    void settle();

  private:
    static constexpr uint32_t kQueue = 0, kOperations = 256;
    static constexpr rte_flow_op_attr kPostponed{.postpone = 1};

    void count_one() {
        if (++pending_ == kOperations) settle();
    }

    const Port& port_;
    rte_flow_error error_{};
    rte_flow_pattern_template* pattern_ = nullptr;
    rte_flow_actions_template* actions_ = nullptr;
    rte_flow_template_table* table_ = nullptr;
    uint32_t pending_ = 0;
};

RuleTable::RuleTable(const Port& port, unsigned rules, uint32_t group) : port_(port) {
    const rte_flow_port_attr attributes{};
    const rte_flow_queue_attr queue{.size = kOperations};
    const rte_flow_queue_attr* queues[] = {&queue};
    if (const int status = rte_eth_dev_stop(port.id())) fail_call("flow table: stop", status);
    const bool configured = rte_flow_configure(port.id(), &attributes, 1, queues, &error_) == 0;
    if (const int status = rte_eth_dev_start(port.id())) fail_call("flow table: start", status);
    if (!configured) fail(port, "rte_flow_configure", error_);

    const Rule rule(0); // of it the masks count, and that it names a queue, which may be any
    const std::array<rte_flow_action, 2> masks{
        {{RTE_FLOW_ACTION_TYPE_QUEUE, nullptr}, {RTE_FLOW_ACTION_TYPE_END, nullptr}}};
    rte_flow_pattern_template_attr of_pattern{};
    of_pattern.ingress = 1;
    rte_flow_actions_template_attr of_actions{};
    of_actions.ingress = 1;
    rte_flow_template_table_attr of_table{};
    of_table.flow_attr.group = group;
    of_table.flow_attr.ingress = 1;
    of_table.nb_flows = rules;
    pattern_ = rte_flow_pattern_template_create(port.id(), &of_pattern, rule.items.data(), &error_);
    actions_ = rte_flow_actions_template_create(port.id(), &of_actions, rule.actions.data(),
                                                masks.data(), &error_);
    if (pattern_ != nullptr && actions_ != nullptr)
        table_ = rte_flow_template_table_create(port.id(), &of_table, &pattern_, 1, &actions_, 1,
                                                &error_);
    if (table_ == nullptr) fail(port, "no template table", error_);
}

RuleTable::~RuleTable() {
    if (table_ != nullptr) rte_flow_template_table_destroy(port_.id(), table_, nullptr);
    if (actions_ != nullptr) rte_flow_actions_template_destroy(port_.id(), actions_, nullptr);
    if (pattern_ != nullptr) rte_flow_pattern_template_destroy(port_.id(), pattern_, nullptr);
}

void RuleTable::settle() {
    std::array<rte_flow_op_result, kOperations> results;
    if (rte_flow_push(port_.id(), kQueue, &error_) != 0) fail(port_, "rte_flow_push", error_);
    while (pending_ > 0) {
        const int count =
            rte_flow_pull(port_.id(), kQueue, results.data(), results.size(), &error_);
        if (count < 0) fail(port_, "rte_flow_pull", error_);
        const auto failed = [](const auto& result) { return result.status != RTE_FLOW_OP_SUCCESS; };
        if (std::any_of(results.begin(), results.begin() + count, failed))
            throw std::runtime_error(
                fmt::format("port {}: an operation on a flow rule failed", port_.id()));
        pending_ -= static_cast<uint32_t>(count);
    }
}

/// Times the insertion and the deletion of `rules` rules; `settle` runs after each.
template <class Insert, class Remove, class Settle>
Figure time_rules(unsigned rules, Insert insert, Remove remove, Settle settle) {
    std::vector<rte_flow*> handles;
    handles.reserve(rules);
    const auto seconds_since = [](uint64_t start) {
        return static_cast<double>(rte_rdtsc() - start) / static_cast<double>(rte_get_tsc_hz());
    };
    const double bytes_before = bytes_in_use();
    uint64_t start = rte_rdtsc();
    for (unsigned i = 0; i < rules; ++i)
        handles.push_back(insert(i));
    settle();
    const double inserted = seconds_since(start);
    const double bytes = bytes_in_use() - bytes_before;
    start = rte_rdtsc();
    for (rte_flow* const rule : handles)
        remove(rule);
    settle();
    const double deleted = seconds_since(start);
    Figure figure{.unit = "rules/s", .value = rules / inserted};
    figure.more = {{"deletions_per_s", rules / deleted},
                   {"bytes_per_rule", bytes / rules},
                   {"rules", static_cast<double>(rules)}};
    return figure;
}

constexpr rte_flow_attr kIngress{
    .group = 0, .priority = 0, .ingress = 1, .egress = 0, .transfer = 0, .reserved = 0};

} // namespace

AddressRules::AddressRules(const Port& port, uint32_t addresses) : port_(port) {
    for (uint32_t i = 0; i < addresses; ++i) {
        Rule rule(0);
        rule.ip.hdr.dst_addr = FrameWriter::address(i);
        rule.items[2].type = RTE_FLOW_ITEM_TYPE_END; // of any port
        rte_flow_error error{};
        if (rte_flow_create(port.id(), &kIngress, rule.items.data(), rule.actions.data(), &error) !=
            nullptr)
            continue;
        rte_flow_flush(port.id(), nullptr);
        fail(port, fmt::format("flow rule {} refused", i), error);
    }
}

AddressRules::~AddressRules() { rte_flow_flush(port_.id(), nullptr); }

Figure measure_flows(const Port& port, unsigned rules, uint32_t group) {
    const Jump jump(port, group);
    const rte_flow_attr ingress{
        .group = group, .priority = 0, .ingress = 1, .egress = 0, .transfer = 0, .reserved = 0};
    rte_flow_error error{};
    const auto insert = [&](unsigned number) {
        const Rule rule(number);
        rte_flow* const handle =
            rte_flow_create(port.id(), &ingress, rule.items.data(), rule.actions.data(), &error);
        if (handle == nullptr) {
            rte_flow_flush(port.id(), nullptr);
            fail(port, fmt::format("flow rule {} refused", number), error);
        }
        return handle;
    };
    const auto remove = [&](rte_flow* rule) {
        if (rte_flow_destroy(port.id(), rule, &error) != 0)
            fail(port, "flow rule not destroyed", error);
    };
    Figure figure = time_rules(rules, insert, remove, [] {});
    figure.measure = group == 0 ? "flows" : "flows_group";
    return figure;
}

Figure measure_async_flows(const Port& port, unsigned rules, uint32_t group) {
    const Jump jump(port, group);
    RuleTable table(port, rules, group);
    Figure figure = time_rules(
        rules, [&](unsigned number) { return table.insert(number); },
        [&](rte_flow* rule) { table.remove(rule); }, [&] { table.settle(); });
    figure.measure = group == 0 ? "flows_async" : "flows_group_async";
    return figure;
}

} // namespace perf
