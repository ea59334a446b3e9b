// SPDX-License-Identifier: BSD-3-Clause
// From device arguments to an open RDMA device that is known to carry raw packets.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"

namespace rawqp {

/// Finds and opens the device that port.devargs name, and checks that it can do the driver's work:
/// Ethernet port, receive WQs, RAW_PACKET QPs, permissions. Reads port.api, port.devargs and
/// port.sysfs; fills device, ib_port, context, attributes, pd and netdev, and the link that ethdev
/// shows until the port is started. On failure the message
/// names the link of the chain that is broken, and what was opened goes with the port.
[[nodiscard]] Result<void> open_device(Port& port);

/// ": …", why a RAW_PACKET QP may have been refused; empty when the errno says all.
[[nodiscard]] const char* raw_packet_hint(int error);

/// The ring format for the datapath devarg; auto takes the best that accepts the device, and the
/// log says why.
[[nodiscard]] Result<const RingFormat*> choose_format(const Port& port);

/// Bytes of a frame at this MTU without FCS: Ethernet header and one VLAN tag more.
[[nodiscard]] constexpr uint32_t frame_bytes(uint32_t mtu) {
    return mtu + RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN;
}

/// Largest MTU that NICs with raw packet QPs take; the netdev has the last word.
inline constexpr uint16_t kMaxMtu = 9978;

} // namespace rawqp
