// SPDX-License-Identifier: BSD-3-Clause
// What steering decided about a flow's last packet, so that the next one needs neither parsing nor
// a lookup.
#pragma once

#include "app/softhca/core/flow_path.hpp"
#include "app/softhca/core/flow_shape.hpp"
#include "app/softhca/core/requests.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace softhca::core {

/// Where packets of a flow go, where their headers are, and the parts of their completions that are
/// known in advance.
template <Rings R> struct KnownFlow {
    static constexpr size_t kCounters = 2;

    Target target;
    uint32_t tag = 0;
    std::array<FlowCounter*, kCounters> counters{}; ///< null: no more
    net::Headers headers; ///< of one of its packets, with that packet's IP length
    typename R::Receive::Prepared completion;

    void count(uint32_t bytes) const {
        for (FlowCounter* const counter : counters) {
            if (!counter) break;
            counter->count(bytes);
        }
    }
};

/// Knows flows of plain frames (FlowShape) only. The hash of a flow selects its place; a newer flow
/// evicts the one there. Used by the device thread with the device locked.
template <Rings R> class FlowCache {
  public:
    /// What was learned is valid until the next control call (DataPathParts).
    explicit FlowCache(const uint64_t& control_calls) : control_calls_(control_calls) {}

    struct Found {
        KnownFlow<R>* flow = nullptr;
        uint32_t ip_bytes = 0;   ///< this frame's IP length
        ChecksumVerdict verdict; ///< this frame's

        /// The headers of this frame, until those of another frame of its flow are asked for.
        [[nodiscard]] const net::Headers& headers() const {
            flow->headers.ip_bytes = ip_bytes;
            return flow->headers;
        }
        /// The answer that headers() would give. headers() stores a value that is read back at
        /// once, which waits for all earlier stores, to lines that are far.
        [[nodiscard]] bool has_payload() const {
            return flow->headers.l3 + ip_bytes > flow->headers.payload;
        }
    };
    /// `head` is the whole frame, which is also verified. False: the frame takes the full path.
    [[nodiscard]] bool find(const std::byte* head, uint32_t bytes, Found& found) {
        if (places_.empty()) return false;
        return with_shape(head, bytes,
                          [&](auto shape) { return find_shaped<shape>(head, bytes, found); });
    }
    /// Where this packet, of one piece, has gone; all packets of its flow go there until something
    /// changes.
    void learn(const Packet& packet, const KnownFlow<R>& flow);

  private:
    static constexpr size_t kPlaces = 4096;
    struct Place {
        uint64_t control_calls = 0;                         ///< when it was learned; 0: never
        std::array<uint64_t, FlowShape::kMaxWords> words{}; ///< under its shape's masks
        KnownFlow<R> flow;
    };

    // Words are compared as they are loaded: wide loads that read stored words back would stall.
    // The shape need not be compared: each shape compares the bytes that identify it.
    template <size_t S>
    [[nodiscard]] bool find_shaped(const std::byte* head, uint32_t bytes, Found& found) {
        constexpr const FlowShape& kShape = kFlowShapes[S];
        Place& place = places_[hash_of<S>(head) % kPlaces];
        uint64_t difference = place.control_calls ^ control_calls_;
        for (size_t i = 0; i < kShape.words; i++)
            difference |= kShape.word(head, i) ^ place.words[i];
        if (difference != 0) return false;

        constexpr bool kIpv6 = (S & 2) != 0, kTcp = (S & 1) != 0;
        const std::byte* const ip = head + kShape.l3;
        const uint32_t ip_bytes =
            kIpv6 ? 40u + net::load_be<uint16_t>(ip + 4) : net::load_be<uint16_t>(ip + 2);
        const uint32_t end = kShape.l3 + ip_bytes;
        if (end > bytes || end < place.flow.headers.payload) return false;
        found = {&place.flow, ip_bytes, verify_plain<kIpv6, kTcp>(ip, ip_bytes)};
        return true;
    }
    /// The multiplications are independent; the high bits of each product depend on the whole word.
    template <size_t S> static uint64_t hash_of(const std::byte* head) {
        uint64_t sum = 0, factor = 0x9e3779b97f4a7c15u;
        for (size_t i = 0; i < kFlowShapes[S].words; i++, factor += 0xc6b2733a2f3a9c6cu)
            sum += kFlowShapes[S].word(head, i) * factor;
        return sum >> 40;
    }

    std::vector<Place> places_; ///< once there is something to learn
    const uint64_t& control_calls_;
};

template <Rings R> void FlowCache<R>::learn(const Packet& packet, const KnownFlow<R>& flow) {
    const std::byte* const head = packet.head();
    (void)with_shape(head, packet.bytes(), [&](auto shape) {
        constexpr const FlowShape& kShape = kFlowShapes[shape];
        if (!is_plain(packet, kShape)) return false;
        if (places_.empty()) places_.resize(kPlaces);
        Place& place = places_[hash_of<shape>(head) % kPlaces];
        place = {.control_calls = control_calls_, .words = {}, .flow = flow};
        for (size_t i = 0; i < kShape.words; i++)
            place.words[i] = kShape.word(head, i);
        return true;
    });
}

} // namespace softhca::core
