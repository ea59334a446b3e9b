// SPDX-License-Identifier: BSD-3-Clause
// How a rule changes the packets that it matches: headers set, removed and prepended.
#pragma once

#include "app/softhca/core/edits.hpp"
#include "app/softhca/core/packet.hpp"
#include "app/softhca/core/types.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace softhca::core {

/// Applied in order. A packet without the field stays unchanged; checksums are updated.
struct HeaderEdits {
    Number number = 0;
    std::vector<HeaderEdit> edits;
    uint32_t users = 0;
};

/// Headers that replace others.
struct Reformat {
    Number number = 0;
    ReformatKind kind{};
    std::vector<std::byte> headers;
    uint32_t users = 0;
};

/// Where a header begins, in the packet as the earlier steps have left it.
enum class Anchor : uint8_t { start, first_vlan, l3, inner_l2, inner_l3 };

/// One change of headers, by steering entries. Between steps the bytes may not be a valid packet: a
/// header may be half there.
struct HeaderStep {
    enum class Kind : uint8_t {
        edit,
        remove,    ///< `bytes` bytes
        remove_to, ///< everything before another header
        insert,    ///< bytes as they are
        encap      ///< headers of a tunnel, with their lengths filled in
    };
    static constexpr size_t kMaxInserted = net::kEthernetBytes + net::kVlanBytes;

    Kind kind{};
    Anchor from = Anchor::start; ///< not for edit
    uint16_t offset = 0;         ///< bytes after that
    uint16_t bytes = 0;          ///< of remove and insert
    Anchor to{};                 ///< of remove_to
    std::array<std::byte, kMaxInserted> data{};
    const Reformat* reformat = nullptr; ///< of encap
    HeaderEdit edit{};
};

/// Everything that one rule changes, applied in the order of the members.
struct Rewrite {
    static constexpr size_t kMaxVlans = 2;

    bool decap = false; ///< the frame inside an L2 tunnel is extracted
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

/// A modified copy of a packet. Reused from packet to packet, so that it only allocates at first.
class RewrittenPacket {
  public:
    RewrittenPacket() : buffer_(kRoom) {}
    RewrittenPacket(const RewrittenPacket&) = delete;
    RewrittenPacket& operator=(const RewrittenPacket&) = delete;

    /// With these registers. False: the packet has no such tunnel or tag, or becomes longer than
    /// any port lets pass.
    [[nodiscard]] bool make(const Packet& from, const Rewrite& rewrite, const MetaKey& meta);
    /// Likewise, by applying these steps in order.
    [[nodiscard]] bool make(const Packet& from, std::span<const HeaderStep> steps,
                            const MetaKey& meta);
    /// Valid after make() returned true, until the next make().
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
    void fill_in_lengths(size_t header_bytes);
    template <class Elements, class Projection>
    void edit(const Elements& elements, Projection edit_of);
    [[nodiscard]] bool begin(const Packet& from, const MetaKey& meta);
    void finish();

    // For steps.
    [[nodiscard]] std::optional<uint32_t> place_of(Anchor anchor);
    [[nodiscard]] bool take(const HeaderStep& step);
    [[nodiscard]] bool remove(uint32_t at, uint32_t bytes);
    [[nodiscard]] bool insert(uint32_t at, std::span<const std::byte> data);

    std::vector<std::byte> buffer_;
    uint32_t start_ = 0, bytes_ = 0;
    MetaKey meta_;
    const net::VxlanPorts* vxlan_ = nullptr; ///< of the packet's device
    iovec piece_{};
    std::optional<Packet> packet_;
};

} // namespace softhca::core
