// SPDX-License-Identifier: BSD-3-Clause
// Virtio queues as fronts see them. Their rings are those of the Virtual I/O Device specification
// (VIRTIO 1.1, 2.6: split virtqueues; 5.1.6: frames of a network device).
#pragma once

#include <cstdint>

namespace softhca::core {

class Listener;
using Number = uint32_t;

/// Served only when ready. What has been served stays served in every state.
enum class VirtqState : uint8_t { init, ready, suspended, error };

/// Why a queue is in error.
enum class VirtqFault : uint8_t {
    none,
    bad_descriptor, ///< a chain or an index that drivers must not post
    invalid_buffer, ///< the key does not cover the buffer, or it holds no frame
    chain_too_long, ///< longer than the ring, kMaxChainDescriptors, or than a frame may be
    no_ring,        ///< the key does not cover the ring, or its memory is gone
    injected        ///< on request
};

/// Counts descriptors, and the chains that put a queue into error.
struct VirtqCounts {
    uint64_t received = 0, completed = 0;
    uint32_t bad_descriptors = 0, chains_too_long = 0, invalid_buffers = 0, other_errors = 0;
};

struct VirtqAttr {
    Number pd = 0;
    uint32_t lkey = 0; ///< of the memory for all addresses, including the driver's
    uint16_t entries = 0;
    uint64_t descriptors = 0, available = 0, used = 0; ///< addresses of the three parts
    uint16_t next_available = 0, next_used = 0;        ///< indices to begin with
    bool sends = false;                                ///< else it receives
    bool version_1 = false; ///< headers are those of VIRTIO 1.x, not of its predecessor
    bool checksums = false; ///< computes requested checksums, or reports which are correct
    bool tso_ipv4 = false, tso_ipv6 = false;
    Number transport_domain = 0; ///< of what it sends
    Number events = 0;           ///< RQ that gets an empty message when chains are used; 0: none
    Number counters = 0;         ///< 0: none
    Listener* listener = nullptr;
    uint64_t cookie = 0;
};

struct VirtqStatus {
    VirtqState state = VirtqState::init;
    VirtqFault fault = VirtqFault::none;
    uint16_t next_available = 0, next_used = 0;
};

} // namespace softhca::core
