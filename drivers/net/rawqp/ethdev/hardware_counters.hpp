// SPDX-License-Identifier: BSD-3-Clause
// Counters that the hardware keeps of a port: those of the RDMA port, then those of its netdev.
#pragma once

#include "common/netdev/netdev.hpp"

#include <mutex>
#include <string>
#include <vector>

namespace rawqp {

/// The kernel's name for the RDMA port's drops for lack of receive WQEs.
inline constexpr char kOutOfBuffer[] = "out_of_buffer";

struct PortTotals;
struct ProcessPort;

/// Which counters exist is looked up when names are requested; a read takes each value once.
/// Thread-safe: telemetry reads, too.
class HardwareCounters {
  public:
    /// Looks up again which counters exist.
    [[nodiscard]] std::vector<std::string> names(const ProcessPort& port);
    /// Values since the last reset by any process, in the order of names(). Which counters exist is
    /// looked up the first time, and when the interface's number of counters has changed (as it
    /// does with its channels).
    [[nodiscard]] std::vector<uint64_t> read(const ProcessPort& port);
    /// Makes all counters start from here. False: no DPDK memory to remember it in.
    [[nodiscard]] bool reset(const ProcessPort& port);

  private:
    void look(const ProcessPort& port);
    [[nodiscard]] std::vector<uint64_t> raw_values(const ProcessPort& port);

    std::mutex mutex_;
    std::vector<std::string> rdma_; ///< names of the kernel
    std::vector<std::string> names_;
    bool listed_ = false;
};

/// Frees what resets have left in DPDK's heap, for a port that is closed.
void free_bases(PortTotals& totals);

} // namespace rawqp
