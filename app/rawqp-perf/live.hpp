// SPDX-License-Identifier: BSD-3-Clause
// Measurements of a running device: it works during the measurement.
#pragma once

#include "app/rawqp-perf/report.hpp"
#include "app/rawqp-perf/rounds.hpp"

namespace perf {

/// The address to send to: `text`, or the port's own if that is empty. Throws if it is invalid.
rte_ether_addr destination(const Port& port, const std::string& text);

/// Sends one frame at a time until one has arrived: cables may come up late. Throws when none does.
void await_path(Port& from, Port& to, const FrameWriter& writer);

/// Packets per second from one end to the other, one lcore at both, for `seconds`. `more`: sent,
/// received, and lost. For two Ports, or for one end whose wire loops.
template <class End>
Figure measure_rate(End& from, End& to, const FrameWriter& writer, uint16_t burst, double seconds);

/// Time from before tx_burst of a burst at `from` to after the rx_burst at `to` that returned the
/// packet, one burst at a time; for two Ports, or for one end whose wire loops. The value is the
/// median over the packets in microseconds; `more` has p90, p99, p999, max.
template <class End>
Figure measure_latency(End& from, End& to, const FrameWriter& writer, uint16_t burst,
                       unsigned packets);

/// From probing `devargs` to the first packet received, on a device whose wire loops: probe, set
/// up, start, send, receive. The value is in microseconds; `more` has the steps. The device is
/// removed again.
Figure measure_first_packet(const std::string& devargs, const PortSetup& setup);

} // namespace perf
