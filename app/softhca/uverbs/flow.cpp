// SPDX-License-Identifier: BSD-3-Clause
// ibv_create_flow.
#include "app/softhca/uverbs/commands.hpp"
#include "app/softhca/uverbs/flow_match.hpp"

#include <cerrno>
#include <infiniband/verbs.h>

namespace softhca::uverbs {
namespace {

using core::FlowDomain;
using core::Limits;

constexpr uint8_t kMaxSpecs = 10;
constexpr uint32_t kTagBits = 24;

/// What the specs of a rule say, apart from where it goes.
struct Rule {
    Match match;
    std::optional<uint32_t> tag;
    bool drop = false;
    bool multicast_only = false;
};

/// As mlx5_ib sees it: decided by the first spec alone.
bool is_multicast_only(std::span<const std::byte> first) {
    const InBuffer spec(first.data(), first.size());
    if (spec.as<ib_uverbs_flow_spec_hdr>().type == IBV_FLOW_SPEC_ETH) {
        const auto eth = spec.as<ib_uverbs_flow_spec_eth>();
        return eth.val.dst_mac[0] & eth.mask.dst_mac[0] & 1;
    }
    if (spec.as<ib_uverbs_flow_spec_hdr>().type == IBV_FLOW_SPEC_IPV4) {
        const auto ip = first.subspan(sizeof(ib_uverbs_flow_spec_hdr));
        return InBuffer(ip.data(), ip.size()).size() >= 8 && (uint8_t(ip[4]) & 0xf0) == 0xe0;
    }
    return false;
}

Errno add_spec(std::span<const std::byte> spec, Rule& rule) {
    switch (InBuffer(spec.data(), spec.size()).as<ib_uverbs_flow_spec_hdr>().type) {
    case IBV_FLOW_SPEC_ACTION_TAG: {
        if (spec.size() != sizeof(ib_uverbs_flow_spec_action_tag)) return EINVAL;
        rule.tag = InBuffer(spec.data(), spec.size()).as<ib_uverbs_flow_spec_action_tag>().tag_id;
        return 0;
    }
    case IBV_FLOW_SPEC_ACTION_DROP:
        rule.drop = true;
        return spec.size() == sizeof(ib_uverbs_flow_spec_action_drop) ? 0 : EINVAL;
    default: return add_flow_spec(spec, rule.match);
    }
}

/// Walks the specs behind the request. Their sizes must add up to what the request says. With
/// `ignored` they must be well-formed and say nothing.
Errno read_specs(std::span<const std::byte> specs, unsigned count, bool ignored, Rule& rule) {
    for (unsigned i = 0; i < count; i++) {
        if (specs.size() < sizeof(ib_uverbs_flow_spec_hdr)) return EINVAL;
        const auto header = InBuffer(specs.data(), specs.size()).as<ib_uverbs_flow_spec_hdr>();
        if (header.reserved || header.size < sizeof header || header.size > specs.size())
            return EINVAL;
        const auto spec = specs.first(header.size);
        if (i == 0) rule.multicast_only = is_multicast_only(spec);
        Rule alone;
        const Errno error = add_spec(spec, ignored ? alone : rule);
        if (error && !(ignored && error == EOPNOTSUPP)) return error;
        specs = specs.subspan(header.size);
    }
    if (!specs.empty() || rule.tag.value_or(0) >> kTagBits) return EINVAL;
    return lies_within(std::as_bytes(std::span(&rule.match.value, 1)),
                       std::as_bytes(std::span(&rule.match.mask, 1)))
               ? 0
               : EINVAL;
}

core::FlowAttr to_flow(const Rule& rule, core::Number tirn) {
    core::FlowAttr flow;
    flow.value = rule.match.value;
    flow.mask = rule.match.mask;
    flow.tag = rule.tag;
    flow.drop = rule.drop;
    if (!rule.drop) flow.tirs = {tirn};
    return flow;
}

/// The rules of the device that one flow of the program stands for.
Errno plan(const ib_uverbs_flow_attr& request, const Rule& rule, core::Number tirn,
           std::vector<core::FlowAttr>& out) {
    switch (request.type) {
    case IBV_FLOW_ATTR_NORMAL:
        out.push_back(to_flow(rule, tirn));
        out.back().domain = FlowDomain::bypass;
        out.back().priority = bypass_priority(request.priority, rule.multicast_only);
        return 0;
    case IBV_FLOW_ATTR_ALL_DEFAULT:
    case IBV_FLOW_ATTR_MC_DEFAULT:
        // Multicast and unicast are rules apart: so two programs, one with all, one with multicast
        // only, both get the multicast packets.
        for (const uint8_t group : {1, 0}) {
            if (!group && request.type == IBV_FLOW_ATTR_MC_DEFAULT) break;
            Rule leftover;
            leftover.match.mask.dst_mac[0] = 1;
            leftover.match.value.dst_mac[0] = group;
            out.push_back(to_flow(leftover, tirn));
            out.back().domain = FlowDomain::leftovers;
        }
        return 0;
    case IBV_FLOW_ATTR_SNIFFER:
        out.push_back(to_flow(Rule{}, tirn));
        out.back().domain = FlowDomain::sniffer;
        return 0;
    default: return EINVAL;
    }
}

Errno check(const ib_uverbs_create_flow& request) {
    const ib_uverbs_flow_attr& flow = request.flow_attr;
    if (request.comp_mask || flow.num_of_specs > kMaxSpecs) return EINVAL;
    if (flow.port != 1 || flow.reserved[0] || flow.reserved[1]) return EINVAL;
    // Rules that copy and let pass, and rules for what is sent: not on this device.
    constexpr uint32_t kKnownFlags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP | IBV_FLOW_ATTR_FLAGS_EGRESS;
    if (flow.flags & ~kKnownFlags) return EINVAL;
    return flow.flags ? EOPNOTSUPP : 0;
}

} // namespace

uint16_t bypass_priority(uint16_t asked, bool multicast_only) {
    return multicast_only ? Limits::kMulticastPriority : asked;
}

Errno create_flow(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_create_flow>();
    if (const Errno error = check(request)) return error;
    const auto specs = command.in.bytes().subspan(sizeof request);
    if (request.flow_attr.size > specs.size()) return EINVAL;
    const Qp* qp = context.objects.find<Qp>(request.qp_handle);
    if (!qp || !qp->tirn) return EINVAL;

    Rule rule;
    const bool ignored = request.flow_attr.type != IBV_FLOW_ATTR_NORMAL;
    if (const Errno error = read_specs(specs.first(request.flow_attr.size),
                                       request.flow_attr.num_of_specs, ignored, rule))
        return error;
    if (request.flow_attr.priority >= Limits::kBypassPriorities) return ENOMEM;
    std::vector<core::FlowAttr> planned;
    if (const Errno error = plan(request.flow_attr, rule, qp->tirn, planned)) return error;

    auto flow = std::make_unique<Flow>();
    for (const core::FlowAttr& attributes : planned) {
        const auto number = context.device->create_flow(attributes);
        if (!number) {
            (void)flow->destroy(*context.device);
            return errno_of(number);
        }
        flow->rules.push_back(*number);
    }
    ib_uverbs_create_flow_resp out{};
    out.flow_handle = context.objects.add(std::move(flow));
    command.out.put(out);
    return 0;
}

Errno destroy_flow(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_destroy_flow>();
    if (request.comp_mask) return EINVAL;
    return context.objects.destroy<Flow>(request.flow_handle, *context.device);
}

} // namespace softhca::uverbs
