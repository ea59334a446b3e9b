// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/wire/open.hpp"

#include "app/softhca/wire/tap.hpp"
#include "app/softhca/wire/wires.hpp"

namespace softhca::wire {
namespace {

OpenedWire open_tap(const TapSpec& spec, const OpenOptions& options) {
    const auto passing = spec.plain ? TapPassing::packets : TapPassing::super_frames;
    if (options.tap_fd >= 0)
        return attach_tap(options.tap_fd, spec.name, options.lock_dir, passing);
    auto tap = create_tap({.name = spec.name, .mtu = options.mtu, .mac = {}, .up = true});
    if (!tap) return tl::unexpected(tap.error());
    return attach_tap(tap->fd.get(), tap->name, "", passing);
}

struct Opener {
    const OpenOptions& options;

    OpenedWire operator()(const LoopSpec&) const { return open_loop(); }
    OpenedWire operator()(const SinkSpec&) const { return open_sink(); }
    OpenedWire operator()(const TapSpec& spec) const { return open_tap(spec, options); }
    OpenedWire operator()(const SocketSpec& spec) const { return open_socket(spec); }
    OpenedWire operator()(const LinkSpec& spec) const { return open_link(spec); }
    OpenedWire operator()(const PairSpec& spec) const { return open_pair(spec); }
    OpenedWire operator()(const PcapSpec& spec) const { return open_pcap(spec); }
    OpenedWire operator()(const GenSpec& spec) const { return open_gen(spec, options); }
};

} // namespace

Result<std::unique_ptr<Wire>> open_wire(const std::string& spec, const OpenOptions& options) {
    const auto parsed = parse_wire_spec(spec);
    if (!parsed) return tl::unexpected(parsed.error());
    return std::visit(Opener{options}, *parsed);
}

Result<PortWires> open_port(const PortConfig& port, const std::string& runtime_dir) {
    auto wire = open_wire(port.wire, {port.mac, port.mtu, port.wire_fd, runtime_dir});
    if (!wire) return fail(wire.error().code, "{}: {}", port.device, wire.error().what);
    PortWires wires{std::move(*wire), nullptr};
    if (port.netdev_tap) {
        auto kernel = attach_tap(port.netdev_fd, port.netdev, runtime_dir);
        if (!kernel) return fail(kernel.error().code, "{}: {}", port.device, kernel.error().what);
        wires.kernel = std::move(*kernel);
    }
    return wires;
}

} // namespace softhca::wire
