// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "common/result.hpp"
#include "common/verbs/api.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/ethdev/devargs.hpp"

#include <optional>

namespace rawqp {

struct Port;

/// Makes `dev`, fresh from ethdev with a SharedPort's room in dev_private, a port on the device
/// that `devargs` name. On failure everything is released and `dev` is as before; the caller
/// releases it. `sysfs` is the root of the tree to look in; `random_mac` is the address that the
/// port has if no netdev is visible, by default a new one. Control threads; `api` outlives the
/// port.
[[nodiscard]] Result<void> attach(rte_eth_dev* dev, const verbs::Api& api, Devargs devargs,
                                  const std::string& sysfs = "/sys",
                                  std::optional<rte_ether_addr> random_mac = std::nullopt);

/// Closes the port and makes it anew, on the same device: for a broken device, or for an
/// application that wants a port as after its probe. rte_eth_dev_reset has stopped it.
int dev_reset(rte_eth_dev* dev) noexcept;

} // namespace rawqp
