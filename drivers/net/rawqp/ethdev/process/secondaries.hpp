// SPDX-License-Identifier: BSD-3-Clause
// The primary's side: which secondary processes use a port, and notifying them.
#pragma once

#include "common/fd.hpp"
#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/process/protocol.hpp"
#include "drivers/net/rawqp/ethdev/shared_port.hpp"

#include <mutex>
#include <vector>

namespace rawqp {

struct Port;

class Secondaries {
  public:
    explicit Secondaries(Port& port) : port_(port) {}
    ~Secondaries() { tell(Event::closed); }
    Secondaries(const Secondaries&) = delete;
    Secondaries& operator=(const Secondaries&) = delete;

    /// Notifies all of them and waits until each has let go of what it must no longer use. One that
    /// has died is forgotten; one that does not answer in time is named in the log, once.
    void tell(Event event);

    /// Before queues start: a secondary that did not answer may still poll them as they were
    /// before, and is given time again to let go.
    void wait_for_mute();

    /// Admits another one: returns its end of a new channel. The caller holds Port::control.
    [[nodiscard]] Result<Fd> admit();

  private:
    struct Peer {
        Fd channel;
        bool here = false; ///< it has announced itself, and is waited for
        bool mute = false; ///< it owes an answer, and the log says so
    };
    void forget_dead();

    Port& port_;
    std::mutex mutex_;
    std::vector<Peer> peers_;
    uint32_t events_ = 0; ///< sent so far
};

/// Called when the queue is about to stop: on return no process polls it any more, except one that
/// does not answer. When the whole port stops, all of them have been notified already.
void let_go(Port& port, QueueState& state);

} // namespace rawqp
