// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/shared_port.hpp"

#include "drivers/net/rawqp/log.hpp"

namespace rawqp {

void advance(QueueState& state, QueueState to) {
    constexpr std::array kNames{"absent", "set up", "running", "stopping", "released"};
    if (!may_become(state, to))
        RAWQP_LOG(ERR, "a queue is %s and becomes %s, which it must not",
                  kNames[static_cast<size_t>(state)], kNames[static_cast<size_t>(to)]);
    __atomic_store_n(reinterpret_cast<uint8_t*>(&state), static_cast<uint8_t>(to),
                     __ATOMIC_RELEASE);
}

const RingFormat& SharedPort::ring_format(RingFormats formats) const {
    const RingFormat& plain = *formats[format];
    return striding ? *plain.striding : plain;
}

void SharedPort::set_ring_format(const RingFormat& wanted, RingFormats formats) {
    for (uint8_t i = 0; i < formats.size(); ++i) {
        if (formats[i] != &wanted && formats[i]->striding != &wanted) continue;
        format = i;
        striding = formats[i] != &wanted;
    }
}

} // namespace rawqp
