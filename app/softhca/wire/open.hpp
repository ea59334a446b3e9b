// SPDX-License-Identifier: BSD-3-Clause
// Opens the cables named in a configuration.
#pragma once

#include "app/softhca/config.hpp"
#include "app/softhca/wire/wire.hpp"
#include "common/result.hpp"

#include <memory>
#include <string>

namespace softhca::wire {

/// What a wire needs to know about the port at its end.
struct OpenOptions {
    std::array<uint8_t, 6> mac{}; ///< of the port: generated frames go there
    uint16_t mtu = 1500;          ///< of the port: a TAP that is created here gets the same
    int tap_fd = -1;              ///< an open TAP to use, remains the caller's; -1: create the TAP
    std::string lock_dir;         ///< where an inherited TAP is locked against other processes
};

/// Opens a wire from its specification (see PortConfig::wire). Never blocks for long. Errors name
/// the specification, the cause and the remedy.
[[nodiscard]] Result<std::unique_ptr<Wire>> open_wire(const std::string& spec,
                                                      const OpenOptions& options);

/// Both sides of a port. `kernel` is null unless the port's netdev is a real TAP.
struct PortWires {
    std::unique_ptr<Wire> wire;
    std::unique_ptr<Wire> kernel;
};

/// Opens both sides of a configured port; TAPs use the descriptors inherited from the launcher.
[[nodiscard]] Result<PortWires> open_port(const PortConfig& port, const std::string& runtime_dir);

/// Removes the shared memory of this user's links whose ends were both killed.
void remove_dead_links();

} // namespace softhca::wire
