// SPDX-License-Identifier: BSD-3-Clause
// From a TIR and a packet to the receive queue: the hash and the indirection table.
#pragma once

#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/packet.hpp"

namespace softhca::core {

/// The RQ that gets the packet, and the hash as its CQE reports it.
struct Target {
    Rq* rq = nullptr;
    uint32_t hash = 0;
    uint8_t hash_type = 0; ///< mlx5::kHashIp | kHashL4 bits of what was hashed; 0: nothing
    bool inner = false;    ///< the completion is to describe what the tunnel carries
};

[[nodiscard]] Target select_target(const Tir& tir, const Packet& packet);

} // namespace softhca::core
