// SPDX-License-Identifier: BSD-3-Clause
// rawqp-perf: the cost of a packet on any DPDK port. See options.cpp for its options.
#include "app/rawqp-perf/floor.hpp"
#include "app/rawqp-perf/flow_rules.hpp"
#include "app/rawqp-perf/live.hpp"
#include "app/rawqp-perf/options.hpp"
#include "app/rawqp-perf/rate_floor.hpp"
#include "app/rawqp-perf/report.hpp"
#include "app/rawqp-perf/rounds.hpp"
#include "app/rawqp-perf/trace.hpp"
#include "app/rawqp-perf/verbs_loop.hpp"
#include "common/output.hpp"

#include <algorithm>
#include <concepts>
#include <fmt/format.h>
#include <iostream>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <variant>

namespace perf {
namespace {

using End = std::variant<std::unique_ptr<Port>, std::unique_ptr<Floor>, std::unique_ptr<VerbsLoop>,
                         std::unique_ptr<RateFloor>>;

/// For "rings:CPU", which has both ends itself.
End open_rings(const SubjectSpec& spec, const std::string& text, const PortSetup& setup) {
    char* end = nullptr;
    const unsigned long cpu = strtoul(text.c_str(), &end, 10);
    if (text.empty() || *end != '\0' || cpu >= CPU_SETSIZE)
        throw std::runtime_error("rings:" + text + ": write rings:CPU");
    if (!spec.peer.empty() || setup.queues != 1)
        throw std::runtime_error("rings: one queue, whose wire loops: no peer");
    MoverAhead ahead;
    if (spec.fetch) ahead.fetch = {*spec.fetch, *spec.fetch};
    if (spec.claim || spec.no_claim) {
        const uint16_t claim = spec.claim.value_or(0);
        ahead.claim = {claim, claim};
    }
    return std::make_unique<RateFloor>(static_cast<unsigned>(cpu), setup, ahead);
}

uint16_t port_number(const std::string& text) {
    uint16_t id;
    if (rte_eth_dev_get_port_by_name(text.c_str(), &id) == 0) return id;
    char* end = nullptr;
    const unsigned long number = strtoul(text.c_str(), &end, 10);
    if (text.empty() || *end != '\0' || number >= RTE_MAX_ETHPORTS ||
        !rte_eth_dev_is_valid_port(static_cast<uint16_t>(number)))
        throw std::runtime_error("no port '" + text + "': is its driver loaded, its device given?");
    return static_cast<uint16_t>(number);
}

/// Opens what a subject's port names: "floor:DEVICE", "verbs:DEVICE", "rings:CPU" or an ethdev
/// port.
End open_end(const SubjectSpec& spec, const PortSetup& setup, Distance distance) {
    const std::string& port = spec.port;
    const size_t colon = port.find(':') + 1;
    if (port.starts_with("floor:")) {
        FloorAhead ahead = FloorAhead::best(distance);
        if (spec.fetch) ahead.rx = ahead.tx = *spec.fetch;
        if (spec.claim || spec.no_claim) ahead.claim = spec.claim;
        return std::make_unique<Floor>(port.substr(colon), setup, ahead);
    }
    if (port.starts_with("rings:")) return open_rings(spec, port.substr(colon), setup);
    if (port.starts_with("verbs:")) return std::make_unique<VerbsLoop>(port.substr(colon), setup);
    return std::make_unique<Port>(port_number(port), setup);
}

PortSetup setup_of(const SubjectSpec& spec, PortSetup setup) {
    if (spec.queues != 0) setup.queues = spec.queues;
    if (spec.descriptors != 0) setup.descriptors = spec.descriptors;
    return setup;
}

/// Packets after which each slot of all rings has been used. A slot of a Tx ring, 64 bytes, has up
/// to four packets of an eMPW WQE.
uint32_t one_lap(const PortSetup& setup) { return 4u * setup.queues * setup.descriptors; }

/// One subject, set up.
struct Subject {
    /// Calls `work` with the subject's end.
    template <class Work> auto visit(Work work) {
        return std::visit([&work](auto& opened) { return work(*opened); }, end);
    }

