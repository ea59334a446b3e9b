// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/port/other_drivers.hpp"

#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/log.hpp"

namespace rawqp {

OtherDrivers::OtherDrivers(const Port& port)
    : port_(port), address_(port.sysfs.bus_address(port.device)) {}

OtherDrivers::~OtherDrivers() {
    if (registered_)
        rte_eth_dev_callback_unregister(RTE_ETH_ALL, RTE_ETH_EVENT_NEW, on_new_port, this);
}

Result<void> OtherDrivers::watch() {
    if (address_.empty()) return {};
    uint16_t id = 0;
    RTE_ETH_FOREACH_DEV(id) { check_port(id); }
    const int error =
        rte_eth_dev_callback_register(RTE_ETH_ALL, RTE_ETH_EVENT_NEW, on_new_port, this);
    if (error != 0)
        return fail(-error, "{}: cannot follow new ports: {}", port_.name, rte_strerror(-error));
    registered_ = true;
    return {};
}

int OtherDrivers::on_new_port(uint16_t id, rte_eth_event_type, void* self, void*) {
    static_cast<const OtherDrivers*>(self)->check_port(id);
    return 0;
}

void OtherDrivers::check_port(uint16_t id) const {
    const rte_device* device = rte_eth_devices[id].device;
    if (device == nullptr || device->name == nullptr || address_ != device->name) return;
    RAWQP_LOG(NOTICE,
              "%s: port %u drives %s (%s) as well, by driver %s: keep one of them away with "
              "-b %s, -a or --no-pci",
              port_.name.c_str(), id, port_.device.c_str(), address_.c_str(),
              device->driver != nullptr ? device->driver->name : "?", address_.c_str());
}

} // namespace rawqp
