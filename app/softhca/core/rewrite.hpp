// SPDX-License-Identifier: BSD-3-Clause
// What a rule makes of the packets that it takes: headers set, removed and put in front.
#pragma once

#include "app/softhca/core/edits.hpp"
#include "app/softhca/core/packet.hpp"
#include "app/softhca/core/types.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace softhca::core {

/// Done one after the other. A packet without the field stays as it is; checksums follow.
struct HeaderEdits {
    Number number = 0;
    std::vector<HeaderEdit> edits;
    uint32_t users = 0;
};

/// Headers that take the place of others.
struct Reformat {
    Number number = 0;
    ReformatKind kind{};
    std::vector<std::byte> headers;
    uint32_t users = 0;
};

/// Everything that one rule changes, in the order of the members.
struct Rewrite {
    static constexpr size_t kMaxVlans = 2;

    bool decap = false; ///< the frame inside an L2 tunnel comes out
    HeaderEdits* edits = nullptr;
    uint8_t pop_vlans = 0;
    uint8_t push_vlans = 0;
    std::array<VlanTag, kMaxVlans> vlans{}; ///< the first one is pushed first
    Reformat* reformat = nullptr;           ///< l3_tunnel_to_l2 comes first

    [[nodiscard]] bool any() const {
        return decap || edits || pop_vlans != 0 || push_vlans != 0 || reformat;
    }
    bool operator==(const Rewrite&) const = default;
};

/// A copy of a packet, changed. Reused from packet to packet, so that it allocates at first only.
class RewrittenPacket {
  public:
    RewrittenPacket() : buffer_(kRoom) {}
    RewrittenPacket(const RewrittenPacket&) = delete;
    RewrittenPacket& operator=(const RewrittenPacket&) = delete;

    /// With these registers. False: the packet has no such tunnel or tag, or gets longer than any
    /// port lets pass.
    [[nodiscard]] bool make(const Packet& from, const Rewrite& rewrite, const MetaKey& meta);
    /// After make() was true; until the next one.
    [[nodiscard]] const Packet& packet() const { return *packet_; }

  private:
    static constexpr uint32_t kHeadroom = 256, kMaxFrame = 10240, kRoom = kHeadroom + kMaxFrame;

    [[nodiscard]] std::byte* head() { return buffer_.data() + start_; }
    [[nodiscard]] net::Headers parse();
    void remove_front(uint32_t bytes);
    void put_front(const void* data, uint32_t bytes);
    [[nodiscard]] bool decap(const Packet& from, bool has_l2);
    [[nodiscard]] bool pop_vlan();
    void push_vlan(VlanTag tag);
    void encap(const Reformat& reformat);
    void edit(const HeaderEdits& edits);

    std::vector<std::byte> buffer_;
    uint32_t start_ = 0, bytes_ = 0;
    MetaKey meta_;
    iovec piece_{};
    std::optional<Packet> packet_;
};

} // namespace softhca::core
