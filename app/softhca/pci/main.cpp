// SPDX-License-Identifier: BSD-3-Clause
// softhca-pci: the software HCA as a PCI device of a QEMU guest.
#include "app/softhca/config.hpp"
#include "app/softhca/control/server.hpp"
#include "app/softhca/core/engine.hpp"
#include "app/softhca/pci/control.hpp"
#include "app/softhca/pci/transport_mpqemu.hpp"
#include "app/softhca/wire/open.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>

namespace {

using namespace softhca;

struct Options {
    std::string port;
    int fd = -1;
    std::string qtest;
    std::string control;
};

Result<void> run(const Options& options) {
    auto port = parse_port(options.port);
    if (!port) return tl::unexpected(port.error());
    Config config;
    config.ports.push_back(std::move(*port));
    if (auto completed = complete(config); !completed) return completed;
    const PortConfig& only = config.ports.front();
    if (only.netdev_tap)
        return fail(EINVAL, "netdev={}: the guest's kernel has its own netdev", only.netdev);
    auto wires = wire::open_port(only, "");
    if (!wires) return tl::unexpected(wires.error());

    std::vector<std::unique_ptr<core::Device>> devices;
    devices.push_back(
        std::make_unique<core::Device>(core::DeviceConfig{.name = only.device,
                                                          .mac = only.mac,
                                                          .mtu = only.mtu,
                                                          .pause = only.pause,
                                                          .carrier_always = only.carrier_always},
                                       std::move(wires->wire), nullptr));
    core::Engine engine({.threads = 1, .cpus = {}}, std::move(devices));
    pci::QtestInterrupts qtest(options.qtest);
    pci::Function function(engine.device(0), only.speed_mbps);
    function.interrupts().deliver_by(
        [&](uint64_t address, uint32_t data) { qtest.deliver(address, data); });
    std::unique_ptr<control::ControlServer> control;
    if (!options.control.empty()) {
        auto started =
            control::ControlServer::start(options.control, engine, pci::control_commands(function));
        if (!started) return tl::unexpected(started.error());
        control = std::move(*started);
    }
    return pci::serve_mpqemu(function, Fd(options.fd));
}

} // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app{"A ConnectX-5 look-alike for a QEMU guest (x-pci-proxy-dev)."};
    app.add_option("--port", options.port,
                   "the port: wire=SPEC[,mac=…,mtu=…,speed=…], as softhca --port");
    app.add_option("--fd", options.fd, "connected socket that QEMU has as x-pci-proxy-dev,fd=")
        ->required();
    app.add_option("--qtest", options.qtest, "QEMU's -qtest socket, for interrupts")->required();
    app.add_option("--control", options.control,
                   "control socket to make: stat, link, inject, event, fatal, commands (one JSON "
                   "object a line)");
    CLI11_PARSE(app, argc, argv);
    if (const auto done = run(options); !done) {
        std::fprintf(stderr, "softhca-pci: %s\n", done.error().what.c_str());
        return 1;
    }
    return 0;
}