    Subject(const SubjectSpec& spec, const PortSetup& setup, Distance distance)
        : name(spec.name), heap(setup.heap), evicts(distance == Distance::cold),
          lap(one_lap(setup_of(spec, setup))),
          end(open_end(spec, setup_of(spec, setup), distance)) {
        if (!spec.peer.empty()) {
            PortSetup other = setup;
            other.queues = 1;
            other.descriptors = 1024;
            other.heap.clear();
            other.offloads = {};
            other_port = std::make_unique<Port>(port_number(spec.peer), other);
        }
        if (port() == nullptr && setup.offloads.flags() != 0)
            throw std::runtime_error(name + ": a loop without a driver has no offloads");
        if (port() != nullptr) port()->wait_for_link();
        if (other_port) other_port->wait_for_link();
        if (other_port || port() != nullptr)
            peer = std::make_unique<Peer>(other_port ? *other_port : *port());
        queue_ports = visit([this](auto& opened) {
            if constexpr (requires { opened.queue_ports(); })
                return opened.queue_ports(); // by rules of its own
            else
                return find_queue_ports(opened, *peer);
        });
    }
    /// The ethdev port, if the subject is one.
    [[nodiscard]] Port* port() {
        auto* const found = std::get_if<std::unique_ptr<Port>>(&end);
        return found != nullptr ? found->get() : nullptr;
    }
    Port& needs_port(const std::string& measure) {
        if (port() == nullptr) throw std::runtime_error(measure + ": only for a port");
        return *port();
    }
    /// What is evicted from the caches before bursts are timed: rings and mbufs, if they are cold.
    [[nodiscard]] std::vector<MemorySpan> to_evict(const FrameSizes& sizes) {
        if (heap.empty() || !evicts) return {};
        const uint16_t longest = *std::max_element(sizes.bytes.begin(), sizes.bytes.end());
        auto spans = memory_of_mbufs(visit([](auto& opened) { return opened.pool(); }), longest);
        const auto rings = memory_of_heap(heap);
        spans.insert(spans.end(), rings.begin(), rings.end());
        return spans;
    }
    [[nodiscard]] SubjectInfo info() {
        return visit([this](auto& opened) {
            return SubjectInfo{name, opened.driver(), opened.modes()};
        });
    }

