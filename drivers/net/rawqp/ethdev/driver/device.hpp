// SPDX-License-Identifier: BSD-3-Clause
// From device arguments to an open RDMA device that is known to carry raw packets.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"

namespace rawqp {

/// Finds and opens the device that port.devargs name, and checks that it has what the driver needs:
/// Ethernet port, receive WQs, RAW_PACKET QPs, permissions. Reads port.api, port.devargs and
/// port.sysfs; fills device, ib_port, context, attributes, pd, ring_heap, ring_memory and netdev,
/// and the link that ethdev shows until the port is started. On failure the message says which step
/// failed; what was opened is closed with the port.
[[nodiscard]] Result<void> open_device(Port& port);

/// The ring format for the datapath devarg; auto takes the best that accepts the device, and the
/// log says why.
[[nodiscard]] Result<const RingFormat*> choose_format(const Port& port);

} // namespace rawqp
