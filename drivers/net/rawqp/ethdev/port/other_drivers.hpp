// SPDX-License-Identifier: BSD-3-Clause
// Notices another ethdev driver (DPDK's own for this NIC) on the device of one of our ports.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/dpdk.hpp"

#include <string>

namespace rawqp {

struct Port;

/// Two drivers on one NIC split its packets in unexpected ways: logs this once for each such port,
/// at watch() or when the port appears later. Control threads; the port outlives it.
class OtherDrivers {
  public:
    explicit OtherDrivers(const Port& port);
    ~OtherDrivers();
    OtherDrivers(const OtherDrivers&) = delete;
    OtherDrivers& operator=(const OtherDrivers&) = delete;

    [[nodiscard]] Result<void> watch();

  private:
    static int on_new_port(uint16_t id, rte_eth_event_type event, void* self, void* result);
    void check_port(uint16_t id) const;

    const Port& port_;
    std::string address_; ///< bus address of the device; empty: it has none
    bool registered_ = false;
};

} // namespace rawqp
