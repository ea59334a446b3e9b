// SPDX-License-Identifier: BSD-3-Clause
// What steering made of a flow's last packet, so that the next one is neither parsed nor looked up.
#pragma once

#include "app/softhca/core/packet.hpp"
#include "app/softhca/core/rss.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace softhca::core {

struct FlowCounter;

/// Where packets of a flow go, and how their headers lie.
struct KnownFlow {
    static constexpr size_t kCounters = 2;

    Target target;
    uint32_t tag = 0;
    std::array<FlowCounter*, kCounters> counters{}; ///< null: no more
    net::Headers headers; ///< of a packet of it, whose IP length was its own
};

/// Which bytes of a frame parsing and steering depend on, in words of eight bytes.
struct FlowShape {
    static constexpr size_t kMaxWords = 9;

    uint32_t l3 = 0;
    uint32_t words = 0;
    std::array<uint64_t, kMaxWords> masks{};
};

/// Knows plain frames only: Ethernet, at most one VLAN tag, IPv4 without options or IPv6 without
/// extension headers, whole headers of TCP or UDP, no tunnel. A flow has its place by its hash, and
/// the last one that wanted it has it. Used by the device thread with the device locked.
class FlowCache {
  public:
    struct Found {
        const KnownFlow* flow = nullptr; ///< null: this frame goes the whole way
        uint32_t ip_bytes = 0;           ///< its own IP length
    };
    /// `head` is all of the frame.
    [[nodiscard]] Found find(const std::byte* head, uint32_t bytes) const;
    /// Where this packet has gone, of one piece; all packets of its flow go there until something
    /// changes.
    void learn(const Packet& packet, const KnownFlow& flow);
    /// Rules, queues or tables may have changed.
    void forget() { epoch_++; }

  private:
    static constexpr size_t kPlaces = 4096;
    struct Place {
        uint64_t epoch = 0;
        std::array<uint64_t, FlowShape::kMaxWords> words{}; ///< under its shape's masks
        KnownFlow flow;
    };

    std::vector<Place> places_; ///< once there is something to learn
    uint64_t epoch_ = 1;
};

} // namespace softhca::core
