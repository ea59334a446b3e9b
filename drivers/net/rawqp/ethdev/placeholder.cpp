// SPDX-License-Identifier: BSD-3-Clause
// Registers the driver name until the driver itself is here. Probing is refused.
#include "drivers/net/rawqp/dpdk.hpp"

namespace {

int probe(rte_vdev_device*) noexcept { return -ENOTSUP; }
int remove(rte_vdev_device*) noexcept { return 0; }

constexpr rte_vdev_driver make_driver() {
    rte_vdev_driver driver{};
    driver.probe = probe;
    driver.remove = remove;
    return driver;
}
constinit rte_vdev_driver rawqp_driver = make_driver();

} // namespace

RTE_PMD_REGISTER_VDEV(net_rawqp, rawqp_driver);
RAWQP_PMD_INFO("net_rawqp", "device=<string>");
