// SPDX-License-Identifier: BSD-3-Clause
// Counters that the hardware keeps of a port: those of the RDMA port, then those of its netdev.
#pragma once

#include "common/netdev/netdev.hpp"

#include <mutex>
#include <string>
#include <vector>

namespace rawqp {

/// The RDMA port's drops for want of receive WQEs, by the kernel's name.
inline constexpr char kOutOfBuffer[] = "out_of_buffer";

struct PortTotals;
struct ProcessPort;

/// Which ones there are is looked up when names are asked for; a read takes each value once.
/// Thread-safe: telemetry reads, too.
class HardwareCounters {
  public:
    /// Looks anew what there is.
    [[nodiscard]] std::vector<std::string> names(const ProcessPort& port);
    /// Since the last reset by any process, in the order of names(). What there is is looked up
    /// for a start, and when the interface has got another number of counters (as with other
    /// channels).
    [[nodiscard]] std::vector<uint64_t> read(const ProcessPort& port);
    /// Has all count from here. False: no DPDK memory to remember it in.
    [[nodiscard]] bool reset(const ProcessPort& port);

  private:
    void look(const ProcessPort& port);
    [[nodiscard]] std::vector<uint64_t> raw_values(const ProcessPort& port);

    std::mutex mutex_;
    std::vector<std::string> rdma_; ///< names of the kernel
    std::vector<std::string> names_;
    bool listed_ = false;
};

/// Frees what resets have left in DPDK's heap, of a port that is closed.
void free_bases(PortTotals& totals);

} // namespace rawqp
