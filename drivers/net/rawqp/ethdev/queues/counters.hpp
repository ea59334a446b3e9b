// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic on the rings' counters, which only their own lcores write, and on what control calls
// remember of them. Whoever asks for statistics (ethdev's telemetry has a thread for it) finds each
// number whole.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"

#include <algorithm>

namespace rawqp {

inline void store_counter(uint64_t& counter, uint64_t value) {
    __atomic_store_n(&counter, value, __ATOMIC_RELAXED);
}

[[nodiscard]] inline RxCounters load(const RxCounters& from) {
    return {load_counter(from.packets), load_counter(from.bytes), load_counter(from.errors),
            load_counter(from.nombuf), load_counter(from.recoveries)};
}
[[nodiscard]] inline TxCounters load(const TxCounters& from) {
    return {load_counter(from.packets),    load_counter(from.bytes),
            load_counter(from.errors),     load_counter(from.recoveries),
            load_counter(from.past_times), load_counter(from.future_times)};
}
inline void store(RxCounters& to, const RxCounters& from) {
    store_counter(to.packets, from.packets);
    store_counter(to.bytes, from.bytes);
    store_counter(to.errors, from.errors);
    store_counter(to.nombuf, from.nombuf);
    store_counter(to.recoveries, from.recoveries);
}
inline void store(TxCounters& to, const TxCounters& from) {
    store_counter(to.packets, from.packets);
    store_counter(to.bytes, from.bytes);
    store_counter(to.errors, from.errors);
    store_counter(to.recoveries, from.recoveries);
    store_counter(to.past_times, from.past_times);
    store_counter(to.future_times, from.future_times);
}

[[nodiscard]] inline RxCounters snapshot(const RxRing& ring) { return load(ring.counters); }
[[nodiscard]] inline TxCounters snapshot(const TxRing& ring) { return load(ring.counters); }

[[nodiscard]] inline RxCounters operator-(const RxCounters& a, const RxCounters& b) {
    return {a.packets - b.packets, a.bytes - b.bytes, a.errors - b.errors, a.nombuf - b.nombuf,
            a.recoveries - b.recoveries};
}

[[nodiscard]] inline TxCounters operator-(const TxCounters& a, const TxCounters& b) {
    return {a.packets - b.packets,       a.bytes - b.bytes,
            a.errors - b.errors,         a.recoveries - b.recoveries,
            a.past_times - b.past_times, a.future_times - b.future_times};
}

/// What a queue counted since the statistics were reset. Packets that an error or a stop took back
/// may have been counted before that: then the count goes on from there.
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

inline RxCounters& operator+=(RxCounters& a, const RxCounters& b) {
    a.packets += b.packets;
    a.bytes += b.bytes;
    a.errors += b.errors;
    a.nombuf += b.nombuf;
    a.recoveries += b.recoveries;
    return a;
}

inline TxCounters& operator+=(TxCounters& a, const TxCounters& b) {
    a.packets += b.packets;
    a.bytes += b.bytes;
    a.errors += b.errors;
    a.recoveries += b.recoveries;
    a.past_times += b.past_times;
    a.future_times += b.future_times;
    return a;
}

/// Of what others read at the same time.
template <class Counters> void add(Counters& to, const Counters& more) {
    Counters sum = load(to);
    store(to, sum += more);
}

} // namespace rawqp
