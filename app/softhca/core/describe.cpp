// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/describe.hpp"

#include "app/softhca/core/meters.hpp"
#include "app/softhca/core/requests.hpp"
#include "app/softhca/core/rule_table.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <bit>
#include <cstddef>
#include <fmt/format.h>
#include <span>

namespace softhca::core {
namespace {

enum class Style : uint8_t { number, hex, mac, address };

/// The position of a field in its struct.
struct Field {
    const char* name;
    size_t offset;
    size_t bytes;
    Style style = Style::number;
    uint8_t bits = 0; ///< its width, if less than that of the bytes
};

#define FIELD(type, name, ...)                                                                     \
    { #name, offsetof(type, name), sizeof(type::name) __VA_OPT__(, ) __VA_ARGS__ }
constexpr Field kLayer[] = {
    FIELD(LayerKey, dst_mac, Style::mac),
    FIELD(LayerKey, src_mac, Style::mac),
    FIELD(LayerKey, ether_type, Style::hex),
    FIELD(LayerKey, cvlan, Style::number, 1),
    FIELD(LayerKey, svlan, Style::number, 1),
    FIELD(LayerKey, vlan_tci),
    FIELD(LayerKey, second_cvlan, Style::number, 1),
    FIELD(LayerKey, second_svlan, Style::number, 1),
    FIELD(LayerKey, second_tci),
    FIELD(LayerKey, ip_version, Style::number, 4),
    FIELD(LayerKey, src_ip, Style::address),
    FIELD(LayerKey, dst_ip, Style::address),
    FIELD(LayerKey, ip_proto),
    FIELD(LayerKey, tos, Style::hex),
    FIELD(LayerKey, ttl),
    FIELD(LayerKey, ip_fragment, Style::number, 1),
    FIELD(LayerKey, ipv4_ihl, Style::number, 4),
    FIELD(LayerKey, flow_label, Style::hex, 20),
    FIELD(LayerKey, l4),
    FIELD(LayerKey, src_port),
    FIELD(LayerKey, dst_port),
    FIELD(LayerKey, tcp_flags, Style::hex, 9),
    FIELD(LayerKey, tcp_sequence),
    FIELD(LayerKey, tcp_ack),
    FIELD(LayerKey, integrity, Style::hex, 4),
};
constexpr Field kTunnel[] = {
    FIELD(TunnelKey, gre_checksum, Style::number, 1),
    FIELD(TunnelKey, gre_has_key, Style::number, 1),
    FIELD(TunnelKey, gre_sequence, Style::number, 1),
    FIELD(TunnelKey, gre_protocol, Style::hex),
    FIELD(TunnelKey, gre_key),
    FIELD(TunnelKey, vxlan_vni, Style::number, 24),
    FIELD(TunnelKey, gpe_vni, Style::number, 24),
    FIELD(TunnelKey, gpe_protocol),
    FIELD(TunnelKey, gpe_flags, Style::hex),
    FIELD(TunnelKey, geneve_vni, Style::number, 24),
    FIELD(TunnelKey, geneve_protocol, Style::hex),
    FIELD(TunnelKey, geneve_oam, Style::number, 1),
    FIELD(TunnelKey, geneve_options, Style::number, 6),
    FIELD(TunnelKey, gtpu_teid),
    FIELD(TunnelKey, gtpu_type),
    FIELD(TunnelKey, gtpu_flags, Style::hex),
    FIELD(TunnelKey, esp_spi),
    FIELD(TunnelKey, mpls, Style::hex),
    FIELD(TunnelKey, inner_mpls, Style::hex),
    FIELD(TunnelKey, mpls_over_gre, Style::hex),
    FIELD(TunnelKey, mpls_over_udp, Style::hex),
    FIELD(TunnelKey, icmp_type),
    FIELD(TunnelKey, icmp_code),
    FIELD(TunnelKey, icmp_data, Style::hex),
    FIELD(TunnelKey, icmpv6_type),
    FIELD(TunnelKey, icmpv6_code),
    FIELD(TunnelKey, icmpv6_data, Style::hex),
};
constexpr Field kMeta[] = {
    FIELD(MetaKey, reg_a, Style::hex),
    FIELD(MetaKey, source_sqn),
};
#undef FIELD

using Bytes = std::span<const uint8_t>;

/// The bytes of a field in a key.
Bytes bytes_of(const FlowKey& key, size_t offset, size_t bytes) {
    return Bytes(reinterpret_cast<const uint8_t*>(&key), sizeof key).subspan(offset, bytes);
}

bool all(Bytes bytes, uint8_t value) {
    return std::ranges::all_of(bytes, [=](uint8_t byte) { return byte == value; });
}

uint64_t number_in(Bytes bytes) {
    uint64_t number = 0;
    for (const uint8_t byte : bytes)
        number = number << 8 | byte;
    return number;
}

std::string mac(Bytes bytes) { return fmt::format("{:02x}", fmt::join(bytes, ":")); }

std::string address(Bytes bytes) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    inet_ntop(bytes.size() == 4 ? AF_INET : AF_INET6, bytes.data(), text.data(), text.size());
    return text.data();
}

/// Length of a mask that is a prefix, or empty.
std::optional<int> prefix_length(Bytes mask) {
    int length = 0;
    for (const uint8_t byte : mask)
        length += std::countl_one(byte);
    int rest = length;
    for (const uint8_t byte : mask) {
        const int here = std::clamp(rest, 0, 8);
        if (byte != static_cast<uint8_t>(0xff00 >> here)) return {};
        rest -= here;
    }
    return length;
}

/// `ip_version`: 0 if not known; short addresses count as IPv4 then.
std::string masked_address(Bytes value, Bytes mask, uint8_t ip_version) {
    constexpr size_t kBefore = 12; // of an IPv4 address
    const bool is_short = all(value.first(kBefore), 0) && all(mask.first(kBefore), 0);
    if (ip_version == 4 || (ip_version == 0 && is_short)) {
        value = value.subspan(kBefore);
        mask = mask.subspan(kBefore);
    }
    if (all(mask, 0xff)) return address(value);
    const auto length = prefix_length(mask);
    return address(value) +
           (length ? fmt::format("/{}", *length) : fmt::format("&{}", address(mask)));
}

bool is_whole(const Field& field, Bytes mask) {
    if (field.bits == 0) return all(mask, 0xff);
    const uint64_t every_bit = (uint64_t{1} << field.bits) - 1;
    return (number_in(mask) & every_bit) == every_bit;
}

std::string text_of(const Field& field, Bytes value, Bytes mask, uint8_t ip_version) {
    if (field.style == Style::address) return masked_address(value, mask, ip_version);
    const bool whole = is_whole(field, mask);
    if (field.style == Style::mac)
        return whole ? mac(value) : fmt::format("{}&{}", mac(value), mac(mask));
    const uint64_t number = number_in(value);
    std::string text =
        field.style == Style::hex ? fmt::format("{:#x}", number) : fmt::format("{}", number);
    return whole ? text : fmt::format("{}&{:#x}", text, number_in(mask));
}

class Describer {
  public:
    Describer(const FlowKey& value, const FlowKey& mask) : value_(value), mask_(mask) {}

