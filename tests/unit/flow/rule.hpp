// SPDX-License-Identifier: BSD-3-Clause
// A short notation for rte_flow patterns and actions.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/ethdev/steering/flow_attr.hpp"
#include "tests/unit/flow/fake_device.hpp"

#include <memory>
#include <vector>

namespace rawqp::test {

template <class Item> Item zeroed() {
    Item item;
    std::memset(static_cast<void*>(&item), 0, sizeof item);
    return item;
}
template <class Item> Item all_ones() {
    Item item;
    std::memset(static_cast<void*>(&item), 0xff, sizeof item);
    return item;
}

/// The verbs specs of a pattern, without the attribute.
inline Bytes verbs_specs(const Pattern& pattern) {
    SteeringRequest request;
    request.pattern = pattern;
    FlowAttr attr;
    attr.write(request, 1, nullptr);
    return {attr.bytes().begin() + sizeof(ibv_flow_attr), attr.bytes().end()};
}

/// The pattern and actions of a rule; owns what they point to, together with its copies.
class Rule {
  public:
    rte_flow_attr attr{};

    Rule() { attr.ingress = 1; }

    /// An item with the given spec, mask and last; a null mask selects the default one.
    template <class Item>
    Rule& item(rte_flow_item_type type, const Item* spec, const Item* mask = nullptr,
               const Item* last = nullptr) {
        rte_flow_item item{};
        item.type = type;
        item.spec = keep(spec);
        item.mask = keep(mask);
        item.last = keep(last);
        pattern_.insert(pattern_.end() - 1, item);
        return *this;
    }
    Rule& item(rte_flow_item_type type) { return item<rte_flow_item_eth>(type, nullptr); }

    Rule& queue(uint16_t index) {
        const rte_flow_action_queue conf{index};
        return action(RTE_FLOW_ACTION_TYPE_QUEUE, &conf);
    }
    Rule& rss(std::vector<uint16_t> queues, uint64_t types = 0) {
        const auto list = std::make_shared<std::vector<uint16_t>>(std::move(queues));
        kept_.push_back(list);
        rte_flow_action_rss conf{};
        conf.types = types;
        conf.queue = list->data();
        conf.queue_num = static_cast<uint32_t>(list->size());
        return action(RTE_FLOW_ACTION_TYPE_RSS, &conf);
    }
    Rule& mark(uint32_t id) {
        const rte_flow_action_mark conf{id};
        return action(RTE_FLOW_ACTION_TYPE_MARK, &conf);
    }
    /// An action of another rule, which still owns what it points to.
    Rule& as(const rte_flow_action& action) {
        actions_.insert(actions_.end() - 1, action);
        return *this;
    }
    Rule& indirect(rte_flow_action_handle* handle) {
        rte_flow_action action{};
        action.type = RTE_FLOW_ACTION_TYPE_INDIRECT;
        action.conf = handle;
        actions_.insert(actions_.end() - 1, action);
        return *this;
    }
    Rule& action(rte_flow_action_type type) { return action<uint8_t>(type, nullptr); }
    template <class Conf> Rule& action(rte_flow_action_type type, const Conf* conf) {
        rte_flow_action action{};
        action.type = type;
        action.conf = keep(conf);
        actions_.insert(actions_.end() - 1, action);
        return *this;
    }

    const rte_flow_item* pattern() const { return pattern_.data(); }
    const rte_flow_action* actions() const { return actions_.data(); }

  private:
    template <class T> const void* keep(const T* object) {
        if (object == nullptr) return nullptr;
        kept_.push_back(std::make_shared<T>(*object));
        return kept_.back().get();
    }
    std::vector<rte_flow_item> pattern_{rte_flow_item{}}; // END is all zeros
    std::vector<rte_flow_action> actions_{rte_flow_action{}};
    std::vector<std::shared_ptr<void>> kept_;
};

} // namespace rawqp::test
