// SPDX-License-Identifier: BSD-3-Clause
// The rte_flow actions that change packets.
#pragma once

#include "drivers/net/rawqp/ethdev/flow/edit_targets.hpp"
#include "drivers/net/rawqp/ethdev/flow/error.hpp"
#include "drivers/net/rawqp/ethdev/steering/edits.hpp"
#include "drivers/net/rawqp/ethdev/steering/pattern.hpp"

#include <optional>
#include <span>
#include <utility>

namespace rawqp {

/// Collects these actions in the order of the rule and checks them against its pattern.
class EditReader {
  public:
    /// Patterns of one rule, with the same items.
    EditReader(std::span<const Pattern> patterns, bool egress)
        : patterns_(patterns), pattern_(patterns.front()), egress_(egress) {}

    /// Reads the action if it is one of these; false: it is not.
    [[nodiscard]] FlowResult<bool> read(const rte_flow_action& action);
    /// The mark that the modify_field just read asks for: it belongs to no header but to the rule
    /// itself.
    [[nodiscard]] std::optional<rte_flow_action_mark> take_mark() {
        return std::exchange(mark_, std::nullopt);
    }
    /// Whether what has been read so far changes packets, besides their metadata.
    [[nodiscard]] bool changes_packets() const;
    [[nodiscard]] FlowResult<Edits> finish();

  private:
    [[nodiscard]] HeadersNow headers() const;
    /// What all packets have in this field of their outermost tag by now; 0: that is unknown.
    [[nodiscard]] uint32_t of_outermost_tag(uint16_t bit, uint16_t bits) const;
    [[nodiscard]] uint32_t id_of_outermost_tag() const;
    /// Refuses what would have to be done to the packet with the header that has gone on.
    [[nodiscard]] FlowResult<void> check_before_encap(const rte_flow_action& action) const;
    FlowResult<void> take(const rte_flow_action& action, FlowResult<Rewrite> rewrite);
    FlowResult<void> modify(const rte_flow_action& action);
    FlowResult<void> set_metadata(const rte_flow_action& action);
    FlowResult<void> decap(const rte_flow_action& action, bool of_l2);
    FlowResult<void> pop_vlan(const rte_flow_action& action);
    FlowResult<void> push_vlan(const rte_flow_action& action);
    FlowResult<void> set_vlan(const rte_flow_action& action);
    FlowResult<void> encap(const rte_flow_action& action, FlowResult<std::vector<uint8_t>> header);

    std::span<const Pattern> patterns_;
    const Pattern& pattern_;
    const bool egress_;
    Edits edits_;
    std::optional<rte_flow_action_mark> mark_;
    const rte_flow_action* decap_ = nullptr;
    const rte_flow_action* encap_ = nullptr;
    bool decap_l2_ = false; ///< what is taken off is an Ethernet header
};

/// Whether the action takes VLAN tags off or puts them on.
[[nodiscard]] inline bool changes_tags(const rte_flow_action& action) {
    return action.type == RTE_FLOW_ACTION_TYPE_OF_POP_VLAN ||
           action.type == RTE_FLOW_ACTION_TYPE_OF_PUSH_VLAN;
}
/// "set_mac_src, set_mac_dst, …".
[[nodiscard]] std::string edit_action_names();

} // namespace rawqp
