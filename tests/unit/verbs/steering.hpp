// SPDX-License-Identifier: BSD-3-Clause
// The steering objects of a verbs device, as requested by the driver.
#pragma once

#include "tests/unit/verbs/queues.hpp"

#include <infiniband/mlx5dv.h>

#include <array>
#include <cstring>
#include <optional>
#include <vector>

namespace verbs_test {

struct Table : ibv_rwq_ind_table {
    std::vector<const ibv_wq*> wqs;
    [[nodiscard]] std::vector<uint16_t> queues() const { ///< the WQs' numbers
        std::vector<uint16_t> numbers;
        for (const ibv_wq* const wq : wqs)
            numbers.push_back(static_cast<uint16_t>(wq->wq_num));
        return numbers;
    }
};

/// A QP, and how it spreads the packets that flows send to it.
struct Qp : FakeVerbsQp {
    const ibv_rwq_ind_table* table = nullptr;
    std::vector<uint16_t> queues;
    std::array<uint8_t, 40> key{};
    uint64_t hash_fields = 0;

    static Qp& of(ibv_qp* qp) {
        return static_cast<Qp&>(*static_cast<FakeVerbsQp*>(qp->qp_context));
    }
    [[nodiscard]] ibv_qp* plain() { return &handle.qp_base; }

    /// Returns 0, or mlx5_ib's errno.
    [[nodiscard]] int set_hash(const ibv_rx_hash_conf& hash) {
        if (hash.rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ ||
            hash.rx_hash_key_len != key.size())
            return EINVAL;
        std::memcpy(key.data(), hash.rx_hash_key, key.size());
        hash_fields = hash.rx_hash_fields_mask;
        const auto types = [this](unsigned shift) { // one bit each for source and destination
            return ((hash_fields >> shift & 3) != 0) + ((hash_fields >> (shift + 2) & 3) != 0);
        };
        const bool one_l3_and_one_l4 = types(0) <= 1 && types(4) <= 1;
        return one_l3_and_one_l4 && (hash_fields != 0 || queues.size() == 1) ? 0 : EINVAL;
    }
};

/// The arguments of mlx5dv_create_flow_matcher.
struct Matcher {
    ibv_context* context = nullptr;
    mlx5dv_flow_table_type table = MLX5DV_FLOW_TABLE_TYPE_NIC_RX;
    uint16_t level = 0;
    uint8_t criteria = 0;
    std::vector<uint8_t> mask;
};

/// From mlx5dv_create_flow_action_modify_header, or from _packet_reformat with its type.
struct FlowAction : ibv_flow_action {
    mlx5dv_flow_table_type table = MLX5DV_FLOW_TABLE_TYPE_NIC_RX;
    std::optional<mlx5dv_flow_action_packet_reformat_type> reformat;
    std::vector<uint8_t> bytes;
};

struct Flow : ibv_flow {
    Qp* qp = nullptr;                 ///< null: a flow of mlx5dv that leads to no QP
    std::vector<uint8_t> bytes;       ///< attr and specs as passed
    const Matcher* matcher = nullptr; ///< for a flow of mlx5dv, like what follows
    std::vector<uint8_t> value;
    std::vector<mlx5dv_flow_action_attr> actions;

    Flow(const Matcher* of, const mlx5dv_flow_match_parameters* match,
         std::vector<mlx5dv_flow_action_attr> list)
        : ibv_flow{}, bytes(sizeof(ibv_flow_attr)), matcher(of), actions(std::move(list)) {
        context = of->context;
        const auto* const from = reinterpret_cast<const uint8_t*>(match->match_buf);
        value.assign(from, from + match->match_sz);
        ibv_flow_attr attr{};
        attr.priority = of->level;
        std::memcpy(bytes.data(), &attr, sizeof attr);
        for (const mlx5dv_flow_action_attr& action : actions)
            if (action.type == MLX5DV_FLOW_ACTION_DEST_IBV_QP) qp = &Qp::of(action.qp);
    }
    Flow(ibv_qp* to, const ibv_flow_attr* attributes) : ibv_flow{}, qp(&Qp::of(to)) {
        context = to->context;
        const auto* from = reinterpret_cast<const uint8_t*>(attributes);
        bytes.assign(from, from + attributes->size);
    }
    [[nodiscard]] ibv_flow_attr attr() const {
        ibv_flow_attr attr;
        std::memcpy(&attr, bytes.data(), sizeof attr);
        return attr;
    }
    [[nodiscard]] std::vector<uint8_t> specs() const {
        return {bytes.begin() + sizeof(ibv_flow_attr), bytes.end()};
    }
    [[nodiscard]] uint16_t level() const { return attr().priority; }
    /// The offset in `bytes` of the first spec of that type; 0: there is none.
    [[nodiscard]] size_t find(uint32_t type) const {
        for (size_t at = sizeof(ibv_flow_attr); at < bytes.size();) {
            uint32_t its_type;
            uint16_t its_size;
            std::memcpy(&its_type, &bytes[at], sizeof its_type);
            std::memcpy(&its_size, &bytes[at + sizeof its_type], sizeof its_size);
            if (its_type == type) return at;
            at += its_size;
        }
        return 0;
    }
    template <class Spec> [[nodiscard]] std::optional<Spec> spec(uint32_t type) const {
        const size_t at = find(type);
        if (at == 0) return std::nullopt;
        Spec found;
        std::memcpy(&found, &bytes[at], sizeof found);
        return found;
    }
};

/// Created by a firmware command, which it records. Modifying it appends the commands.
struct DevxObject {
    std::vector<uint8_t> command;
    uint32_t number = 0;
    std::vector<std::vector<uint8_t>> changes{};
    std::vector<uint8_t> answer{}; ///< to queries, after the status; empty: the device's

    static DevxObject* of(mlx5dv_devx_obj* handle) { return reinterpret_cast<DevxObject*>(handle); }
    [[nodiscard]] uint16_t opcode() const {
        return static_cast<uint16_t>(command[0] << 8 | command[1]);
    }
    [[nodiscard]] uint32_t word(size_t byte) const {
        return static_cast<uint32_t>(command[byte] << 24 | command[byte + 1] << 16 |
                                     command[byte + 2] << 8 | command[byte + 3]);
    }
};

struct Counters : ibv_counters {
    uint64_t packets = 0, bytes = 0;
    unsigned attached = 0;

    static Counters& of(ibv_counters* counters) { return *static_cast<Counters*>(counters); }
    int attach(const ibv_flow* flow) {
        if (flow != nullptr) return ENOTSUP; // like mlx5: only before the flow exists
        ++attached;
        return 0;
    }
    int read(uint64_t* values, uint32_t count) const {
        if (count != attached) return EINVAL;
        values[0] = packets;
        values[1] = bytes;
        return 0;
    }
};

} // namespace verbs_test
