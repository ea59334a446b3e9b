// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/shared_port.hpp"

#include "drivers/net/rawqp/log.hpp"

namespace rawqp {

const char* name_of(QueueState state) {
    constexpr std::array kNames{"not set up", "stopped", "running", "stopping", "released"};
    return kNames[static_cast<size_t>(state)];
}

void advance(QueueState& state, QueueState to) {
    if (!may_become(state, to))
        RAWQP_LOG(ERR, "a queue is %s and becomes %s, which it must not", name_of(state),
                  name_of(to));
    __atomic_store_n(reinterpret_cast<uint8_t*>(&state), static_cast<uint8_t>(to),
                     __ATOMIC_RELEASE);
}

void SharedBursts::note(const RxSpec& spec) {
    rx_offloads = spec.offloads;
    rx_segments = spec.segments;
    real_time = spec.real_time;
}

void SharedBursts::note(const TxSpec& spec) {
    tx_offloads = spec.offloads;
    inline_bytes = spec.inline_bytes;
    multi_packet = spec.multi_packet;
    metadata = spec.metadata;
    min_inline = spec.min_inline;
    work_requests = spec.work_requests;
}

RxSpec SharedBursts::rx_spec() const {
    RxSpec spec;
    spec.offloads = rx_offloads;
    spec.segments = rx_segments;
    spec.real_time = real_time;
    spec.active_simd_bits = rte_vect_get_max_simd_bitwidth();
    return spec;
}

TxSpec SharedBursts::tx_spec() const {
    TxSpec spec;
    spec.offloads = tx_offloads;
    spec.inline_bytes = inline_bytes;
    spec.multi_packet = multi_packet;
    spec.metadata = metadata;
    spec.min_inline = min_inline;
    spec.work_requests = work_requests;
    spec.settled = true;
    spec.active_simd_bits = rte_vect_get_max_simd_bitwidth();
    return spec;
}

const RingFormat& SharedPort::ring_format(RingFormats formats) const {
    const RingFormat& plain = *formats[format];
    return striding ? *plain.striding : plain;
}

void SharedPort::set_ring_format(const RingFormat& wanted, RingFormats formats) {
    for (size_t i = 0; i < formats.size(); ++i) {
        if (formats[i] != &wanted && formats[i]->striding != &wanted) continue;
        format = static_cast<uint8_t>(i);
        striding = formats[i] != &wanted;
    }
}

} // namespace rawqp
