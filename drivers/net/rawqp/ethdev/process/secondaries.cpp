// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/process/secondaries.hpp"

#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/log.hpp"

#include <algorithm>
#include <chrono>
#include <poll.h>
#include <sys/socket.h>

namespace rawqp {

using Clock = std::chrono::steady_clock;

void let_go(Port& port, QueueState& state) {
    advance(state, QueueState::stopping);
    if (port.shared.is_running()) port.secondaries->tell(Event::changed);
}

Result<Fd> Secondaries::admit() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return fail(errno, "{}: no channel to a secondary process: {}", port_.name,
                    rte_strerror(errno));
    {
        const std::lock_guard lock(mutex_);
        forget_dead();
        peers_.push_back({Fd(ends[0])});
    }
    return Fd(ends[1]);
}

void Secondaries::forget_dead() {
    std::erase_if(peers_, [](const Peer& peer) {
        pollfd look{peer.channel.get(), 0, 0};
        return poll(&look, 1, 0) == 1 && (look.revents & (POLLHUP | POLLERR)) != 0;
    });
}

void Secondaries::tell(Event event) {
    const std::lock_guard lock(mutex_);
    const EventMessage message{event, ++events_};
    std::erase_if(peers_, [&](const Peer& peer) {
        const ssize_t sent =
            send(peer.channel.get(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
        return sent < 0 && errno != EAGAIN; // a hung one leaves no room at some point, but is alive
    });
    const auto deadline = Clock::now() + std::chrono::milliseconds(kLetGoMilliseconds);
    std::erase_if(peers_, [&](Peer& peer) {
        for (;;) {
            const auto left =
                std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
            pollfd wait{peer.channel.get(), POLLIN, 0};
            const int patience = peer.here ? std::max(0, static_cast<int>(left.count())) : 0;
            const int ready = poll(&wait, 1, patience);
            if (ready < 0 && errno == EINTR) continue;
            if (ready <= 0) break;
            EventMessage answer;
            if (recv(peer.channel.get(), &answer, sizeof answer, MSG_DONTWAIT) <= 0) return true;
            peer.here = true;
            if (answer != message) continue; // a late answer to an earlier one
            peer.mute = false;
            return event == Event::closed;
        }
        if (peer.here && !std::exchange(peer.mute, true))
            RAWQP_LOG(WARNING,
                      "%s: a secondary process does not answer within %u ms: it must not poll the "
                      "port's queues now (said once, until it answers again)",
                      port_.name.c_str(), kLetGoMilliseconds);
        return false;
    });
}

void Secondaries::wait_for_mute() {
    const auto any = [this] {
        const std::lock_guard lock(mutex_);
        return std::ranges::any_of(peers_, &Peer::mute);
    };
    if (any()) tell(Event::changed);
}

} // namespace rawqp
