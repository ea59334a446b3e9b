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
constexpr core::Number kWire = 0; ///< where rules for what is sent lead to, in place of a TIR

/// The contents of a rule's specs, apart from its destination.
struct Rule {
    Match match;
    std::optional<uint32_t> tag;
    bool drop = false;
    bool multicast_only = false;
    std::vector<Counters*> counters; ///< named by the rule
    std::vector<FlowAction*> actions;
};

/// As in mlx5_ib: decided by the first spec alone.
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

Errno add_spec(const ObjectTable& objects, std::span<const std::byte> spec, Rule& rule) {
    switch (InBuffer(spec.data(), spec.size()).as<ib_uverbs_flow_spec_hdr>().type) {
    case IBV_FLOW_SPEC_ACTION_TAG: {
        if (spec.size() != sizeof(ib_uverbs_flow_spec_action_tag)) return EINVAL;
        rule.tag = InBuffer(spec.data(), spec.size()).as<ib_uverbs_flow_spec_action_tag>().tag_id;
        return 0;
    }
    case IBV_FLOW_SPEC_ACTION_DROP:
        rule.drop = true;
        return spec.size() == sizeof(ib_uverbs_flow_spec_action_drop) ? 0 : EINVAL;
    case IBV_FLOW_SPEC_ACTION_COUNT: {
        if (spec.size() != sizeof(ib_uverbs_flow_spec_action_count)) return EINVAL;
        const auto count =
            InBuffer(spec.data(), spec.size()).as<ib_uverbs_flow_spec_action_count>();
        rule.counters.push_back(objects.find<Counters>(count.handle));
        return rule.counters.back() ? 0 : objects.absence(count.handle);
    }
    case IBV_FLOW_SPEC_ACTION_HANDLE: {
        if (spec.size() != sizeof(ib_uverbs_flow_spec_action_handle)) return EINVAL;
        const auto handle =
            InBuffer(spec.data(), spec.size()).as<ib_uverbs_flow_spec_action_handle>();
        rule.actions.push_back(objects.find<FlowAction>(handle.handle));
        return rule.actions.back() ? 0 : objects.absence(handle.handle);
    }
    default: return add_flow_spec(spec, rule.match);
    }
}

