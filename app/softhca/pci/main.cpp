// SPDX-License-Identifier: BSD-3-Clause
// softhca-pci: the software HCA as a PCI device of a QEMU guest.
#include "app/softhca/config.hpp"
#include "app/softhca/control/server.hpp"
#include "app/softhca/core/engine.hpp"
#include "app/softhca/pci/control.hpp"
#include "app/softhca/pci/socket_file.hpp"
#include "app/softhca/pci/transport_mpqemu.hpp"
#include "app/softhca/pci/transport_vfio_user.hpp"
#include "app/softhca/wire/open.hpp"
#include "app/softhca/wire/spec.hpp"
#include "common/output.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>

namespace {

using namespace softhca;

struct Options {
    std::string port;
    int fd = -1;
    std::string qtest;
    std::string vfio_user;
    std::string control;
};

/// Software steering requires RC QPs, and these the RoCE capability, which a guest must switch off:
/// so only on request.
prm::Users users_of(const PortConfig& port) {
    if (!port.devx.value_or(true)) return prm::Users::none;
    return port.steering_format ? prm::Users::steering : prm::Users::objects;
}

Result<void> serve(const Options& options) {
    auto port = parse_port(options.port);
    if (!port) return tl::unexpected(port.error());
    Config config;
    config.ports.push_back(std::move(*port));
    if (auto completed = complete(config); !completed) return completed;
    const PortConfig& only = config.ports.front();
    if (only.netdev_tap)
        return fail(EINVAL, "netdev={}: the guest's kernel has its own netdev", only.netdev);
    if (!only.faults.empty())
        return fail(
            EINVAL,
            "fault={}: commands of verbs pass through the guest's kernel, so none fails here; "
            "\"inject\" on the control socket makes the firmware's commands fail",
            to_text(only.faults));
    if (const auto wire = wire::parse_wire_spec(only.wire))
        if (const auto* pair = std::get_if<wire::PairSpec>(&*wire))
            return fail(EINVAL,
                        "wire=pair:{0}: connects two ports of one process, and each NIC of a guest "
                        "is a process of its own: use wire=link:{0} for both",
                        pair->name);
    auto wires = wire::open_port(only, "");
    if (!wires) return tl::unexpected(wires.error());

    core::Engine engine({.threads = 1, .cpus = {}});
    if (auto room = engine.make_room(1); !room) return room;
    core::Device& device = engine.add(std::make_unique<core::Device>(
        core::DeviceConfig{.name = only.device,
                           .mac = only.mac,
                           .mtu = only.mtu,
                           .pause = only.pause,
                           .carrier_always = only.carrier_always,
                           .steering_format = only.steering_format.value_or(0)},
        std::move(wires->wire), nullptr));
    pci::Function function(device, only.speed_mbps, users_of(only));
    std::unique_ptr<control::ControlServer> control;
    std::optional<pci::SocketFile> control_file;
    if (!options.control.empty()) {
        auto started =
            control::ControlServer::start(options.control, engine, pci::control_commands(function));
        if (!started) return tl::unexpected(started.error());
        control = std::move(*started);
        control_file.emplace(options.control);
    }
    if (!options.vfio_user.empty()) {
        auto client = pci::accept_vfio_user(options.vfio_user);
        if (!client) return tl::unexpected(client.error());
        return pci::serve_vfio_user(function, std::move(*client));
    }
    pci::QtestInterrupts qtest(options.qtest);
    function.interrupts().deliver_by(
        [&](uint64_t address, uint32_t data) { qtest.deliver(address, data); });
    auto served = pci::serve_mpqemu(function, Fd(options.fd));
    function.interrupts().deliver_by({});
    return served;
}

int run(int argc, char** argv) {
    Options options;
    CLI::App app{"A ConnectX-5 look-alike for a QEMU guest (x-pci-proxy-dev, vfio-user-pci)."};
    app.add_option("--port", options.port,
                   "the port: wire=SPEC[,mac=…,mtu=…,speed=…], as in softhca --port");
    auto* const fd =
        app.add_option("--fd", options.fd, "connected socket that QEMU has as x-pci-proxy-dev,fd=");
    auto* const qtest =
        app.add_option("--qtest", options.qtest, "QEMU's -qtest socket, for interrupts");
    auto* const vfio_user = app.add_option("--vfio-user", options.vfio_user,
                                           "socket to create for QEMU's vfio-user-pci");
    fd->needs(qtest)->excludes(vfio_user);
    app.add_option(
        "--control", options.control,
        "control socket to create: stat, dump, link, inject, event, fatal, commands (one "
        "JSON object per line)");
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        std::fprintf(stderr, "softhca-pci: %s\n", error.what());
        return 2;
    }
    if (options.fd < 0 && options.vfio_user.empty()) {
        std::fprintf(stderr, "softhca-pci: say how QEMU connects: --fd and --qtest, or "
                             "--vfio-user\n");
        return 2;
    }
    if (const auto done = serve(options); !done) {
        std::fprintf(stderr, "softhca-pci: %s\n", done.error().what.c_str());
        return 1;
    }
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    return output::end_of("softhca-pci", 1, [&] { return run(argc, argv); });
}
