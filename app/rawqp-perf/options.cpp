// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/options.hpp"

#include "app/rawqp-perf/dpdk.hpp"
#include "common/decimal.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

namespace perf {
namespace {

constexpr const char* kDescription =
    "rawqp-perf EAL-OPTIONS -- OPTIONS: measures the cost of a packet on any DPDK port.";

constexpr const char* kFooter = R"(
A subject is NAME=PORT[,peer=PORT][,queues=N][,descriptors=N], where PORT is an ethdev name or
number, and peer the port at the other end of its cable (without peer, the port's wire loops back).
Some subjects are not drivers but hand-written loops. Two run on an RDMA device: floor:DEVICE, the
cheapest possible on its mapped mlx5 rings, and verbs:DEVICE, the cheapest possible through its verbs
provider. The floor's prefetch distances may be given in packets: fetch=N for CQEs and mbufs (0:
never), claim=N for WQEs (none: never); the default is the best for --distance. The third, for rate
and latency, is rings:CPU: the floor over rings in memory, and a thread on that CPU that moves packets
from send to receive queue and does nothing else that a device does; its fetch and claim are for
packets that it reads, and for buffers and CQEs that it writes (0 or none: never). The rounds of
several subjects alternate, so that drift of the machine affects all of them equally: compare only
figures of the same pass.

Measures:
  rx, tx, forward  cycles per packet while the device is idle, in drained rounds
  rate             packets per second from the peer to the port
  rate_by_rules    the same, each packet by the next of --rules flow rules
  latency          microseconds from the peer's tx_burst to the port's rx_burst, percentiles; one
                   burst at a time. For a loop without a driver only if its wire loops back
  flows            flow rules inserted and deleted per second
  flows_async      the same from a template table, through an operations queue
  flows_group      as flows, in group 1
  flows_group_async  as flows_async, in group 1

Where the lines that the device has written and read are when rx, tx and forward are timed, by
--distance; start a software device accordingly:
  near  in the lcore's cache: the device's thread shares its CPU
  far   in another core's cache: the device's thread runs on --device-cpu, which is held meanwhile
        so that the device does not run. Needs CAP_SYS_NICE
  cold  in memory: rings and mbufs are evicted from all caches

Started with --proc-type=secondary, it measures the ports of a rawqp-perf that runs as the primary
process, as the primary has set them up: give it the same options. With --step neither of them polls
while the other measures. EAL needs hugepages for this.

With --first-packet NAME=DEVARGS instead of subjects: microseconds from probe to first packet, on a
device whose wire loops back.

Example: the driver and its floor on a software device
  softhca --cpus 1 --port wire=pair:a --port wire=pair:a --port wire=pair:b --port wire=pair:b -- \
    rawqp-perf -l 1 --no-huge -m 512 --no-pci --vdev net_rawqp0,device=mlx5_0 \
      --vdev net_rawqp1,device=mlx5_1 --vdev net_rawqp2,device=mlx5_3 -- \
      --subject rawqp=net_rawqp0,peer=net_rawqp1 --subject floor=floor:mlx5_2,peer=net_rawqp2
)";

uint16_t parse_number(const std::string& subject, const std::string& text, unsigned least = 1) {
    char* end = nullptr;
    const unsigned long number = strtoul(text.c_str(), &end, 10);
    if (text.empty() || *end != '\0' || number < least || number > UINT16_MAX)
        throw CLI::ValidationError("--subject", subject + ": not a count: '" + text + "'");
    return static_cast<uint16_t>(number);
}

SubjectSpec parse_subject(const std::string& text) {
    SubjectSpec spec;
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
        const size_t equals = part.find('=');
        const std::string key = part.substr(0, equals);
        const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
        if (key.empty() || value.empty())
            throw CLI::ValidationError("--subject", text + ": write NAME=PORT[,peer=PORT]…");
        if (spec.name.empty()) {
            spec.name = key;
            spec.port = value;
        } else if (key == "peer") {
            spec.peer = value;
        } else if (key == "queues") {
            spec.queues = parse_number(text, value);
        } else if (key == "descriptors") {
            spec.descriptors = parse_number(text, value);
        } else if (key == "fetch") {
            spec.fetch = parse_number(text, value, 0);
        } else if (key == "claim" && value == "none") {
            spec.no_claim = true;
        } else if (key == "claim") {
            spec.claim = parse_number(text, value, 0);
        } else {
            throw CLI::ValidationError("--subject",
                                       text + ": '" + key +
                                           "' is none of peer, queues, descriptors, fetch, claim");
        }
    }
    return spec;
}

void check_round(const Options& options, uint16_t queues, uint16_t descriptors, uint16_t burst) {
    const uint32_t turn = uint32_t{queues} * burst;
    if (options.round % turn != 0 || options.warm_up % turn != 0)
        throw CLI::ValidationError("--round, --warm-up",
                                   "must be multiples of queues × burst = " + std::to_string(turn));
    if ((options.round + options.warm_up) / queues > descriptors)
        throw CLI::ValidationError("--round", "a round must fit into the rings: queues × " +
                                                  std::to_string(descriptors) + " descriptors");
}

