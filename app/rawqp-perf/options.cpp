// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace perf {
namespace {

constexpr const char* kDescription =
    "rawqp-perf EAL-OPTIONS -- OPTIONS: what a packet costs on any DPDK port.";

constexpr const char* kFooter = R"(
A subject is NAME=PORT or NAME=PORT,peer=PORT, where PORT is an ethdev name or number, and peer the
port at the other end of its cable (without peer: the port's wire loops). PORT floor:DEVICE is not
a driver but the cheapest loop over the mlx5 rings of that RDMA device. With several subjects their
rounds alternate, so that the drift of the machine hits all alike: compare their figures of one
pass.

Measures:
  rx, tx, forward  cycles per packet while the device idles, in drained rounds
  rate             packets per second from the peer to the port
  latency          microseconds from the peer's tx_burst to the port's rx_burst, percentiles
  flows            flow rules inserted and deleted per second
With --first-packet NAME=DEVARGS instead of subjects: microseconds from probe to first packet, on a
device whose wire loops.

Example: the driver and its floor on a software device
  softhca --cpus 1 --port wire=pair:a --port wire=pair:a --port wire=pair:b --port wire=pair:b -- \
    rawqp-perf -l 1 --no-huge -m 512 --no-pci --vdev net_rawqp0,device=mlx5_0 \
      --vdev net_rawqp1,device=mlx5_1 --vdev net_rawqp2,device=mlx5_3 -- \
      --subject rawqp=net_rawqp0,peer=net_rawqp1 --subject floor=floor:mlx5_2,peer=net_rawqp2
)";

SubjectSpec parse_subject(const std::string& text) {
    const size_t equals = text.find('=');
    const size_t comma = text.find(",peer=");
    if (equals == 0 || equals == std::string::npos || equals > comma)
        throw CLI::ValidationError("--subject", text + ": write NAME=PORT[,peer=PORT]");
    SubjectSpec spec{.name = text.substr(0, equals), .port = {}, .peer = {}};
    spec.port = text.substr(equals + 1, comma == std::string::npos ? comma : comma - equals - 1);
    if (comma != std::string::npos) spec.peer = text.substr(comma + 6);
    return spec;
}

void check(const Options& options) {
    if (options.subjects.empty() == options.probes.empty())
        throw CLI::ValidationError("give --subject or --first-packet, one of them at least once");
    for (const std::string& size : options.sizes)
        (void)FrameSizes::parse(size);
    for (const uint16_t queues : options.queues)
        for (const uint16_t burst : options.bursts) {
            const uint32_t turn = uint32_t{queues} * burst;
            if (options.round % turn != 0 || options.warm_up % turn != 0)
                throw CLI::ValidationError("--round, --warm-up",
                                           "must be multiples of queues × burst = " +
                                               std::to_string(turn));
            if ((options.round + options.warm_up) / queues > options.descriptors)
                throw CLI::ValidationError("--round", "a round must fit into the rings: " +
                                                          std::to_string(options.descriptors) +
                                                          " descriptors × queues");
        }
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
        ->check(CLI::IsMember({"rx", "tx", "forward", "rate", "latency", "flows"}));
    app.add_option("--size", options.sizes, "frame sizes with FCS, or imix (64)")->delimiter(',');
    app.add_option("--burst", options.bursts, "packets per call (32)")
        ->delimiter(',')
        ->check(CLI::Range(1, 512));
    app.add_option("--queues", options.queues, "queues in each direction (1)")
        ->delimiter(',')
        ->check(CLI::Range(1, 1024));
    app.add_option("--fast-free", options.fast_free, "Tx offload: on, off or both (on)")
        ->delimiter(',')
        ->check(on_off);
    app.add_option("--descriptors", options.descriptors, "of each ring (1024)");
    app.add_option("--round", options.round, "timed packets in a round (512)");
    app.add_option("--warm-up", options.warm_up, "packets before those (64)");
    app.add_option("--rounds", options.rounds, "rounds of each subject in a pass (64)")
        ->check(CLI::Range(1, 1'000'000));
    app.add_option("--passes", options.passes, "how often all is measured (9)")
        ->check(CLI::Range(1, 1'000'000));
    app.add_option("--seconds", options.seconds, "of a rate measure (1)");
    app.add_option("--packets", options.packets, "of a latency measure (2000)");
    app.add_option("--rules", options.rules, "of a flows measure (1000)");
    app.add_option("--json", options.json, "write all figures there; - is standard output");
    try {
        app.parse(argc, argv);
        std::transform(subjects.begin(), subjects.end(), std::back_inserter(options.subjects),
                       parse_subject);
        check(options);
    } catch (const CLI::Error& error) {
        status = app.exit(error);
        return std::nullopt;
    }
    return options;
}

} // namespace perf
