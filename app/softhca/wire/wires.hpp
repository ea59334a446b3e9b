// SPDX-License-Identifier: BSD-3-Clause
// The kinds of wire, each in its own .cpp file; open_wire() is the public interface.
#pragma once

#include "app/softhca/wire/open.hpp"
#include "app/softhca/wire/spec.hpp"

namespace softhca::wire {

using OpenedWire = Result<std::unique_ptr<Wire>>;

OpenedWire open_socket(const SocketSpec& spec);
OpenedWire open_link(const LinkSpec& spec);
OpenedWire open_pair(const PairSpec& spec);
OpenedWire open_pcap(const PcapSpec& spec);
OpenedWire open_gen(const GenSpec& spec, const OpenOptions& options);
OpenedWire open_loop();
OpenedWire open_sink();

} // namespace softhca::wire
