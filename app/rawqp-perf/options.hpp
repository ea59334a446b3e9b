// SPDX-License-Identifier: BSD-3-Clause
// The command line of rawqp-perf, after EAL's `--`.
#pragma once

#include "app/rawqp-perf/distance.hpp"
#include "app/rawqp-perf/frames.hpp"
#include "app/rawqp-perf/pages.hpp"

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace perf {

/// What is measured: an ethdev port, or a loop on an RDMA device. Several subjects alternate.
struct SubjectSpec {
    std::string name = {};
    std::string port = {}; ///< ethdev name or number; "floor:DEVICE", "verbs:DEVICE", "rings:CPU"
    std::string peer = {}; ///< ethdev name or number; empty: the port itself (its wire loops)
    uint16_t queues = 0;   ///< 0: as --queues says
    uint16_t descriptors = 0;           ///< 0: as --descriptors says
    std::optional<uint16_t> fetch = {}; ///< see FloorAhead, MoverAhead; none: the best
    std::optional<uint16_t> claim = {};
    bool no_claim = false;
};

struct Options {
    std::vector<SubjectSpec> subjects;
    std::vector<std::string> probes; ///< NAME=DEVARGS of first_packet
    std::vector<std::string> measures{"rx", "tx", "forward"};
    std::vector<std::string> sizes{"64"};
    std::vector<uint16_t> bursts{32};
    std::vector<uint16_t> queues{1};
    std::vector<std::string> fast_free{"on"};
    std::vector<std::string> offloads = {};
    uint16_t descriptors = 1024;
    uint32_t round = 512;
    uint32_t warm_up = 64;
    unsigned rounds = 64;
    bool mean = false; ///< of the rounds, instead of their median
    unsigned passes = 9;
    double seconds = 1;
    unsigned packets = 2000;
    unsigned rules = 1000;
    Distance distance = Distance::near;
    Pages pages = Pages::huge;
    std::optional<unsigned> device_cpu; ///< of a software device; needed for Distance::far
    std::string to;    ///< MAC address that rate and latency send to; empty: the port's
    bool step = false; ///< each line on standard input starts the measurement of a figure
    std::string json;
    std::string trace; ///< folder for steps of a round of each subject and measure; empty: none

    /// Where lines for people go: not between those of JSON.
    [[nodiscard]] std::FILE* text() const { return json == "-" ? stderr : stdout; }
};

/// Parses and checks. Ends the process (by CLI11's rules) for --help; nullopt with a message on
/// stderr when something is wrong.
std::optional<Options> parse_options(int argc, char** argv, int& status);

} // namespace perf
