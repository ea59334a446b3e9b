// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic on the rings' counters, which only their own lcores write.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"

#include <algorithm>

namespace rawqp {

[[nodiscard]] inline RxCounters snapshot(const RxRing& ring) {
    return {load_counter(ring.counters.packets), load_counter(ring.counters.bytes),
            load_counter(ring.counters.errors), load_counter(ring.counters.nombuf),
            load_counter(ring.counters.recoveries)};
}

[[nodiscard]] inline TxCounters snapshot(const TxRing& ring) {
    return {load_counter(ring.counters.packets),    load_counter(ring.counters.bytes),
            load_counter(ring.counters.errors),     load_counter(ring.counters.recoveries),
            load_counter(ring.counters.past_times), load_counter(ring.counters.future_times)};
}

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
    return snapshot(ring) - base;
}
[[nodiscard]] inline TxCounters since_reset(const TxRing& ring, TxCounters& base) {
    const TxCounters now = snapshot(ring);
    base.packets = std::min(base.packets, now.packets);
    base.bytes = std::min(base.bytes, now.bytes);
    return now - base;
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

} // namespace rawqp
