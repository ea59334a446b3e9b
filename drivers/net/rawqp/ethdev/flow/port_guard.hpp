// SPDX-License-Identifier: BSD-3-Clause
// The port shares its addresses with the kernel: no socket gets the packets that a rule takes of a
// TCP or UDP port. So that nobody waits for them in vain, the kernel is told that the port is in
// use.
#pragma once

#include "common/netdev/local_port.hpp"
#include "drivers/net/rawqp/ethdev/flow/error.hpp"
#include "drivers/net/rawqp/ethdev/ref.hpp"
#include "drivers/net/rawqp/ethdev/steering/pattern.hpp"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace rawqp {

/// A TCP or UDP port that the kernel gives to no socket as long as this lives. Rules of all ports
/// of the process share it.
class Reservation;
using Reservations = std::vector<std::shared_ptr<const Reservation>>;
using ReservationsRef = Ref<const Reservations>;

/// The TCP or UDP destination ports of a pattern's packets, and the addresses.
struct TakenPorts {
    bool tcp = false;
    netdev::IpAddress address, address_mask;
    uint16_t port = 0, port_mask = 0;
    uint8_t item = 0; ///< the item that asks for the port
};
/// Nothing: the pattern asks for no such port.
[[nodiscard]] std::optional<TakenPorts> taken_ports(const Pattern& pattern);

/// Works in the network namespace in which it was made. Any thread.
class PortGuard {
  public:
    static constexpr size_t kMostPorts = 64; ///< of one pattern

    [[nodiscard]] static Result<std::unique_ptr<PortGuard>> make();
    /// How many ports this process has reserved, one on each address counted by itself.
    [[nodiscard]] static size_t reserved();
    /// Reserves what the patterns take of the kernel's own addresses, or of all of these if they
    /// name none. Null: nothing. Refusals name the item and who has the port.
    [[nodiscard]] FlowResult<ReservationsRef> reserve(std::span<const Pattern> patterns,
                                                      const rte_flow_item* items) const;

  private:
    explicit PortGuard(netdev::Namespace space) : space_(std::move(space)) {}

    netdev::Namespace space_;
};

} // namespace rawqp
