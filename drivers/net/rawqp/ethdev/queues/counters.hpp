// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic on the rings' counters, which only their own lcores write, and on what control calls
// remember of them. Readers of statistics (ethdev's telemetry has its own thread) never see a torn
// number.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"

#include <algorithm>
#include <array>

namespace rawqp {

/// Every counter of a kind of queue.
template <class Counters> inline constexpr std::array<uint64_t Counters::*, 0> kMembers;
template <>
inline constexpr std::array kMembers<RxCounters> = {&RxCounters::packets, &RxCounters::bytes,
                                                    &RxCounters::errors, &RxCounters::nombuf,
                                                    &RxCounters::recoveries};
template <>
inline constexpr std::array kMembers<TxCounters> = {
    &TxCounters::packets,    &TxCounters::bytes,      &TxCounters::errors,
    &TxCounters::recoveries, &TxCounters::past_times, &TxCounters::future_times};

template <class Counters>
concept QueueCounters = kMembers<Counters>
.size() * sizeof(uint64_t) == sizeof(Counters);
static_assert(QueueCounters<RxCounters> && QueueCounters<TxCounters>);

inline void store_counter(uint64_t& counter, uint64_t value) {
    __atomic_store_n(&counter, value, __ATOMIC_RELAXED);
}

template <QueueCounters Counters> [[nodiscard]] Counters load(const Counters& from) {
    Counters now;
    for (const auto member : kMembers<Counters>)
        now.*member = load_counter(from.*member);
    return now;
}
template <QueueCounters Counters> void store(Counters& to, const Counters& from) {
    for (const auto member : kMembers<Counters>)
        store_counter(to.*member, from.*member);
}

[[nodiscard]] inline RxCounters snapshot(const RxRing& ring) { return load(ring.counters); }
[[nodiscard]] inline TxCounters snapshot(const TxRing& ring) { return load(ring.counters); }

template <QueueCounters Counters> [[nodiscard]] Counters operator-(Counters a, const Counters& b) {
    for (const auto member : kMembers<Counters>)
        a.*member -= b.*member;
    return a;
}
template <QueueCounters Counters> Counters& operator+=(Counters& a, const Counters& b) {
    for (const auto member : kMembers<Counters>)
        a.*member += b.*member;
    return a;
}

/// What a queue counted since the statistics were reset. Packets that an error or a stop deducted
/// may have been counted before the reset: then the count goes on from there.
[[nodiscard]] inline RxCounters since_reset(const RxRing& ring, const RxCounters& base) {
    return snapshot(ring) - load(base);
}
[[nodiscard]] inline TxCounters since_reset(const TxRing& ring, TxCounters& base) {
    const TxCounters now = snapshot(ring);
    TxCounters before = load(base);
    before.packets = std::min(before.packets, now.packets);
    before.bytes = std::min(before.bytes, now.bytes);
    store(base, before);
    return now - before;
}

/// Adds to counters that others read concurrently.
template <QueueCounters Counters> void add(Counters& to, const Counters& more) {
    Counters sum = load(to);
    store(to, sum += more);
}

} // namespace rawqp
