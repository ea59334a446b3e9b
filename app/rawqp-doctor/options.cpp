// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-doctor/options.hpp"
#include "common/decimal.hpp"

#include <CLI/CLI.hpp>

namespace doctor {
namespace {

constexpr const char* kDescription =
    "rawqp-doctor explains why net_rawqp does not work on a device: it checks every link of the "
    "chain\n"
    "from the NIC to the driver, and names the first broken one and every later one, with the\n"
    "evidence, its meaning and the command that fixes it.";

constexpr const char* kFooter = R"(
Run it as the same user, in the same container and with the same rights as the DPDK program, so that
it sees what that program sees. On the device it creates one object of each kind that a port consists
of and releases it again; it neither sends packets nor takes them from anyone.

Exit status: 0 if no link is broken, 1 if one is, 2 for a wrong command line.

Examples:
  rawqp-doctor                       the first RDMA device
  rawqp-doctor --iface eth2          the one of a network interface
  rawqp-doctor --watch 5             while packets get lost
  rawqp-doctor --json | jq '.findings[] | select(.state == "broken")'
)";

} // namespace

std::optional<Options> parse_options(int argc, char** argv, int& status) {
    Options options;
    CLI::App app(kDescription, "rawqp-doctor");
    app.footer(kFooter);
    app.set_version_flag("--version", DOCTOR_VERSION);
    auto* const device =
        app.add_option("--device", options.device, "RDMA device, as ibv_devices names it");
    auto* const iface = app.add_option("--iface", options.iface, "network interface of the device")
                            ->excludes(device);
    app.add_option("--port", options.port, "port of the device (1)")
        ->transform(decimal(1, 255))
        ->excludes(iface);
    app.add_option("--program", options.program,
                   "the DPDK program, whose file capabilities count as well as your own")
        ->check(CLI::ExistingFile);
    app.add_option("--plugin", options.plugin,
                   "the driver's file, if it is not installed (as for EAL's -d)");
    app.add_option("--devargs", options.devargs,
                   "device arguments to check, such as device=mlx5_0,txq_mpw=0");
    app.add_option("--watch", options.watch_seconds,
                   "watches counters for that many seconds: what drops packets, and why")
        ->transform(decimal(1, 3600));
    app.add_flag("--json", options.json, "for programs");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        constexpr int kWrongCommandLine = 2;
        status = app.exit(error) == 0 ? 0 : kWrongCommandLine;
        return std::nullopt;
    }
    return options;
}

} // namespace doctor
