// SPDX-License-Identifier: BSD-3-Clause
// Copies of some packets: where a rule leads to a sampler, all packets go on to one table, and some
// of them to another one as well.
#pragma once

#include "app/softhca/core/types.hpp"

namespace softhca::core {

struct FlowTable;

struct Sampler {
    Number number = 0;
    uint8_t level = 0;
    uint32_t ratio = 1; ///< one in this many packets is copied on average
    FlowTable* copies = nullptr;
    FlowTable* all = nullptr;
    uint32_t users = 0;

    /// Whether this packet of its direction is copied (FlowPath::serial): pseudorandom, but the
    /// answer is the same for a packet that is steered again, as when it waits for room.
    [[nodiscard]] bool takes(uint64_t serial) const {
        uint64_t hash = (uint64_t{number} << 32) + serial;
        for (const uint64_t factor : {0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu})
            hash = (hash ^ hash >> 30) * factor; // as SplitMix64 does
        return ratio == 1 || (hash >> 32) % ratio == 0;
    }
};

} // namespace softhca::core
