// SPDX-License-Identifier: BSD-3-Clause
// Drained rounds: the cost of a packet inside rx_burst and tx_burst while the device is idle.
//
//   rx       the peer sends exactly one round; when it has arrived and the device is idle, the
//            bursts that drain the ring are timed. Freeing the mbufs is not.
//   tx       bursts into an empty ring are timed; then the peer receives them, untimed. The mbufs
//            of the round before are freed inside the timed bursts, as in any steady flow.
//   forward  rx rounds whose bursts are sent out of the same port at once; both are timed.
//
// The bursts before the timed ones warm the caches, as a poll loop keeps them; distance.hpp says
// where the lines touched by the device are. A round that has not fully arrived in time, or during
// which the device may have run, is discarded and counted.
#pragma once

#include "app/rawqp-perf/frames.hpp"
#include "app/rawqp-perf/port.hpp"
#include "app/rawqp-perf/verbs_end.hpp"

#include <fmt/format.h>
#include <optional>
#include <stdexcept>

namespace perf {

enum class Measure : uint8_t { rx, tx, forward };

struct RoundPlan {
    uint16_t burst = 32;
    uint32_t packets = 512; ///< timed packets per round, over all queues
    uint32_t warm_up = 64;  ///< packets before them
    Offloads offloads = {}; ///< of the port that is measured
};

/// The other end of the cable: supplies and consumes what the measured end needs. Untimed.
class Peer {
  public:
    explicit Peer(Port& port) : port_(port) {}
    /// Sends all of them; throws when the device takes none for a second.
    void send(std::span<rte_mbuf*> mbufs);
    /// Receives and frees until `count` have come or nothing came for a while; returns how many
    /// came.
    size_t take(size_t count);
    [[nodiscard]] Port& port() { return port_; }