void check(const Options& options) {
    if (options.distance == Distance::far && !options.device_cpu)
        throw CLI::ValidationError("--distance", "far needs --device-cpu");
    if (!options.trace.empty() && options.distance != Distance::near)
        throw CLI::ValidationError("--trace", "tells of no distance: leave --distance out");
    if (options.subjects.empty() == options.probes.empty())
        throw CLI::ValidationError("give --subject or --first-packet, one of them at least once");
    if (rte_eal_process_type() == RTE_PROC_SECONDARY &&
        (options.queues.size() * options.fast_free.size() != 1 ||
         options.distance == Distance::cold || !options.probes.empty()))
        throw CLI::ValidationError("--queues, --fast-free, --distance, --first-packet",
                                   "a secondary process has ports set up in one way, and cannot "
                                   "make them cold");
    for (const std::string& probe : options.probes)
        if (probe.find('=') == std::string::npos)
            throw CLI::ValidationError("--first-packet", probe + ": write NAME=DEVARGS");
    for (const std::string& size : options.sizes)
        (void)FrameSizes::parse(size);
    const bool in_rounds = std::any_of(
        options.measures.begin(), options.measures.end(), [](const std::string& measure) {
            return measure == "rx" || measure == "tx" || measure == "forward";
        });
    if (!in_rounds) return;
    for (const SubjectSpec& subject : options.subjects)
        for (const uint16_t queues : options.queues)
            for (const uint16_t burst : options.bursts)
                check_round(options, subject.queues ? subject.queues : queues,
                            subject.descriptors ? subject.descriptors : options.descriptors, burst);
}

} // namespace

std::optional<Options> parse_options(int argc, char** argv, int& status) {
    Options options;
    CLI::App app(kDescription, "rawqp-perf EAL-OPTIONS --");
    app.footer(kFooter);
    std::vector<std::string> subjects;
    const CLI::IsMember on_off({"on", "off"});
    app.add_option("--subject", subjects, "what to measure, see below")->allow_extra_args(false);
    app.add_option("--first-packet", options.probes, "NAME=DEVARGS")->allow_extra_args(false);
    app.add_option("--measure", options.measures, "comma-separated (rx,tx,forward)")
        ->delimiter(',')
        ->check(CLI::IsMember({"rx", "tx", "forward", "rate", "rate_by_rules", "latency", "flows",
                               "flows_async", "flows_group", "flows_group_async"}));
    app.add_option("--size", options.sizes, "frame sizes with FCS, 64 to 1518, or imix (64)")
        ->delimiter(',');
    app.add_option("--burst", options.bursts, "packets per call (32)")
        ->delimiter(',')
        ->transform(decimal(1, 512));
    app.add_option("--queues", options.queues, "queues in each direction (1)")
        ->delimiter(',')
        ->transform(decimal(1, 1024));
    app.add_option("--fast-free", options.fast_free, "Tx offload: on, off or both (on)")
        ->delimiter(',')
        ->check(on_off);
    app.add_option("--offloads", options.offloads,
                   "Rx offloads with results in mbufs: any of checksum, rss, vlan (frames have"
                   " tags), mark (by a flow rule)")
        ->delimiter(',')
        ->check(CLI::IsMember({"checksum", "rss", "vlan", "mark"}));
    app.add_option("--descriptors", options.descriptors, "of each ring (1024)")
        ->transform(decimal(1, UINT16_MAX));
    app.add_option("--round", options.round, "timed packets in a round (512)")
        ->transform(decimal(1, UINT16_MAX));
    app.add_option("--warm-up", options.warm_up, "packets before the timed ones (64)")
        ->transform(decimal(0, UINT16_MAX));
    app.add_option("--rounds", options.rounds, "rounds of each subject in a pass (64)")
        ->transform(decimal(1, 1'000'000));
    app.add_flag(
        "--mean", options.mean,
        "the mean of a pass's rounds, not their median: for rounds that do not all contain the"
        " same work, such as refills of rings that are larger than a round's share");
    app.add_option("--passes", options.passes, "how often everything is measured (9)")
        ->transform(decimal(1, 1'000'000));
    app.add_option("--seconds", options.seconds, "of a rate measurement (1)")
        ->check(CLI::Range(0.001, 86400.0));
    app.add_option("--packets", options.packets, "of a latency measurement (2000)")
        ->transform(decimal(1, 100'000'000));
    app.add_option("--rules", options.rules, "of a measurement of flow rules (1000)")
        ->transform(decimal(1, 10'000'000));
    std::string distance;
    app.add_option("--distance", distance,
                   "of rx, tx and forward, see below (far with --device-cpu, otherwise near)")
        ->check(CLI::IsMember({"near", "far", "cold"}));
    std::string pages = "huge";
    app.add_option("--pages", pages, "of packets and rings: huge, 4k (huge)")
        ->check(CLI::IsMember({"huge", "4k"}));
    app.add_option("--device-cpu", options.device_cpu, "that a software device's thread runs on")
        ->transform(decimal(0, 4095));
    app.add_option("--to", options.to,
                   "destination MAC of rate and latency frames (the port's; it is promiscuous)");
    app.add_option("--trace", options.trace,
                   "folder: record each instruction of a round of rx, tx and forward (near only),"
                   " for tests/perf/touched.py");
    app.add_flag("--step", options.step,
                 "print \"your turn\" before each figure, and in a primary process at the end, and"
                 " wait for a line on standard input, so that two processes can alternate");
    app.add_option(
        "--json", options.json,
        "write all figures to this file; - is standard output, and text goes to standard error");
    try {
        app.parse(argc, argv);
        std::transform(subjects.begin(), subjects.end(), std::back_inserter(options.subjects),
                       parse_subject);
        if (distance.empty()) distance = options.device_cpu ? "far" : "near";
        options.distance = *parse_distance(distance);
        options.pages = *parse_pages(pages);
        check(options);
    } catch (const CLI::Error& error) {
        status = app.exit(error);
        return std::nullopt;
    }
    return options;
}

} // namespace perf
