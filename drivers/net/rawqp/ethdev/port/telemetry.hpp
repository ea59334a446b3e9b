// SPDX-License-Identifier: BSD-3-Clause
// The /rawqp commands of rte_telemetry: what the primary process knows of its ports.
#pragma once

namespace rawqp {

struct Port;

/// Lets the commands find a port from construction to destruction, which waits for one that is
/// being answered. They run on telemetry's thread with Port::control held, so the owner of a port
/// that goes away destroys this object before taking that lock.
class TelemetryEntry {
  public:
    explicit TelemetryEntry(Port& port);
    ~TelemetryEntry();
    TelemetryEntry(const TelemetryEntry&) = delete;
    TelemetryEntry& operator=(const TelemetryEntry&) = delete;

  private:
    Port& port_;
};

} // namespace rawqp
