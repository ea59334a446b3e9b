// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous events of the RDMA device (link, removal, fatal errors), read on EAL's interrupt
// thread.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/figure.hpp"

#include <atomic>

namespace rawqp {

struct CqOwner;
struct Port;

/// Registered with EAL from construction by start() to destruction. The handler runs on the
/// interrupt thread, concurrently with control calls. The application is told by alarms, on the
/// same thread, so that it may close the port or reset it from there: EAL does not let a handler
/// unregister itself.
class AsyncEvents {
  public:
    explicit AsyncEvents(Port& port) : port_(port) {}
    ~AsyncEvents(); ///< waits for a handler that is running
    AsyncEvents(const AsyncEvents&) = delete;
    AsyncEvents& operator=(const AsyncEvents&) = delete;

    [[nodiscard]] Result<void> start();
    /// How many of each kind were read.
    [[nodiscard]] Figures figures() const;

  private:
    static void on_readable(void* self);
    static void on_recheck(void* self);
    static void tell_of_link(void* self);
    static void tell_of_removal(void* self);
    void tell_soon(rte_eal_alarm_callback tell);
    void read_one_event(bool& more);
    void on_cq_error(const CqOwner& owner);
    void on_link_change(bool expected_up);
    bool report_link(); ///< whether it is up

    /// Counted on EAL's interrupt thread only, read anywhere.
    struct Counts {
        std::atomic<uint64_t> link_up = 0, link_down = 0, device_fatal = 0, cq_errors = 0,
                              queue_errors = 0, others = 0;
    };
    Counts counts_;
    Port& port_;
    rte_intr_handle* handle_ = nullptr;
    bool registered_ = false;
};

} // namespace rawqp