    void add(std::span<const Field> fields, size_t base, const char* before = "",
             uint8_t ip_version = 0) {
        for (const Field& field : fields)
            add(field, base, fmt::format("{}{}", before, field.name), ip_version);
    }
    void add(const Field& field, size_t base, std::string name, uint8_t ip_version = 0) {
        const Bytes mask = bytes_of(mask_, base + field.offset, field.bytes);
        if (all(mask, 0)) return;
        const Bytes value = bytes_of(value_, base + field.offset, field.bytes);
        texts_.emplace_back(std::move(name), text_of(field, value, mask, ip_version));
    }
    [[nodiscard]] FieldTexts take() { return std::move(texts_); }

  private:
    const FlowKey& value_;
    const FlowKey& mask_;
    FieldTexts texts_;
};

constexpr size_t kRegisters = std::extent_v<decltype(MetaKey::reg_c)>;

std::string name_of(EditField field) {
    static constexpr const char* kNames[] = {
        "src_mac_high", "src_mac_low",    "ether_type", "dst_mac_high", "dst_mac_low",
        "vlan_type",    "vlan_tci",       "vlan_id",    "ip_dscp",      "ip_ecn",
        "ipv4_ttl",     "ipv6_hop_limit", "src_ipv4",   "dst_ipv4",
    };
    static constexpr const char* kLast[] = {"tcp_flags",    "tcp_src_port", "tcp_dst_port",
                                            "tcp_sequence", "tcp_ack",      "udp_src_port",
                                            "udp_dst_port", "reg_a",        "reg_b"};
    static_assert(std::size(kNames) == static_cast<size_t>(EditField::src_ipv6));
    static_assert(std::size(kLast) == static_cast<size_t>(EditField::reg_c) -
                                          static_cast<size_t>(EditField::tcp_flags));
    if (field < EditField::src_ipv6) return kNames[static_cast<size_t>(field)];
    const auto after = [&](EditField first) {
        return static_cast<unsigned>(field) - static_cast<unsigned>(first);
    };
    if (field < EditField::dst_ipv6) return fmt::format("src_ipv6[{}]", after(EditField::src_ipv6));
    if (field < EditField::tcp_flags)
        return fmt::format("dst_ipv6[{}]", after(EditField::dst_ipv6));
    if (field < EditField::reg_c) return kLast[after(EditField::tcp_flags)];
    return fmt::format("reg_c{}", after(EditField::reg_c));
}

std::string text_of(const FieldPart& part) {
    if (part.offset == 0 && part.length == 32) return name_of(part.field);
    return fmt::format("{}[{}:{}]", name_of(part.field), part.offset + part.length - 1,
                       part.offset);
}

} // namespace

FieldTexts describe_fields(const FlowKey& value, const FlowKey& mask) {
    Describer texts(value, mask);
    texts.add(kLayer, offsetof(FlowKey, outer), "", value.outer.ip_version);
    texts.add(kTunnel, offsetof(FlowKey, tunnel));
    texts.add(kLayer, offsetof(FlowKey, inner), "inner.", value.inner.ip_version);
    texts.add(kMeta, offsetof(FlowKey, meta));
    for (size_t i = 0; i < kRegisters; i++)
        texts.add({"", offsetof(MetaKey, reg_c) + 4 * i, 4, Style::hex}, offsetof(FlowKey, meta),
                  fmt::format("reg_c{}", i));
    return texts.take();
}

std::string joined(const FieldTexts& fields) {
    std::string text;
    for (const auto& [name, value] : fields)
        text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
    return text;
}

std::string describe_packet(const FlowKey& key) {
    FieldTexts fields = describe_fields(key, every_bit());
    std::erase_if(fields, [](const auto& field) {
        return field.second.find_first_not_of("0x.:") == std::string::npos;
    });
    return joined(fields);
}

/// For one layer, whose integrity is known.
static void add_wrong(const LayerKey& layer, const char* where, std::vector<std::string>& wrong) {
    const auto is_sound = [&](uint8_t what) { return (layer.integrity & what) != 0; };
    if (layer.ip_version == 0) return;
    if (!is_sound(Integrity::kL3)) { // no layer's end is known
        wrong.push_back(fmt::format("IP length{}", where));
        return;
    }
    if (layer.ip_version == 4 && !is_sound(Integrity::kIpv4Checksum))
        wrong.push_back(fmt::format("IPv4 checksum{}", where));
    if (layer.l4 == 0 || layer.ip_fragment != 0) return;
    const char* const proto = layer.l4 == net::kProtoTcp ? "TCP" : "UDP";
    if (!is_sound(Integrity::kL4))
        wrong.push_back(fmt::format("{} length{}", proto, where));
    else if (!is_sound(Integrity::kL4Checksum))
        wrong.push_back(fmt::format("{} checksum{}", proto, where));
}

std::string describe_wrong(const Packet& packet) {
    const FlowKey& key = packet.verified_key();
    std::vector<std::string> wrong;
    add_wrong(key.outer, "", wrong);
    add_wrong(key.inner, " in the tunnel", wrong);
    return fmt::format("{}", fmt::join(wrong, ", "));
}

std::string hex(std::span<const std::byte> bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    text.reserve(2 * bytes.size());
    for (const std::byte byte : bytes) {
        text += kDigits[std::to_integer<size_t>(byte >> 4)];
        text += kDigits[std::to_integer<size_t>(byte & std::byte{0xf})];
    }
    return text;
}

const char* text_of(FlowDomain domain) {
    switch (domain) {
    case FlowDomain::sniffer: return "sniffer";
    case FlowDomain::bypass: return "bypass";
    case FlowDomain::leftovers: return "leftovers";
    case FlowDomain::egress: return "egress";
    }
    return "?";
}

const char* text_of(FlowRoot root) {
    switch (root) {
    case FlowRoot::receive: return "receive";
    case FlowRoot::transmit: return "transmit";
    case FlowRoot::sniff_received: return "sniff_received";
    case FlowRoot::sniff_sent: return "sniff_sent";
    }
    return "?";
}

const char* text_of(QueueState state) {
    switch (state) {
    case QueueState::reset: return "reset";
    case QueueState::ready: return "ready";
    case QueueState::error: return "error";
    }
    return "?";
}

const char* text_of(VirtqState state) {
    switch (state) {
    case VirtqState::init: return "init";
    case VirtqState::ready: return "ready";
    case VirtqState::suspended: return "suspended";
    case VirtqState::error: return "error";
    }
    return "?";
}

const char* text_of(VirtqFault fault) {
    switch (fault) {
    case VirtqFault::none: return "none";
    case VirtqFault::bad_descriptor: return "bad descriptor or index";
    case VirtqFault::invalid_buffer: return "invalid buffer";
    case VirtqFault::chain_too_long: return "chain too long";
    case VirtqFault::no_ring: return "no memory where the ring is";
    case VirtqFault::injected: return "injected";
    }
    return "?";
}

const char* text_of(ReformatKind kind) {
    switch (kind) {
    case ReformatKind::l2_to_l2_tunnel: return "l2_to_l2_tunnel";
    case ReformatKind::l2_to_l3_tunnel: return "l2_to_l3_tunnel";
    case ReformatKind::l3_tunnel_to_l2: return "l3_tunnel_to_l2";
    }
    return "?";
}

const char* text_of(Color color) {
    switch (color) {
    case Color::red: return "red";
    case Color::yellow: return "yellow";
    case Color::green: return "green";
    case Color::undefined: return "undefined";
    }
    return "?";
}

const char* text_of(MeterMode mode) {
    switch (mode) {
    case MeterMode::ip_bytes: return "ip_bytes";
    case MeterMode::l2_bytes: return "l2_bytes";
    case MeterMode::wire_bytes: return "wire_bytes";
    case MeterMode::packets: return "packets";
    }
    return "?";
}

std::string describe_metering(const Metering& metering) {
    return fmt::format("meter {} of pair {}, color into reg_c{}", metering.meter,
                       metering.pair->number, metering.reg_c);
}

const char* text_of(SendFault fault) {
    switch (fault) {
    case SendFault::none: return "none";
    case SendFault::bad_ds: return "its size is 0, or more than is posted";
    case SendFault::bad_opcode: return "unknown opcode";
    case SendFault::bad_index: return "it says another place in the ring than its own";
    case SendFault::bad_qpn: return "it says another queue than its own";
    case SendFault::bad_eth_segment: return "Ethernet segment cut off, or inline header too long";
    case SendFault::bad_inline_data: return "inline data beyond the request";
    case SendFault::no_data: return "nothing to send";
    case SendFault::bad_tso: return "TSO without TCP header, or with MSS 0";
    case SendFault::doorbell_jump: return "the doorbell moved by more than the ring holds";
    case SendFault::protection: return "lkey unknown, of another PD, or range not covered";
    case SendFault::too_long: return "more bytes than a message may have";
    case SendFault::bad_remote: return "RDMA without an address";
    case SendFault::remote_access:
        return "rkey unknown, of another PD, without that right, or range not covered";
    case SendFault::no_meters: return "no such meters, or of another PD";
    case SendFault::bad_meter_write:
        return "meters are not written in that way, or on that condition";
    case SendFault::bad_condition: return "it waits for something that is not known here";
    case SendFault::no_queue:
        return "no such CQ to wait for, or no such managed SQ in its PD to enable";
    case SendFault::off_wire: return "the queue was created not to send packets";
    case SendFault::no_argument: return "no such argument of header edits, or of another PD";
    case SendFault::bad_key_change: return "memory keys are not changed in that way";
    case SendFault::no_key: return "no such key or PD, or the key is free and should not be";
    case SendFault::injected: return "on request (softhca fault)";
    }
    return "?";
}

const char* text_of(ReceiveFault fault) {
    switch (fault) {
    case ReceiveFault::none: return "none";
    case ReceiveFault::doorbell_jump: return "the doorbell moved by more than the ring holds";
    case ReceiveFault::protection:
        return "lkey unknown, of another PD, not writable, or range not covered";
    case ReceiveFault::too_short: return "the packet is longer than the scatter list";
    case ReceiveFault::injected: return "on request (softhca fault)";
    }
    return "?";
}

std::span<const CounterName> port_counters() {
#define COUNTER(name, ...)                                                                         \
    { #name, &PortCounters::name __VA_OPT__(, ) __VA_ARGS__ }
    static constexpr CounterName kCounters[] = {
        COUNTER(wire_rx_packets),
        COUNTER(wire_rx_bytes),
        COUNTER(wire_tx_packets),
        COUNTER(wire_tx_bytes),
        COUNTER(wire_rx_split),
        COUNTER(wire_tx_merged),
        COUNTER(loopback_packets),
        COUNTER(loopback_bytes),
        COUNTER(delivered),
        COUNTER(kernel_rx_packets),
        COUNTER(kernel_tx_packets),
        COUNTER(drop_out_of_buffer, "the RQ has no WQE for it, or its CQ is full"),
        COUNTER(drop_no_match, "no rule takes it, and no kernel netdev"),
        COUNTER(drop_rule, "a rule says so"),
        COUNTER(drop_oversize, "longer than the port's MTU allows"),
        COUNTER(drop_undersize, "shorter than an Ethernet header"),
        COUNTER(drop_queue_not_ready, "the RQ is in reset or in error"),
        COUNTER(drop_rx_error, "its receive WQE is faulty"),
        COUNTER(drop_self_loopback, "who sent it does not hear itself"),
        COUNTER(drop_link_down, "the link is down"),
        COUNTER(drop_kernel, "the kernel netdev refused it"),
        COUNTER(drop_rewrite, "it lacks the tunnel or tag that a rule takes off"),
        COUNTER(drop_rule_loop, "rules lead it through too many tables or entries"),
        COUNTER(drop_tx_rule, "a rule for what is sent says so"),
        COUNTER(drop_tx_hairpin, "the hairpin queue that held it was reset"),
        COUNTER(drop_tx_wire, "the wire refused it"),
        COUNTER(drop_tx_oversize, "longer than the port's MTU allows"),
        COUNTER(tx_error_wqes),
        COUNTER(link_downs),
    };
#undef COUNTER
    static_assert(std::size(kCounters) == sizeof(PortCounters) / sizeof(uint64_t));
    return kCounters;
}

std::string describe_rewrite(const Rewrite& rewrite) {
    std::vector<std::string> steps;
    if (rewrite.decap) steps.emplace_back("decap");
    const bool ends = rewrite.reformat && rewrite.reformat->kind == ReformatKind::l3_tunnel_to_l2;
    const auto reformat = [&] {
        steps.push_back(fmt::format("reformat {} ({}, {} bytes)", rewrite.reformat->number,
                                    text_of(rewrite.reformat->kind),
                                    rewrite.reformat->headers.size()));
    };
    if (ends) reformat();
    if (rewrite.pop_vlans) steps.push_back(fmt::format("pop {} VLAN", rewrite.pop_vlans));
    if (rewrite.edits) steps.push_back(fmt::format("header edits {}", rewrite.edits->number));
    for (size_t i = 0; i < rewrite.push_vlans; i++)
        steps.push_back(
            fmt::format("push VLAN {:#06x}:{}", rewrite.vlans[i].type, rewrite.vlans[i].tci));
    if (rewrite.reformat && !ends) reformat();
    return fmt::format("{}", fmt::join(steps, ", "));
}

std::string describe_edit(const HeaderEdit& edit) {
    switch (edit.kind) {
    case HeaderEdit::Kind::set: return fmt::format("set {} = {:#x}", text_of(edit.to), edit.value);
    case HeaderEdit::Kind::add: return fmt::format("add {:#x} to {}", edit.value, text_of(edit.to));
    case HeaderEdit::Kind::copy:
        return fmt::format("copy {} to {}", text_of(edit.from), text_of(edit.to));
    }
    return "?";
}

} // namespace softhca::core
