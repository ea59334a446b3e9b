// SPDX-License-Identifier: BSD-3-Clause
// Large receive offload (LRO): consecutive segments of a TCP flow are put into one request and
// completed as one packet. The completion reports where they differ, and the owner completes the
// headers.
//
// Sources: NVIDIA, "mlx5 Ethernet Poll Mode Driver" (LRO) and the RFC of its LRO on dev@dpdk.org,
// 2019 (an RQ has one session, which a packet of another flow ends); libdpcp, adapter capabilities;
// Linux, mlx5e_lro_update_hdr().
#pragma once

#include "app/softhca/core/device.hpp"
#include "app/softhca/core/packet.hpp"
#include "app/softhca/core/types.hpp"
#include "common/net/checksum.hpp"

#include <array>
#include <vector>

namespace softhca::core {

struct Rq;

/// Whether LRO as configured in this TIR takes such packets, provided that their checksums are
/// correct: TCP with data, over IP without options, with no flags but ACK and PSH, with no option
/// but timestamps.
[[nodiscard]] bool is_coalescible(const LroAttr& lro, const Packet& packet);

/// What the completion of several segments reports in addition to what it reports of the first.
struct LroSummary {
    uint8_t segments = 0;
    bool push = false; ///< of the last one; PSH ends the session
    uint8_t min_ttl = 0;
    uint16_t window = 0; ///< of the last one …
    uint32_t ack = 0;    ///< … likewise
    uint16_t payload_sum = 0;
};

/// Segments of one flow in the request at an RQ's consumer position. Reused from session to
/// session.
class LroSession {
  public:
    /// Facts about the first segment, which is in memory.
    struct First {
        uint32_t bytes = 0; ///< in memory
        uint32_t room = 0;  ///< that these may become
        uint32_t tag = 0;
        uint32_t hash = 0;
        uint8_t hash_type = 0;
        bool vlan_stripped = false;
        ChecksumVerdict verdict;
        uint64_t deadline = 0; ///< device clock
    };

    void begin(const Packet& packet, const First& first, uint64_t now);
    /// Whether the packet, which is coalescible, comes next.
    [[nodiscard]] bool continues(const Packet& packet, uint32_t tag) const;
    /// Its payload has been added.
    void add(const Packet& packet, uint64_t now);

    [[nodiscard]] const First& first() const { return first_; }
    /// Of the first segment.
    [[nodiscard]] const net::Headers& headers() const { return headers_; }
    [[nodiscard]] uint32_t metadata() const { return metadata_; }
    [[nodiscard]] LroSummary summary() const;
    [[nodiscard]] uint32_t segments() const { return segments_; }
    /// In memory: the headers of the first segment, the payload of all.
    [[nodiscard]] uint32_t bytes() const { return bytes_; }
    [[nodiscard]] uint64_t last_arrival() const { return last_arrival_; }
    [[nodiscard]] bool is_due(uint64_t now) const { return now >= first_.deadline; }
    /// No more segments can follow: the last had PSH set, or there is no room.
    [[nodiscard]] bool is_complete() const {
        return push_ || bytes_ + Limits::kLroMinSegmentBytes > first_.room;
    }

  private:
    /// Ethernet, three VLAN tags, IPv6 and TCP with the timestamp option.
    static constexpr uint32_t kMaxHeader = 14 + 3 * 4 + 40 + 32;
    using Header = std::array<std::byte, kMaxHeader>;
    friend bool is_coalescible(const LroAttr& lro, const Packet& packet);

    [[nodiscard]] static Header common_part(const Packet& packet);
    void take(const Packet& packet, uint64_t now);

    First first_;
    net::Headers headers_;
    Header common_; ///< headers without the fields that may differ
    uint32_t metadata_ = 0;
    uint32_t next_sequence_ = 0;
    uint32_t segments_ = 0, bytes_ = 0;
    uint64_t last_arrival_ = 0;
    bool push_ = false;
    uint8_t min_ttl_ = 0;
    uint16_t window_ = 0;
    uint32_t ack_ = 0;
    net::ChecksumSum payload_;
};

/// The uncompleted sessions of a device.
class LroSessions {
  public:
    void open(Rq& rq);
    void close(Rq& rq);
    /// The queue cannot complete the session: its segments are lost, and counted in `cause`.
    void abandon(Rq& rq, uint64_t& cause);

    /// The queues that have a session.
    [[nodiscard]] const std::vector<Rq*>& queues() const { return queues_; }

  private:
    std::vector<Rq*> queues_;
};

} // namespace softhca::core