    std::string name;
    std::string heap; ///< where the rings are; empty: with the others'
    bool evicts;
    bool failed = false; ///< measured no more
    uint32_t lap;        ///< packets that its rings take before a slot is used again
    std::set<Measure> lapped;
    End end;
    std::unique_ptr<Port> other_port;
    std::unique_ptr<Peer> peer; ///< none: a loop without a driver, whose wire loops
    std::vector<uint16_t> queue_ports;
};

/// Before anything is timed: a WQE ring may have more entries than it takes packets.
constexpr uint32_t kFirstLaps = 4;

/// Traces one that is whole.
template <class Round>
void trace_round(TimedSection& section, const TracedMemory& memory, const std::string& file,
                 Round round) {
    Steps steps;
    section.trace(&steps);
    for (int tries = 0; !round(); ++tries)
        if (tries == 10) throw std::runtime_error(file + ": no round was whole");
    section.trace(nullptr);
    write_trace(file, steps, memory);
}

template <class Opened>
Figure measure_rounds(Opened& end, Subject& subject, Measure measure, const RoundPlan& plan,
                      const FrameSizes& sizes, const Options& options, CpuHold* hold,
                      const std::string& trace) {
    std::optional<LineCosts> far;
    if (hold != nullptr) far = hold->line_costs();
    TimedSection section(hold, subject.to_evict(sizes));
    Rounds<Opened> rounds(end, *subject.peer, plan, sizes, subject.queue_ports, section);
    // Not timed: the first access to each page of a ring costs thousands of cycles, which a host
    // may take even where the guest has mapped it. With thousands of descriptors that would be most
    // rounds. Before a mean, in each pass: the first rounds fetch what other subjects have
    // displaced.
    const uint32_t laps = subject.lapped.insert(measure).second ? kFirstLaps : options.mean ? 1 : 0;
    for (uint32_t passed = 0; passed < laps * subject.lap; passed += plan.packets + plan.warm_up)
        rounds.run(measure);
    std::vector<double> cycles;
    unsigned unclean = 0;
    // A mean of the others would be wrong if many were left out: a driver that has no buffers left
    // does its refilling in just the rounds that are then not complete.
    const unsigned most = options.mean ? 10 + options.rounds / 10 : 200 + 4 * options.rounds;
    while (cycles.size() < options.rounds) {
        if (const auto round = rounds.run(measure))
            cycles.push_back(*round);
        else if (++unclean > most)
            throw std::runtime_error(
                fmt::format("{}: {} of {} rounds were not complete in time: rings too small for "
                            "--round, or the device's CPU is busy",
                            subject.name, unclean, unclean + cycles.size()));
    }
    if (!trace.empty()) {
        const TracedMemory memory{end.bursts(), end.pool(), end.stack(),
                                  memory_of_heap(subject.heap)};
        trace_round(section, memory, trace, [&] { return rounds.run(measure).has_value(); });
    }
    Figure figure{.burst = plan.burst,
                  .unit = "cycles/packet",
                  .value = options.mean ? mean(cycles) : percentile(cycles, 0.5)};
    figure.more = {{"p10", percentile(cycles, 0.1)},
                   {"p90", percentile(cycles, 0.9)},
                   {"unclean_rounds", static_cast<double>(unclean)}};
    if (far) {
        figure.more["far_load"] = far->load;
        figure.more["far_store"] = far->store;
    }
    return figure;
}

/// From the peer's port, or through an end whose wire loops.
Figure measure_latency(Subject& subject, const FrameSizes& sizes, uint16_t burst,
                       const Options& options) {
    return subject.visit([&](auto& end) {
        if constexpr (std::same_as<std::decay_t<decltype(end)>, Port>) {
            Port& from = subject.peer->port();
            const FrameWriter writer(sizes, destination(end, options.to), from.mac(), {1024});
            return measure_latency(from, end, writer, burst, options.packets);
        } else {
            if (subject.peer)
                throw std::runtime_error("latency: of a loop without a driver, whose wire loops, "
                                         "without a peer");
            const FrameWriter writer(sizes, end.mac(), end.mac(), {1024});
            return measure_latency(end, end, writer, burst, options.packets);
        }
    });
}

/// Each packet goes to the address of a different rule, and comes from a port that was not seen for
/// long: no device knows it from the packet before.
Figure measure_rate_by_rules(Port& from, Port& to, const FrameSizes& sizes, uint16_t burst,
                             const Options& options) {
    std::vector<uint16_t> ports(60000);
    std::iota(ports.begin(), ports.end(), uint16_t{1024});
    const FrameWriter writer(sizes, destination(to, options.to), from.mac(), std::move(ports),
                             false, options.rules);
    const AddressRules rules(to, options.rules);
    await_path(from, to, writer);
    Figure figure = measure_rate(from, to, writer, burst, options.seconds);
    figure.measure = "rate_by_rules";
    figure.more.emplace("rules", options.rules);
    return figure;
}

/// From the peer's port, or through the floor of rates.
Figure measure_rate(Subject& subject, const FrameSizes& sizes, uint16_t burst,
                    const Options& options) {
    return subject.visit([&](auto& end) -> Figure {
        using Opened = std::decay_t<decltype(end)>;
        if constexpr (std::same_as<Opened, Port>) {
            Port& from = subject.peer->port();
            const FrameWriter writer(sizes, destination(end, options.to), from.mac(), {1024});
            await_path(from, end, writer);
            return measure_rate(from, end, writer, burst, options.seconds);
        } else if constexpr (std::same_as<Opened, RateFloor>) {
            const FrameWriter writer(sizes, end.mac(), end.mac(), {1024});
            return measure_rate(end, end, writer, burst, options.seconds);
        } else {
            throw std::runtime_error("rate: of a port, or of rings:CPU");
        }
    });
}

Figure measure_one(Subject& subject, const std::string& measure, const FrameSizes& sizes,
                   uint16_t burst, const Options& options, CpuHold* hold) {
    if (measure == "latency") return measure_latency(subject, sizes, burst, options);
    if (measure == "rate") return measure_rate(subject, sizes, burst, options);
    if (measure == "rate_by_rules") {
        Port& port = subject.needs_port(measure); // rings:CPU has no peer either
        return measure_rate_by_rules(subject.peer->port(), port, sizes, burst, options);
    }
    if (measure == "flows") return measure_flows(subject.needs_port(measure), options.rules);
    if (measure == "flows_async")
        return measure_async_flows(subject.needs_port(measure), options.rules);
    constexpr uint32_t kGroup = 1;
    if (measure == "flows_group")
        return measure_flows(subject.needs_port(measure), options.rules, kGroup);
    if (measure == "flows_group_async")
        return measure_async_flows(subject.needs_port(measure), options.rules, kGroup);
    if (!subject.peer) throw std::runtime_error(measure + ": a loop without a driver needs a peer");
    const Measure kind = measure == "rx"   ? Measure::rx
                         : measure == "tx" ? Measure::tx
                                           : Measure::forward;
    const RoundPlan plan{.burst = burst,
                         .packets = options.round,
                         .warm_up = options.warm_up,
                         .offloads = Offloads::of(options.offloads)};
    return subject.visit([&](auto& end) {
        const std::string trace =
            options.trace.empty() ? ""
                                  : fmt::format("{}/{}-{}", options.trace, subject.name, measure);
        return measure_rounds(end, subject, kind, plan, sizes, options, hold, trace);
    });
}

/// Runs `work` for one subject. A failure is reported, and the other subjects are still measured.
template <class Work> bool attempt(const std::string& subject, Report& report, Work work) {
    try {
        work();
        return true;
    } catch (const std::exception& error) {
        report.failures.push_back(fmt::format("{}: {}", subject, error.what()));
        fmt::print(stderr, "rawqp-perf: {}\n", report.failures.back());
        return false;
    }
}

/// With --step: returns when it is this process's turn.
void await_turn(const Options& options) {
    if (!options.step) return;
    fmt::print("your turn\n");
    fflush(stdout);
    std::string line;
    std::getline(std::cin, line); // end of file: there is nobody else to wait for
}

/// All passes of all measures with one set-up of the ports.
void measure_setup(const Options& options, const PortSetup& setup, CpuHold* hold, Report& report) {
    std::vector<std::unique_ptr<Subject>> subjects;
    for (const SubjectSpec& spec : options.subjects)
        attempt(spec.name, report, [&] {
            PortSetup own = setup;
            if (options.distance == Distance::cold || !options.trace.empty())
                own.heap = fmt::format("rings of {}", subjects.size());
            subjects.push_back(std::make_unique<Subject>(spec, own, options.distance));
        });
    report.pools = resident(memory_of_pools());
    fmt::print(options.text(), "packets and rings: {} MiB, of them {} MiB on huge pages\n",
               report.pools.bytes >> 20, report.pools.on_huge_pages >> 20);
    report.subjects.clear();
    for (const auto& subject : subjects)
        report.subjects.push_back(subject->info());
    for (unsigned pass = 0; pass < options.passes; ++pass)
        for (const std::string& measure : options.measures)
            for (const std::string& size : options.sizes)
                for (const uint16_t burst : options.bursts)
                    for (const auto& subject : subjects) {
                        if (subject->failed) continue;
                        await_turn(options);
                        subject->failed = !attempt(subject->name, report, [&] {
                            const FrameSizes sizes = FrameSizes::parse(size);
                            Figure figure =
                                measure_one(*subject, measure, sizes, burst, options, hold);
                            figure.subject = subject->name;
                            figure.measure = measure;
                            figure.size = size;
                            figure.queues = subject->visit([](auto& end) { return end.queues(); });
                            figure.fast_free = setup.fast_free;
                            figure.distance = name_of(options.distance);
                            figure.pass = pass;
                            print_figure(figure, options.text());
                            report.figures.push_back(std::move(figure));
                        });
                    }
    if (rte_eal_process_type() == RTE_PROC_PRIMARY)
        await_turn(options); // the ports are the secondary's, too
}

void measure_probes(const Options& options, Report& report) {
    std::set<std::string> failed; ///< measured no more
    for (unsigned pass = 0; pass < options.passes; ++pass)
        for (const std::string& probe : options.probes) {
            const size_t equals = probe.find('=');
            const std::string name = probe.substr(0, equals);
            if (failed.contains(name)) continue;
            const bool measured = attempt(name, report, [&] {
                Figure figure = measure_first_packet(
                    probe.substr(equals + 1), {.queues = 1, .descriptors = options.descriptors});
                figure.subject = name;
                figure.pass = pass;
                print_figure(figure, options.text());
                report.figures.push_back(std::move(figure));
            });
            if (!measured) failed.insert(name);
        }
}

int run(const Options& options) {
    JsonFile json(options.json);
    Report report;
    std::unique_ptr<CpuHold> hold;
    if (options.distance == Distance::far) {
        hold = std::make_unique<CpuHold>(*options.device_cpu);
        report.distance = hold->proof();
        fmt::print(options.text(), "{}\n", report.distance);
    }
    choose_pages(options.pages);
    if (options.distance == Distance::cold && !evict({}))
        throw std::runtime_error("distance cold: this CPU has no clflushopt");
    if (!options.probes.empty())
        measure_probes(options, report);
    else
        for (const uint16_t& queues : options.queues)
            for (const std::string& fast_free : options.fast_free)
                measure_setup(options,
                              {.queues = queues,
                               .descriptors = options.descriptors,
                               .fast_free = fast_free == "on",
                               .offloads = Offloads::of(options.offloads),
                               .spare_mbufs = 2 * (options.round + options.warm_up) + 1024,
                               .last = &queues == &options.queues.back() &&
                                       &fast_free == &options.fast_free.back()},
                              hold.get(), report);
    json.write(report);
    return report.failures.empty() ? 0 : 1;
}

/// The place of the `--` after which --help is asked for; 0: it is not.
int place_of_help(int argc, char** argv) {
    char** const end = argv + argc;
    char** const own = std::find(argv, end, std::string_view("--"));
    const bool help = std::any_of(
        own, end, [](const std::string_view word) { return word == "--help" || word == "-h"; });
    return help ? static_cast<int>(own - argv) : 0;
}

/// EAL as long as this lives.
struct Eal {
    Eal(int argc, char** argv) : used(rte_eal_init(argc, argv)) {}
    ~Eal() {
        if (used >= 0) rte_eal_cleanup();
    }
    Eal(const Eal&) = delete;
    Eal& operator=(const Eal&) = delete;

    const int used; ///< of the arguments; negative: it did not start
};

int run(int argc, char** argv) {
    int status = 0;
    // Without EAL, which may not start here: without hugepages, say.
    if (const int place = place_of_help(argc, argv)) {
        (void)parse_options(argc - place, argv + place, status);
        return status;
    }
    const Eal eal(argc, argv);
    if (eal.used < 0) {
        fmt::print(stderr, "rawqp-perf: EAL did not start, see above\n");
        return 1;
    }
    argv[eal.used] = argv[0];
    const auto options = parse_options(argc - eal.used, argv + eal.used, status);
    return options ? run(*options) : status;
}

} // namespace
} // namespace perf

int main(int argc, char** argv) {
    return output::end_of("rawqp-perf", 1, [&] { return perf::run(argc, argv); });
}
