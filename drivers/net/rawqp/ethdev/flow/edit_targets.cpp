// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/edit_targets.hpp"

#include "drivers/net/rawqp/ethdev/names.hpp"

namespace rawqp {
namespace {

using enum Protocol;
constexpr auto kAction = RTE_FLOW_ERROR_TYPE_ACTION;
constexpr auto kConf = RTE_FLOW_ERROR_TYPE_ACTION_CONF;

/// ICMPv6's checksum covers the addresses, and devices do not update it (DPDK, commit 0e2ceb639d).
FlowResult<void> check_checksum(const Layer& header, const EditTarget& target,
                                const rte_flow_action& action) {
    constexpr uint16_t kAddressBits = 128, kProtocol = 48;
    const bool of_icmp6 = header.protocol == ipv6 &&
                          get_bits(header.mask, kProtocol, 8) == UINT8_MAX &&
                          header.get(kProtocol, 8) == IPPROTO_ICMPV6;
    if (!of_icmp6 || target.bits != kAddressBits) return {};
    return refuse(
        ENOTSUP, kAction, &action,
        "action {}: ICMPv6 would get a wrong checksum: it covers the addresses, and the device "
        "leaves it as it was",
        action_name(action.type));
}

} // namespace

FlowResult<EditTarget> target_of(const HeadersNow& headers, std::span<const EditTarget> targets,
                                 const rte_flow_action& action, bool changes) {
    std::string names;
    for (const EditTarget& target : targets) {
        if (target.bits == 0) continue;
        if (is_metadata(target.protocol)) return target;
        // What is left of a packet, or replaces its tunnel, begins with Ethernet.
        if (target.protocol == Protocol::eth) return target;
        for (const Layer& layer : headers.pattern.layers())
            if (layer.depth == headers.depth && layer.protocol == target.protocol) {
                if (auto ok = check_checksum(layer, target, action); changes && !ok)
                    return tl::unexpected(ok.error());
                return target;
            }
        names.append(names.empty() ? "" : " or ").append(traits_of(target.protocol).name);
    }
    return refuse(
        EINVAL, kAction, &action,
        "action {}: the pattern has no item {}{}: add it, for only packets with that header "
        "can be changed",
        action_name(action.type), names, headers.depth == 0 ? "" : " inside the tunnel");
}

Rewrite rewrite_of(const EditTarget& target, std::span<const uint8_t> number, Change change,
                   size_t below) {
    Rewrite rewrite{target.protocol, target.bit, target.bits, change != Change::set, {}};
    or_bits(number, 8 * number.size() - below - target.bits, target.bits, rewrite.value, 0);
    if (change == Change::subtract)
        set_bits(rewrite.value, 0, target.bits, ~get_bits(rewrite.value, 0, target.bits) + 1);
    return rewrite;
}

FlowResult<void> check_metadata(const rte_flow_action& action, Protocol protocol, size_t index) {
    if (index < (protocol == Protocol::tag ? kTags : 1)) return {};
    return refuse(ENOTSUP, kConf, &action, "action {}: index {}: the largest is {}",
                  action_name(action.type), index, kTags - 1);
}

} // namespace rawqp