/// Walks the specs after the request. Their sizes must add up to the request's. With `ignored` they
/// must be well-formed and have no effect.
Errno read_specs(const ObjectTable& objects, std::span<const std::byte> specs, unsigned count,
                 bool ignored, Rule& rule) {
    for (unsigned i = 0; i < count; i++) {
        if (specs.size() < sizeof(ib_uverbs_flow_spec_hdr)) return EINVAL;
        const auto header = InBuffer(specs.data(), specs.size()).as<ib_uverbs_flow_spec_hdr>();
        if (header.reserved || header.size < sizeof header || header.size > specs.size())
            return EINVAL;
        const auto spec = specs.first(header.size);
        if (i == 0) rule.multicast_only = is_multicast_only(spec);
        Rule alone;
        const Errno error = add_spec(objects, spec, ignored ? alone : rule);
        if (error && !(ignored && error == EOPNOTSUPP)) return error;
        rule.counters.insert(rule.counters.end(), alone.counters.begin(), alone.counters.end());
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
    if (tirn == kWire) flow.domain = FlowDomain::egress;
    flow.value = rule.match.value;
    flow.mask = rule.match.mask;
    flow.tag = rule.tag;
    flow.drop = rule.drop;
    if (!rule.drop && tirn != kWire) flow.tirs = {tirn};
    return flow;
}

/// The device's rules that implement one flow of the program.
Errno plan(const ib_uverbs_flow_attr& request, const Rule& rule, core::Number tirn,
           std::vector<core::FlowAttr>& out) {
    switch (request.type) {
    case IBV_FLOW_ATTR_NORMAL:
        out.push_back(to_flow(rule, request.flags & IBV_FLOW_ATTR_FLAGS_EGRESS ? kWire : tirn));
        out.back().pass_on = !rule.drop && request.flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
        out.back().priority = bypass_priority(request.priority, rule.multicast_only,
                                              request.flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP);
        for (const Counters* const counters : rule.counters)
            out.back().counters.push_back(counters->number);
        return 0;
    case IBV_FLOW_ATTR_ALL_DEFAULT:
    case IBV_FLOW_ATTR_MC_DEFAULT:
        // Multicast and unicast are separate rules, so that two programs, one with all, one with
        // multicast only, both get the multicast packets.
        for (const uint8_t group : {1, 0}) {
            if (!group && request.type == IBV_FLOW_ATTR_MC_DEFAULT) break;
            Rule leftover;
            leftover.match.mask.outer.dst_mac[0] = 1;
            leftover.match.value.outer.dst_mac[0] = group;
            out.push_back(to_flow(leftover, tirn));
            out.back().domain = FlowDomain::leftovers;
        }
        return 0;
    case IBV_FLOW_ATTR_SNIFFER:
        out.push_back(to_flow(Rule{}, tirn));
        out.back().domain = FlowDomain::sniffer;
        return 0;
    default: return EOPNOTSUPP;
    }
}

Errno check(const ib_uverbs_create_flow& request) {
    const ib_uverbs_flow_attr& flow = request.flow_attr;
    if (request.comp_mask || flow.num_of_specs > kMaxSpecs) return EINVAL;
    if (flow.port != 1 || flow.reserved[0] || flow.reserved[1]) return EINVAL;
    constexpr uint32_t kKnownFlags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP | IBV_FLOW_ATTR_FLAGS_EGRESS;
    if (flow.flags & ~kKnownFlags) return EINVAL;
    const bool takes_the_rest =
        flow.type == IBV_FLOW_ATTR_ALL_DEFAULT || flow.type == IBV_FLOW_ATTR_MC_DEFAULT;
    return flow.flags && takes_the_rest ? EINVAL : 0;
}

/// Turns the specs into rules of the device, which `flow` owns from then on.
Errno install(Context& context, const WriteCommand& command, const Rule& rule, const Qp& qp,
              Flow& flow) {
    const auto request = command.in.as<ib_uverbs_create_flow>().flow_attr;
    if (const Errno error = check_counters_data(command.driver_in)) return error;
    if (request.priority >= Limits::kBypassPriorities) return ENOMEM;
    const bool sends = request.flags & IBV_FLOW_ATTR_FLAGS_EGRESS;
    if (sends &&
        (request.type == IBV_FLOW_ATTR_SNIFFER || request.flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP))
        return EOPNOTSUPP;
    if (request.type == IBV_FLOW_ATTR_NORMAL && !rule.counters.empty()) {
        if (rule.counters.size() > 1) return EINVAL;
        if (const Errno error =
                bind_counters(*rule.counters.front(), command.driver_in, *context.device))
            return error;
    }
    std::vector<core::FlowAttr> planned;
    if (const Errno error = plan(request, rule, qp.tirn, planned)) return error;
    if (request.type == IBV_FLOW_ATTR_NORMAL)
        for (FlowAction* const action : rule.actions)
            if (const Errno error = add_flow_action(*action, flow, planned.front().rewrite))
                return error;
    for (const core::FlowAttr& attributes : planned) {
        const auto number = context.device->create_flow(attributes);
        if (!number) return errno_of(number);
        flow.rules.push_back(*number);
    }
    return 0;
}

} // namespace

uint16_t bypass_priority(uint16_t asked, bool multicast_only, bool pass_on) {
    if (multicast_only && !pass_on) return Limits::kMulticastPriority;
    return static_cast<uint16_t>(2 * asked + (pass_on ? 0 : 1));
}

Errno create_flow(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_create_flow>();
    if (const Errno error = may_use_raw_packets()) return error;
    if (const Errno error = check(request)) return error;
    const auto specs = command.in.bytes().subspan(sizeof request);
    if (request.flow_attr.size > specs.size()) return ENOSPC;
    if (command.in.has_more_than(sizeof request + request.flow_attr.size)) return EOPNOTSUPP;
    const Qp* qp = context.objects.find<Qp>(request.qp_handle);
    if (!qp) return context.objects.absence(request.qp_handle);
    if (!qp->tirn) return EINVAL;

    Rule rule;
    const bool ignored = request.flow_attr.type != IBV_FLOW_ATTR_NORMAL;
    if (const Errno error = read_specs(context.objects, specs.first(request.flow_attr.size),
                                       request.flow_attr.num_of_specs, ignored, rule))
        return error;

    auto flow = std::make_unique<Flow>();
    flow->counters = rule.counters;
    for (Counters* const counters : flow->counters)
        counters->users++;
    if (const Errno error = install(context, command, rule, *qp, *flow)) {
        (void)flow->destroy(*context.device);
        return error;
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