  private:
    Port& port_;
};

/// Lets other threads and the device work. Not timed.
void settle(uint32_t microseconds);

/// Runs rounds on `End` (a Port, or anything with its interface).
template <class End> class Rounds {
  public:
    /// `queue_ports[q]`: a UDP source port whose frames arrive at queue q.
    Rounds(End& end, Peer& peer, const RoundPlan& plan, const FrameSizes& sizes,
           const std::vector<uint16_t>& queue_ports, TimedSection& section)
        : end_(end), peer_(peer), plan_(plan), section_(section),
          frames_(plan.packets + plan.warm_up), buffers_(frames_ + kMaxBurst),
          to_end_(sizes, end.mac(), peer.port().mac(), queue_ports, plan.offloads.vlan),
          to_peer_(sizes, peer.port().mac(), end.mac(), {1024}) {}

    /// Cycles per packet of one round; empty when the round was not clean.
    std::optional<double> run(Measure measure) {
        end_.ready();
        switch (measure) {
        case Measure::rx: return rx();
        case Measure::tx: return tx();
        case Measure::forward: return forward();
        }
        return {};
    }

  private:
    std::optional<double> rx() {
        fill_ring();
        const size_t cold = receive(0, plan_.warm_up);
        section_.begin();
        const size_t got = receive(cold, frames_);
        const auto cycles = section_.end();
        if (got != 0) check_offloads(*buffers_[got - 1]);
        for (size_t i = 0; i < got; ++i)
            rte_pktmbuf_free(buffers_[i]);
        if (got == frames_) return per_packet(cycles, got - cold);
        settle_us_ = std::min(settle_us_ * 2, kLongestSettle);
        empty_ring(frames_ - std::min(got, frames_));
        return {};
    }

    std::optional<double> tx() {
        if (!to_peer_.make(end_.pool(), frames())) fail_call("Tx round: mbufs", ENOMEM);
        size_t sent = send(0, plan_.warm_up);
        section_.begin();
        sent = send(sent, frames_);
        const auto cycles = section_.end();
        rte_pktmbuf_free_bulk(buffers_.data() + sent, static_cast<unsigned>(frames_ - sent));
        const size_t arrived = peer_.take(sent);
        settle(kShortSettle); // completions of the last ones
        if (sent == frames_ && arrived == sent) return per_packet(cycles, plan_.packets);
        return {};
    }

    std::optional<double> forward() {
        fill_ring();
        Forwarded all = pass_on({}, plan_.warm_up);
        section_.begin();
        const size_t cold = all.sent;
        all = pass_on(all, frames_);
        const auto cycles = section_.end();
        const size_t arrived = peer_.take(all.sent);
        settle(kShortSettle);
        if (all.sent == frames_ && arrived == all.sent) return per_packet(cycles, all.sent - cold);
        settle_us_ = std::min(settle_us_ * 2, kLongestSettle);
        empty_ring(frames_ - std::min(all.received, frames_));
        return {};
    }

    // The timed part. Each goes round the queues, a burst at a time. Drivers may return short
    // bursts (at the end of their ring, say); a pass over the queues that brings nothing ends it.
    // Full bursts are requested even when fewer packets are left, as net_mlx5 returns none of a
    // compressed block of two to a caller that requests two. So more packets may come than
    // requested.
    size_t receive(size_t from, size_t until) {
        for (uint16_t empty = 0; from < until && empty < end_.queues();) {
            const uint16_t got = end_.rx(next_rx(), &buffers_[from], plan_.burst);
            from += got;
            empty = static_cast<uint16_t>(got == 0 ? empty + 1 : 0);
        }
        return from;
    }
    size_t send(size_t from, size_t until) {
        while (from < until) {
            const uint16_t sent = end_.tx(next_tx(), &buffers_[from], plan_.burst);
            from += sent;
            if (sent < plan_.burst) break;
        }
        return from;
    }
    struct Forwarded {
        size_t received = 0, sent = 0;
    };
    Forwarded pass_on(Forwarded all, size_t until) {
        rte_mbuf* mbufs[kMaxBurst];
        for (uint16_t empty = 0; all.sent < until && empty < end_.queues();) {
            const uint16_t queue = next_rx();
            const uint16_t got = end_.rx(queue, mbufs, plan_.burst);
            const uint16_t sent = end_.tx(queue, mbufs, got);
            all.received += got;
            all.sent += sent;
            empty = static_cast<uint16_t>(got == 0 ? empty + 1 : 0);
            if (sent < got) {
                rte_pktmbuf_free_bulk(mbufs + sent, got - sent);
                break;
            }
        }
        return all;
    }

    void check_offloads(const rte_mbuf& mbuf) const {
        const uint64_t lacks = plan_.offloads.flags() & ~mbuf.ol_flags;
        if (lacks != 0)
            throw std::runtime_error(
                fmt::format("a received mbuf lacks flags {:#x} of the offloads", lacks));
    }

    uint16_t next_rx() { return next(rx_queue_); }
    uint16_t next_tx() { return next(tx_queue_); }
    uint16_t next(uint16_t& queue) {
        const uint16_t now = queue;
        queue = static_cast<uint16_t>(queue + 1 == end_.queues() ? 0 : queue + 1);
        return now;
    }

    /// Afterwards one round of frames, spread over the queues, is in the ring.
    void fill_ring() {
        rx_queue_ = 0;
        if (!to_end_.make(peer_.port().pool(), frames())) fail_call("Rx round: mbufs", ENOMEM);
        peer_.send(frames());
        settle(settle_us_);
    }
    void empty_ring(size_t missing) {
        rte_mbuf* mbufs[kMaxBurst];
        for (int tries = 0; missing > 0 && tries < 100; ++tries) {
            size_t got = 0;
            for (uint16_t queue = 0; queue < end_.queues(); ++queue) {
                const uint16_t n = end_.rx(queue, mbufs, plan_.burst);
                rte_pktmbuf_free_bulk(mbufs, n);
                got += n;
            }
            missing -= std::min(got, missing);
            if (got == 0) settle(kShortSettle);
        }
    }
    [[nodiscard]] static std::optional<double> per_packet(std::optional<uint64_t> cycles,
                                                          size_t packets) {
        if (!cycles) return {};
        return static_cast<double>(*cycles) / static_cast<double>(packets);
    }
    /// Room for the frames of one round.
    [[nodiscard]] std::span<rte_mbuf*> frames() { return {buffers_.data(), frames_}; }

    static constexpr uint16_t kMaxBurst = 512;
    static constexpr uint32_t kShortSettle = 100, kLongestSettle = 20'000;

    End& end_;
    Peer& peer_;
    RoundPlan plan_;
    TimedSection& section_;
    size_t frames_;                  ///< of a round, with those of the warm-up
    std::vector<rte_mbuf*> buffers_; ///< plus a burst, in case others send as well
    FrameWriter to_end_, to_peer_;
    uint16_t rx_queue_ = 0, tx_queue_ = 0;
    uint32_t settle_us_ = 50;
};

/// A UDP source port for each queue of `port`, found by sending to it. Throws when a queue cannot
/// be reached.
std::vector<uint16_t> find_queue_ports(Port& port, Peer& peer);

} // namespace perf
