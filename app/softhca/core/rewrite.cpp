// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/rewrite.hpp"

#include "app/softhca/core/gather.hpp"
#include "common/net/checksum.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

namespace softhca::core {
namespace {

using net::Headers;
using net::load_be;
using net::store_be;

constexpr uint32_t kMacs = 12;

// ---------------------------------------------------------------- fields of headers

/// The position of a field: the low `width` bits of a big-endian word, shifted by `shift` bits.
struct Place {
    uint32_t at = 0;
    uint8_t bytes = 0; ///< of the word: 1, 2 or 4; 0: the packet has no such field
    uint8_t shift = 0;
    uint8_t width = 0;
};

Place place_in_l2(EditField field, const Headers& headers) {
    switch (field) {
    case EditField::dst_mac_high: return {0, 4, 0, 32};
    case EditField::dst_mac_low: return {4, 2, 0, 16};
    case EditField::src_mac_high: return {6, 4, 0, 32};
    case EditField::src_mac_low: return {10, 2, 0, 16};
    case EditField::ether_type: return {headers.l3 - 2u, 2, 0, 16};
    case EditField::vlan_type: return headers.first_tag ? Place{12, 2, 0, 16} : Place{};
    case EditField::vlan_tci: return headers.first_tag ? Place{14, 2, 0, 16} : Place{};
    case EditField::vlan_id: return headers.first_tag ? Place{14, 2, 0, 12} : Place{};
    default: return {};
    }
}

Place place_in_l3(EditField field, const Headers& headers) {
    const uint32_t l3 = headers.l3;
    if (headers.ip_version == 4) switch (field) {
        case EditField::ip_dscp: return {l3 + 1, 1, 2, 6};
        case EditField::ip_ecn: return {l3 + 1, 1, 0, 2};
        case EditField::ipv4_ttl: return {l3 + 8, 1, 0, 8};
        case EditField::src_ipv4: return {l3 + 12, 4, 0, 32};
        case EditField::dst_ipv4: return {l3 + 16, 4, 0, 32};
        default: return {};
        }
    if (headers.ip_version != 6) return {};
    switch (field) {
    case EditField::ip_dscp: return {l3, 2, 6, 6};
    case EditField::ip_ecn: return {l3, 2, 4, 2};
    case EditField::ipv6_hop_limit: return {l3 + 7, 1, 0, 8};
    default: break;
    }
    const auto word = static_cast<uint32_t>(field) - static_cast<uint32_t>(EditField::src_ipv6);
    return field >= EditField::src_ipv6 && word < 8 ? Place{l3 + 8 + 4 * word, 4, 0, 32} : Place{};
}

Place place_in_l4(EditField field, const Headers& headers) {
    const uint32_t l4 = headers.l4;
    if (l4 == 0) return {};
    if (headers.ip_proto == net::kProtoTcp) switch (field) {
        case EditField::tcp_src_port: return {l4, 2, 0, 16};
        case EditField::tcp_dst_port: return {l4 + 2, 2, 0, 16};
        case EditField::tcp_sequence: return {l4 + 4, 4, 0, 32};
        case EditField::tcp_ack: return {l4 + 8, 4, 0, 32};
        case EditField::tcp_flags: return {l4 + 12, 2, 0, 9};
        default: return {};
        }
    switch (field) {
    case EditField::udp_src_port: return {l4, 2, 0, 16};
    case EditField::udp_dst_port: return {l4 + 2, 2, 0, 16};
    default: return {};
    }
}

Place place_of(EditField field, const Headers& headers) {
    if (field <= EditField::vlan_id) return place_in_l2(field, headers);
    if (field < EditField::tcp_flags) return place_in_l3(field, headers);
    return place_in_l4(field, headers);
}

net::be32* register_of(EditField field, MetaKey& meta) {
    if (field < EditField::reg_a) return nullptr;
    if (field == EditField::reg_a) return &meta.reg_a;
    if (field == EditField::reg_b) return &meta.reg_b;
    return &meta.reg_c[static_cast<size_t>(field) - static_cast<size_t>(EditField::reg_c)];
}

uint32_t load_word(const std::byte* at, uint8_t bytes) {
    return bytes == 1   ? static_cast<uint8_t>(*at)
           : bytes == 2 ? load_be<uint16_t>(at)
                        : load_be<uint32_t>(at);
}
void store_word(std::byte* at, uint8_t bytes, uint32_t word) {
    if (bytes == 1)
        *at = static_cast<std::byte>(word);
    else if (bytes == 2)
        store_be(at, static_cast<uint16_t>(word));
    else
        store_be(at, word);
}

uint32_t low_bits(unsigned count) { return count >= 32 ? ~0u : (1u << count) - 1; }

/// One field of the present packet, wherever it is kept.
class FieldAccess {
  public:
    FieldAccess(EditField field, std::byte* head, const Headers& headers, MetaKey& meta)
        : head_(head), register_(register_of(field, meta)) {
        if (!register_) place_ = place_of(field, headers);
    }
    [[nodiscard]] bool exists() const { return register_ || place_.bytes != 0; }
    [[nodiscard]] unsigned width() const { return register_ ? 32 : place_.width; }
    [[nodiscard]] uint32_t read() const {
        if (register_) return *register_;
        return load_word(head_ + place_.at, place_.bytes) >> place_.shift & low_bits(place_.width);
    }
    void write(uint32_t value) {
        if (register_) {
            *register_ = value;
            return;
        }
        const uint32_t mask = low_bits(place_.width) << place_.shift;
        const uint32_t word = load_word(head_ + place_.at, place_.bytes);
        store_word(head_ + place_.at, place_.bytes,
                   (word & ~mask) | (value << place_.shift & mask));
    }

