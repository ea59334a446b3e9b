// SPDX-License-Identifier: BSD-3-Clause
// Queues that no command made, as QUERY_* is to report them: what the kernel's driver would have
// written into the commands that create them. For fronts that act as that driver.
#pragma once

#include "app/softhca/core/types.hpp"

namespace softhca::prm {

/// Device addresses of a queue's ring and doorbell record, and the doorbell page by which its owner
/// rings.
struct QueuePlace {
    uint64_t ring = 0, record = 0;
    core::Number uar = 0; ///< 0: none, as for RQs
};

struct CqDescription {
    core::CqAttr attr;
    QueuePlace place;
    uint32_t vector = 0; ///< of completions: whoever has the event queues knows the number
    bool padded = false; ///< CQEs of 64 bytes, each in a place of 128
    uint16_t period_us = 0, max_count = 0; ///< event moderation
};

struct SqDescription {
    core::SqAttr attr;
    QueuePlace place;
    core::Number tisn = 0; ///< 0: none
};

struct RqDescription {
    core::RqAttr attr;
    QueuePlace place;
    bool pads_writes = false;   ///< writes to memory end at the end of a cache line
    core::Number q_counter = 0; ///< 0: none yet
};

/// What its owner has changed of such a queue.
enum class CqPart : uint8_t { size, moderation };
enum class RqPart : uint8_t { vlan_strip, q_counter };

} // namespace softhca::prm
