// SPDX-License-Identifier: BSD-3-Clause
// rte_flow rules as a program might write them, from arbitrary bytes: attributes, items, and
// actions with their configurations. All pointers are valid; what they point to is arbitrary.
#pragma once

#include "drivers/net/rawqp/ethdev/flow/table.hpp"
#include "tests/fuzz/input.hpp"

#include <array>
#include <cstring>
#include <deque>
#include <vector>

namespace fuzz {

class FlowRule {
  public:
    /// `shared`: handles of indirect actions.
    explicit FlowRule(std::vector<const rte_flow_action_handle*> shared)
        : shared_(std::move(shared)) {}
    FlowRule(const FlowRule&) = delete;
    FlowRule& operator=(const FlowRule&) = delete;

    rte_flow_attr attributes(Input& input) {
        const uint8_t bits = input.byte();
        rte_flow_attr attr{};
        attr.egress = bits & 1;
        attr.ingress = (bits & 2) == 0;
        attr.transfer = (bits & 0x1c) == 0x1c;
        attr.group = bits >> 5;
        attr.priority = input.two_bytes();
        return attr;
    }
    const rte_flow_item* items(Input& input) {
        auto& made = items_.emplace_back(input.byte() % 8u);
        for (rte_flow_item& item : made) {
            const uint8_t parts = input.byte();
            item.type = static_cast<rte_flow_item_type>(input.byte() % kItemTypes);
            if (parts & 1) item.spec = bytes(input);
            if (parts & 2) item.mask = bytes(input);
            if ((parts & 0xc) == 0xc) item.last = bytes(input);
        }
        made.push_back({});
        return made.data();
    }
    const rte_flow_action* actions(Input& input, unsigned depth = 0) {
        auto& made = actions_.emplace_back(input.byte() % 6u);
        for (rte_flow_action& action : made) {
            action.type = static_cast<rte_flow_action_type>(input.byte() % kActionTypes);
            if (input.byte() % 8 != 0) action.conf = configuration(action.type, input, depth);
        }
        made.push_back({});
        return made.data();
    }
    /// In the action's format.
    const void* configuration(rte_flow_action_type type, Input& input, unsigned depth = 0) {
        switch (type) {
        case RTE_FLOW_ACTION_TYPE_RSS: return rss(input);
        case RTE_FLOW_ACTION_TYPE_RAW_ENCAP: return raw_header<rte_flow_action_raw_encap>(input);
        case RTE_FLOW_ACTION_TYPE_RAW_DECAP: return raw_header<rte_flow_action_raw_decap>(input);
        case RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP:
        case RTE_FLOW_ACTION_TYPE_NVGRE_ENCAP: return tunnel(input);
        case RTE_FLOW_ACTION_TYPE_SAMPLE: return sample(input, depth);
        case RTE_FLOW_ACTION_TYPE_MODIFY_FIELD: return modify_field(input);
        case RTE_FLOW_ACTION_TYPE_INDIRECT: return shared_action(input);
        default: return bytes(input);
        }
    }

  private:
    // Values outside of an enumeration are not the driver's concern.
    static constexpr unsigned kItemTypes = RTE_FLOW_ITEM_TYPE_L2TPV2 + 1,
                              kActionTypes = RTE_FLOW_ACTION_TYPE_CONNTRACK + 1;
    static constexpr size_t kMost = 256; ///< bytes of a structure without pointers
    using Bytes = std::array<uint8_t, kMost>;
    template <class Value> Value* keep(const Value& value) {
        static_assert(sizeof value <= kMost && std::is_trivially_copyable_v<Value>);
        Bytes& bytes = memory_.emplace_back();
        std::memcpy(bytes.data(), &value, sizeof value);
        return reinterpret_cast<Value*>(bytes.data());
    }
    /// Exactly that many, or null, so that sanitizers detect reads beyond them.
    uint8_t* array(Input& input, size_t count) {
        auto& made = arrays_.emplace_back(count);
        input.fill(made);
        return count != 0 ? made.data() : nullptr;
    }
    const void* bytes(Input& input) {
        Bytes& made = memory_.emplace_back();
        input.fill(std::span(made).first(input.byte() % 64));
        return made.data();
    }
    const void* rss(Input& input) {
        rte_flow_action_rss conf{};
        conf.func = static_cast<rte_eth_hash_function>(input.byte() % 6);
        conf.level = input.byte() % 4;
        conf.types = uint64_t{input.two_bytes()} << input.byte() % 64;
        conf.key_len = input.byte() % 64;
        conf.key = array(input, conf.key_len);
        conf.queue_num = input.byte();
        auto& queues = queues_.emplace_back(conf.queue_num);
        for (uint16_t& queue : queues)
            queue = input.byte();
        conf.queue = queues.empty() ? nullptr : queues.data();
        return keep(conf);
    }
    template <class Conf> const void* raw_header(Input& input) {
        Conf conf{};
        conf.size = input.byte();
        conf.data = array(input, conf.size);
        return keep(conf);
    }
    const void* tunnel(Input& input) {
        auto* const definition = const_cast<rte_flow_item*>(items(input));
        return keep(rte_flow_action_vxlan_encap{input.byte() % 8 != 0 ? definition : nullptr});
    }
    const void* sample(Input& input, unsigned depth) {
        constexpr unsigned kDeepest = 2;
        rte_flow_action_sample conf{};
        conf.ratio = input.byte();
        conf.actions = depth < kDeepest ? actions(input, depth + 1) : nullptr;
        return keep(conf);
    }
    const void* modify_field(Input& input) {
        rte_flow_action_modify_field conf{};
        conf.operation = static_cast<rte_flow_modify_op>(input.byte() % 4);
        conf.width = input.byte();
        for (auto* const data : {&conf.dst, &conf.src}) {
            data->field = static_cast<rte_flow_field_id>(input.byte() % 32);
            if (data == &conf.src && data->field == RTE_FLOW_FIELD_POINTER) {
                data->pvalue = input.byte() % 8 != 0 ? array(input, 16) : nullptr;
            } else if (data == &conf.src && data->field == RTE_FLOW_FIELD_VALUE) {
                input.fill(data->value);
            } else {
                data->level = input.byte() % 8;
                data->offset = input.byte();
            }
        }
        return keep(conf);
    }
    const void* shared_action(Input& input) {
        const size_t which = input.byte() % (shared_.size() + 1);
        return which < shared_.size() ? shared_[which] : nullptr;
    }

    std::vector<const rte_flow_action_handle*> shared_;
    std::deque<std::vector<rte_flow_item>> items_;
    std::deque<std::vector<rte_flow_action>> actions_;
    std::deque<Bytes> memory_;
    std::deque<std::vector<uint8_t>> arrays_;
    std::deque<std::vector<uint16_t>> queues_;
};

} // namespace fuzz