  private:
    std::byte* head_;
    net::be32* register_;
    Place place_{};
};

// ---------------------------------------------------------------- checksums

/// Sums of what the IPv4 and L4 checksums cover, over the headers that edits write to.
struct HeaderSums {
    uint16_t l3 = 0, l4 = 0;
};

HeaderSums sum_headers(const std::byte* head, const Headers& headers) {
    HeaderSums sums;
    if (headers.ip_version == 0) return sums;
    const bool ipv4 = headers.ip_version == 4;
    net::ChecksumSum l3, l4;
    if (ipv4) l3.add(head + headers.l3, headers.ipv4_ihl * 4u);
    l4.add(head + headers.l3 + (ipv4 ? 12 : 8), ipv4 ? 8 : 32);
    if (headers.l4 != 0) l4.add(head + headers.l4, headers.payload - headers.l4);
    sums.l3 = l3.fold();
    sums.l4 = l4.fold();
    return sums;
}

/// RFC 1624: a checksum that was wrong stays wrong.
uint16_t adjust(uint16_t checksum, uint16_t before, uint16_t after) {
    uint32_t sum = static_cast<uint16_t>(~checksum) + static_cast<uint16_t>(~before) + after;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<uint16_t>(~sum);
}

void update_checksums(std::byte* head, const Headers& headers, const HeaderSums& before) {
    constexpr uint32_t kIpv4Checksum = 10, kTcpChecksum = 16, kUdpChecksum = 6;
    const HeaderSums after = sum_headers(head, headers);
    const auto update = [](std::byte* field, uint16_t old_sum, uint16_t new_sum) {
        if (old_sum != new_sum) store_be(field, adjust(load_be<uint16_t>(field), old_sum, new_sum));
    };
    if (headers.ip_version == 4) update(head + headers.l3 + kIpv4Checksum, before.l3, after.l3);
    if (headers.l4 == 0) return;
    if (headers.ip_proto == net::kProtoTcp) {
        update(head + headers.l4 + kTcpChecksum, before.l4, after.l4);
        return;
    }
    std::byte* const field = head + headers.l4 + kUdpChecksum;
    if (load_be<uint16_t>(field) == 0) return; // none
    update(field, before.l4, after.l4);
    if (load_be<uint16_t>(field) == 0) store_be<uint16_t>(field, 0xffff);
}

} // namespace

// ---------------------------------------------------------------- the packet

Headers RewrittenPacket::parse() {
    return net::parse({head(), std::min(bytes_, net::kParseBytes)}, bytes_, *vxlan_);
}

void RewrittenPacket::remove_front(uint32_t bytes) {
    start_ += bytes;
    bytes_ -= bytes;
}

void RewrittenPacket::put_front(const void* data, uint32_t bytes) {
    start_ -= bytes;
    bytes_ += bytes;
    std::memcpy(head(), data, bytes);
}

/// Removes what precedes the inner frame, or the inner L3 header.
bool RewrittenPacket::decap(const Packet& from, bool has_l2) {
    const Inner inner = from.inner();
    if (inner.at == 0) return false;
    const bool is_frame = inner.type == net::kEtherBridged;
    if (has_l2 && !is_frame) return false;
    remove_front(inner.at);
    if (is_frame && bytes_ < net::kEthernetBytes) return false;
    if (!has_l2 && is_frame) remove_front(parse().l3);
    return true;
}

bool RewrittenPacket::pop_vlan() {
    if (parse().first_tag == 0) return false;
    std::memmove(head() + net::kVlanBytes, head(), kMacs);
    remove_front(net::kVlanBytes);
    return true;
}

void RewrittenPacket::push_vlan(VlanTag tag) {
    std::array<std::byte, kMacs + net::kVlanBytes> front;
    std::memcpy(front.data(), head(), kMacs);
    store_be(front.data() + kMacs, tag.type);
    store_be(front.data() + kMacs + 2, tag.tci);
    remove_front(kMacs);
    put_front(front.data(), static_cast<uint32_t>(front.size()));
}

/// Prepends the tunnel's headers and fills in their lengths.
void RewrittenPacket::encap(const Reformat& reformat) {
    if (reformat.kind == ReformatKind::l2_to_l3_tunnel) remove_front(parse().l3);
    put_front(reformat.headers.data(), static_cast<uint32_t>(reformat.headers.size()));
    if (reformat.kind != ReformatKind::l3_tunnel_to_l2) fill_in_lengths(reformat.headers.size());
}

void RewrittenPacket::fill_in_lengths(size_t header_bytes) {
    constexpr uint32_t kIpv4Length = 2, kIpv4Checksum = 10, kIpv6Length = 4, kUdpLength = 4;
    const Headers headers = net::parse_template({head(), header_bytes});
    std::byte* const l3 = head() + headers.l3;
    const uint32_t l3_bytes = bytes_ - headers.l3;
    if (headers.ip_version == 4) {
        store_be(l3 + kIpv4Length, static_cast<uint16_t>(l3_bytes));
        store_be<uint16_t>(l3 + kIpv4Checksum, 0);
        store_be(l3 + kIpv4Checksum, net::checksum(l3, headers.ipv4_ihl * 4u));
    } else if (headers.ip_version == 6) {
        store_be(l3 + kIpv6Length, static_cast<uint16_t>(l3_bytes - 40));
    }
    if (headers.l4 != 0 && headers.ip_proto == net::kProtoUdp)
        store_be(head() + headers.l4 + kUdpLength, static_cast<uint16_t>(bytes_ - headers.l4));
}

/// `edit_of`: returns an element's edit.
template <class Elements, class Projection>
void RewrittenPacket::edit(const Elements& elements, Projection edit_of) {
    const Headers headers = parse();
    const HeaderSums before = sum_headers(head(), headers);
    for (const auto& element : elements) {
        const HeaderEdit& edit = std::invoke(edit_of, element);
        FieldAccess to(edit.to.field, head(), headers, meta_);
        if (!to.exists()) continue;
        uint32_t value = edit.value;
        if (edit.kind == HeaderEdit::Kind::add) {
            to.write(to.read() + value);
            continue;
        }
        if (edit.kind == HeaderEdit::Kind::copy) {
            const FieldAccess from(edit.from.field, head(), headers, meta_);
            if (!from.exists()) continue;
            value = from.read() >> edit.from.offset;
        }
        const uint32_t mask = low_bits(edit.to.length) << edit.to.offset;
        to.write((to.read() & ~mask) | (value << edit.to.offset & mask));
    }
    update_checksums(head(), headers, before);
}

bool RewrittenPacket::begin(const Packet& from, const MetaKey& meta) {
    if (from.bytes() > kMaxFrame) return false;
    start_ = kHeadroom;
    bytes_ = from.bytes();
    meta_ = meta;
    vxlan_ = &from.vxlan_ports();
    copy_front(from.pieces(), head(), bytes_);
    return true;
}

void RewrittenPacket::finish() {
    piece_ = {head(), bytes_};
    packet_.emplace(std::span<const iovec>(&piece_, 1), bytes_, meta_, *vxlan_);
}

bool RewrittenPacket::make(const Packet& from, const Rewrite& rewrite, const MetaKey& meta) {
    if (!rewrite.any()) {
        packet_.emplace(from.pieces(), from.bytes(), meta, from.vxlan_ports());
        return true;
    }
    if (!begin(from, meta)) return false;

    const bool from_l3 =
        rewrite.reformat && rewrite.reformat->kind == ReformatKind::l3_tunnel_to_l2;
    if ((rewrite.decap || from_l3) && !decap(from, rewrite.decap)) return false;
    if (from_l3) encap(*rewrite.reformat);
    for (uint8_t i = 0; i < rewrite.pop_vlans; i++)
        if (!pop_vlan()) return false;
    if (rewrite.edits) edit(rewrite.edits->edits, std::identity());
    for (uint8_t i = 0; i < rewrite.push_vlans; i++)
        push_vlan(rewrite.vlans[i]);
    if (rewrite.reformat && !from_l3) encap(*rewrite.reformat);
    finish();
    return true;
}

// ---------------------------------------------------------------- steps

/// Empty: the packet has no such header.
std::optional<uint32_t> RewrittenPacket::place_of(Anchor anchor) {
    if (anchor == Anchor::start) return 0;
    if (bytes_ < net::kEthernetBytes) return {};
    const Headers headers = parse();
    if (anchor == Anchor::l3) return headers.l3;
    if (anchor == Anchor::first_vlan) {
        if (headers.first_tag == 0) return {};
        return kMacs;
    }
    FlowKey key;
    const std::span<const std::byte> view{head(), std::min(bytes_, net::kParseBytes)};
    const Inner inner = extract(headers, view, bytes_, key);
    const bool is_frame = inner.type == net::kEtherBridged;
    if (inner.at == 0 || inner.at > view.size()) return {};
    if (anchor == Anchor::inner_l2 || !is_frame) {
        if (anchor == Anchor::inner_l2 && !is_frame) return {};
        return inner.at;
    }
    const uint32_t left = bytes_ - inner.at;
    if (left < net::kEthernetBytes) return {};
    const std::span<const std::byte> frame{head() + inner.at, std::min(left, net::kParseBytes)};
    return inner.at + net::parse(frame, left).l3;
}

bool RewrittenPacket::remove(uint32_t at, uint32_t bytes) {
    if (at > bytes_ || bytes > bytes_ - at) return false;
    std::memmove(head() + bytes, head(), at);
    remove_front(bytes);
    return true;
}

bool RewrittenPacket::insert(uint32_t at, std::span<const std::byte> data) {
    if (at > bytes_ || data.size() > start_) return false;
    const std::byte* const before = head();
    start_ -= static_cast<uint32_t>(data.size());
    bytes_ += static_cast<uint32_t>(data.size());
    std::memmove(head(), before, at);
    std::memcpy(head() + at, data.data(), data.size());
    return true;
}

bool RewrittenPacket::take(const HeaderStep& step) {
    const auto from = place_of(step.from);
    if (!from) return false;
    const uint32_t at = *from + step.offset;
    switch (step.kind) {
    case HeaderStep::Kind::edit: break;
    case HeaderStep::Kind::remove:
        // Tags only, where it begins with one.
        if (step.from == Anchor::first_vlan && at + step.bytes + 2u > parse().l3) return false;
        return remove(at, step.bytes);
    case HeaderStep::Kind::remove_to: {
        const auto to = place_of(step.to);
        return to && *to >= at && remove(at, *to - at);
    }
    case HeaderStep::Kind::insert: return insert(at, std::span(step.data).first(step.bytes));
    case HeaderStep::Kind::encap:
        if (!insert(at, step.reformat->headers)) return false;
        if (at == 0) fill_in_lengths(step.reformat->headers.size());
        return true;
    }
    return false;
}

bool RewrittenPacket::make(const Packet& from, std::span<const HeaderStep> steps,
                           const MetaKey& meta) {
    if (steps.empty()) return make(from, Rewrite{}, meta);
    if (!begin(from, meta)) return false;
    const auto is_edit = [](const HeaderStep& step) { return step.kind == HeaderStep::Kind::edit; };
    while (!steps.empty()) {
        if (!is_edit(steps.front())) {
            if (!take(steps.front())) return false;
            steps = steps.subspan(1);
            continue;
        }
        // Consecutive edits are made together, so that checksums are updated only once.
        const auto end = std::ranges::find_if_not(steps, is_edit);
        const auto count = static_cast<size_t>(end - steps.begin());
        if (bytes_ < net::kEthernetBytes) return false;
        edit(steps.first(count), &HeaderStep::edit);
        steps = steps.subspan(count);
    }
    if (bytes_ < net::kEthernetBytes || bytes_ > kMaxFrame) return false;
    finish();
    return true;
}

} // namespace softhca::core
