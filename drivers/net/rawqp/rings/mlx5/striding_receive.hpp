// SPDX-License-Identifier: BSD-3-Clause
// The receive burst of striding queues. Each instruction set compiles this header for itself:
// nothing here may be shared by the linker.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/striding_packet.hpp"
#if defined(RAWQP_VECTORS)
#include "drivers/net/rawqp/rings/mlx5/striding_vector.hpp"
#else
#include "drivers/net/rawqp/rings/mlx5/rx_scalar.hpp"
#endif

#include <utility>

namespace rawqp::mlx5rings {
namespace {

template <RxOptions O>
uint16_t receive_strides(StridingRing& ring, rte_mbuf** packets, uint16_t wanted) {
    if (ring.is_between_steps() && !striding_go_on(ring)) [[unlikely]]
        return 0;
    if constexpr (O.stamps == Stamps::real_time) ring.clock.refresh();
    uint64_t bytes = 0;
    uint16_t received = 0;
    bool moved = false;
    PeekedCqe peeked{};
    PeekState state = PeekState::empty;
    while (received < wanted) {
        if (const uint32_t taken =
                take_strides<O>(ring, packets + received, uint32_t{wanted} - received, bytes)) {
            received = static_cast<uint16_t>(received + taken);
            moved = true;
            continue;
        }
        state = peek<O>(ring, peeked);
        if (state != PeekState::completion) break;
        if (!peeked.filler() && too_long(ring, peeked)) [[unlikely]] {
            count_up(ring.counters.errors);
        } else if (!peeked.filler()) {
            rte_mbuf* const mbuf = take_packet<O>(ring, peeked);
            if (mbuf == nullptr) {
                count_up(ring.counters.nombuf, !std::exchange(ring.nombuf_counted, true));
                break;
            }
            ring.nombuf_counted = false;
            packets[received++] = mbuf;
            bytes += mbuf->pkt_len;
        }
        step_over(ring, peeked);
        moved = true;
    }
    if (moved) {
        ring.cq.publish_consumer();
        count_up(ring.counters.packets, received);
        count_up(ring.counters.bytes, bytes);
    }
    if (state == PeekState::error) [[unlikely]]
        striding_recover(ring);
    return received;
}

template <RxOptions O> uint16_t striding_receive(void* queue, rte_mbuf** packets, uint16_t wanted) {
    constexpr RxOptions kAll = telling_all(O);
    auto& ring = *static_cast<StridingRing*>(queue);
    if (__atomic_load_n(&ring.tell_all, __ATOMIC_RELAXED)) [[unlikely]]
        return with_ptp<kAll>(ring, packets, receive_strides<kAll>(ring, packets, wanted));
    return receive_strides<O>(ring, packets, wanted);
}

} // namespace
} // namespace rawqp::mlx5rings
