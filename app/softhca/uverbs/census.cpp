// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/census.hpp"

#include "app/softhca/control/client.hpp"
#include "app/softhca/uverbs/commands.hpp"

#include <infiniband/verbs.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <unistd.h>

namespace softhca::uverbs {

using nlohmann::json;

// Only between programs of one softhca, which come from one build.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PdEntry, number, users)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CqEntry, number, entries, users)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MrEntry, key, pd, length)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(QpEntry, number, pd, port, type, state)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ContextEntry, number, pds, cqs, mrs, qps)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PortEntry, device, link_up, counters, contexts)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProcessEntry, pid, ports)

namespace {

/// Counts, per PD and per CQ, the objects that use it.
struct Users {
    std::map<uint32_t, uint32_t> of_pd, of_cq;

    explicit Users(const ObjectTable& objects) {
        objects.for_each<Mr>([&](const Mr& mr) { of_pd[mr.pd]++; });
        objects.for_each<Wq>([&](const Wq& wq) {
            of_pd[wq.description.attr.pd]++;
            of_cq[wq.description.attr.cqn]++;
        });
        objects.for_each<Qp>([&](const Qp& qp) {
            of_pd[qp.pd]++;
            if (qp.sqn) of_cq[qp.sq.attr.cqn]++;
            if (qp.rqn) of_cq[qp.rq.attr.cqn]++;
        });
    }
};

ContextEntry describe(Context& context, uint32_t number) {
    ContextEntry entry{.number = number, .pds = {}, .cqs = {}, .mrs = {}, .qps = {}};
    Users users(context.objects);
    context.objects.for_each<Pd>([&](const Pd& pd) {
        entry.pds.push_back({pd.number, users.of_pd[pd.number]});
    });
    context.objects.for_each<Cq>([&](const Cq& cq) {
        entry.cqs.push_back({cq.number, cq.entries, users.of_cq[cq.number]});
    });
    context.objects.for_each<Mr>([&](const Mr& mr) {
        entry.mrs.push_back({mr.lkey, mr.pd, mr.length});
    });
    context.objects.for_each<Qp>([&](const Qp& qp) {
        if (!qp.rss) // nameless, as the kernel has it: number 0
            entry.qps.push_back({qp.sqn ? qp.sqn : qp.rqn, qp.pd, qp.port, IBV_QPT_RAW_PACKET,
                                 state_of(*context.device, qp)});
    });
    return entry;
}

/// The counters of sysfs. Those in counters/ count all frames, as Ethernet is the only transport
/// here.
std::map<std::string, uint64_t> counters_of(core::Device& device) {
    // In this order: a packet counted in between passes as unicast for now, and nothing becomes
    // negative.
    const core::GroupCounters groups = device.group_counters();
    const core::PortCounters all = device.counters();
    const uint64_t rx_groups = groups.rx_multicast.packets + groups.rx_broadcast.packets;
    const uint64_t tx_groups = groups.tx_multicast.packets + groups.tx_broadcast.packets;
    constexpr uint64_t kWord = 4; // port_rcv_data and port_xmit_data count these many bytes
    return {
        {"counters/port_rcv_packets", all.wire_rx_packets},
        {"counters/port_rcv_data", all.wire_rx_bytes / kWord},
        {"counters/unicast_rcv_packets", all.wire_rx_packets - rx_groups},
        {"counters/multicast_rcv_packets", rx_groups},
        {"counters/port_rcv_errors", all.drop_undersize + all.drop_oversize},
        {"counters/port_xmit_packets", all.wire_tx_packets},
        {"counters/port_xmit_data", all.wire_tx_bytes / kWord},
        {"counters/unicast_xmit_packets", all.wire_tx_packets - tx_groups},
        {"counters/multicast_xmit_packets", tx_groups},
        {"counters/port_xmit_discards", all.drop_tx_wire},
        {"hw_counters/out_of_buffer", device.query_q_counter(0).value_or(0)},
        {"statistics/rx_packets", all.wire_rx_packets},
        {"statistics/rx_bytes", all.wire_rx_bytes},
        {"statistics/rx_dropped", all.drop_out_of_buffer},
        {"statistics/multicast", groups.rx_multicast.packets},
        {"statistics/tx_packets", all.wire_tx_packets},
        {"statistics/tx_bytes", all.wire_tx_bytes},
    };
}

ProcessEntry describe_self(Runtime& runtime) {
    ProcessEntry process{.pid = getpid(), .ports = {}};
    for (const auto& port : runtime.ports()) {
        core::Device* const device = port->device.load();
        if (!device) continue;
        PortEntry& entry = process.ports.emplace_back();
        entry.device = port->config.device;
        entry.link_up = device->link_up();
        entry.counters = counters_of(*device);
        port->contexts.for_each([&](uint32_t number, Context& context) {
            const auto lock = context.lock();
            if (context.device) entry.contexts.push_back(describe(context, number));
        });
    }
    return process;
}

std::optional<ProcessEntry> read_entry(const json& answer) {
    try {
        return answer.get<ProcessEntry>();
    } catch (const json::exception&) {
        return std::nullopt; // from another build
    }
}

} // namespace

json describe_process(Runtime& runtime) { return describe_self(runtime); }

std::vector<ProcessEntry> take_census(Runtime& runtime) {
    std::vector<ProcessEntry> census;
    if (Runtime::running() == &runtime) census.push_back(describe_self(runtime));
    for (const auto& instance : control::find_instances(runtime.config().runtime_dir)) {
        if (instance.pid == getpid()) continue;
        const auto answer = control::ask(instance, {{"cmd", kCensusCommand}});
        if (!answer) continue;
        if (auto entry = read_entry(*answer)) census.push_back(std::move(*entry));
    }
    return census;
}

PortView view_port(const std::vector<ProcessEntry>& census, Port& port) {
    PortView view;
    for (const ProcessEntry& process : census)
        for (const PortEntry& entry : process.ports) {
            if (entry.device != port.config.device) continue;
            view.running = true;
            view.link_up |= entry.link_up;
            for (const auto& [name, value] : entry.counters)
                view.counters[name] += value;
        }
    if (!view.running) view.link_up = port.netdev.is_up();
    return view;
}

} // namespace softhca::uverbs
