// SPDX-License-Identifier: BSD-3-Clause
// gen: UDP/IPv4 frames with correct checksums, as fast as the device takes them or at a set rate.
#include "app/softhca/wire/frame.hpp"
#include "app/softhca/wire/wires.hpp"
#include "common/net/endian.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace softhca::wire {
namespace {

using net::be16;
using net::be32;

/// Ethernet II, IPv4 (RFC 791), UDP (RFC 768), and a sequence number in the payload that shows loss
/// and order. Two bytes in front of it align the IP header and with it every field.
struct GeneratedFrame {
    std::array<uint8_t, 2> unused;
    std::array<uint8_t, 6> dst_mac;
    std::array<uint8_t, 6> src_mac;
    be16 ether_type;
    uint8_t version_ihl;
    uint8_t tos;
    be16 total_length;
    be16 id;
    be16 fragment;
    uint8_t ttl;
    uint8_t protocol;
    be16 ip_checksum;
    be32 src_ip;
    be32 dst_ip;
    be16 src_port;
    be16 dst_port;
    be16 udp_length;
    be16 udp_checksum;
    be32 sequence_high; ///< 64 bits, 0 for the first frame
    be32 sequence_low;
};
constexpr size_t kFrameStart = offsetof(GeneratedFrame, dst_mac);
static_assert(sizeof(GeneratedFrame) == kFrameStart + 14 + 20 + 8 + 8);

constexpr uint32_t kIpHeader = 20;
constexpr uint32_t kFirstSource =
    0xc6120001; // 198.18.0.1: 198.18.0.0/15 is for benchmarks (RFC 2544)
constexpr uint32_t kDestination = 0xc6130001; // 198.19.0.1
constexpr uint16_t kFirstPort = 1024, kPortsPerAddress = 1024, kDiscardPort = 9;

/// Sum of 16-bit words for the internet checksum (RFC 1071), not yet folded.
constexpr uint64_t words(uint64_t value) {
    return (value & 0xffff) + (value >> 16 & 0xffff) + (value >> 32 & 0xffff) + (value >> 48);
}
constexpr uint16_t checksum(uint64_t sum) {
    sum = words(sum);
    sum = (sum & 0xffff) + (sum >> 16);
    return uint16_t(~sum);
}

class GenWire final : public Wire {
  public:
    GenWire(const GenSpec& spec, const OpenOptions& options) : spec_(spec) {
        const auto ip_length = uint16_t(spec.size - kEthernetHeader);
        const auto udp_length = uint16_t(ip_length - kIpHeader);
        frame() = {.unused = {},
                   .dst_mac = options.mac,
                   .src_mac = {0x02, 0x5c, 'g', 'e', 'n', 0},
                   .ether_type = 0x0800,
                   .version_ihl = 0x45,
                   .tos = 0,
                   .total_length = ip_length,
                   .id = 0,
                   .fragment = 0x4000, // don't fragment
                   .ttl = 64,
                   .protocol = 17,
                   .ip_checksum = 0,
                   .src_ip = 0,
                   .dst_ip = kDestination,
                   .src_port = 0,
                   .dst_port = kDiscardPort,
                   .udp_length = udp_length,
                   .udp_checksum = 0,
                   .sequence_high = 0,
                   .sequence_low = 0};
        ip_sum_ = 0x4500 + ip_length + 0x4000 + (64 << 8 | 17) + words(kDestination);
        udp_sum_ = words(kDestination) + 17 + 2 * uint64_t{udp_length} + kDiscardPort;
        fill();
    }

    std::span<const std::byte> peek() override {
        if (sequence_ == end_) return {};
        if (spec_.rate && sequence_ >= due_ && !more_due()) return {};
        return {bytes_.data() + kFrameStart, spec_.size};
    }
    void pop() override {
        ++sequence_;
        if (++flow_ == spec_.flows) flow_ = 0;
        fill();
    }
    std::span<const std::byte> preview() const override {
        return {bytes_.data() + kFrameStart, spec_.size};
    }
    void start() override {
        if (end_) return;
        end_ = spec_.count ? spec_.count : UINT64_MAX;
        start_ = Clock::now();
    }
    SendResult send(const OutFrame&) override { return SendResult::sent; }

  private:
    using Clock = std::chrono::steady_clock;

    GeneratedFrame& frame() { return *reinterpret_cast<GeneratedFrame*>(bytes_.data()); }

    /// Writes what differs from frame to frame.
    void fill() {
        const uint32_t src_ip = kFirstSource + flow_ / kPortsPerAddress;
        const auto src_port = uint16_t(kFirstPort + flow_ % kPortsPerAddress);
        frame().src_ip = src_ip;
        frame().src_port = src_port;
        frame().sequence_high = uint32_t(sequence_ >> 32);
        frame().sequence_low = uint32_t(sequence_);
        frame().ip_checksum = checksum(ip_sum_ + words(src_ip));
        const uint16_t udp = checksum(udp_sum_ + words(src_ip) + src_port + words(sequence_));
        frame().udp_checksum = udp ? udp : uint16_t{0xffff}; // 0 would say "no checksum"
    }

    /// How many frames may have left by now. A late reader gets what it missed.
    bool more_due() {
        const std::chrono::duration<double> elapsed = Clock::now() - start_;
        due_ = uint64_t(elapsed.count() * double(spec_.rate));
        return sequence_ < due_;
    }

    GenSpec spec_;
    uint64_t sequence_ = 0;
    uint64_t end_ = 0; ///< of the sequence; 0 until start()
    uint32_t flow_ = 0;
    uint64_t ip_sum_ = 0, udp_sum_ = 0; ///< of the fields that stay the same
    uint64_t due_ = 0;
    Clock::time_point start_;
    alignas(GeneratedFrame) std::array<std::byte, kFrameStart + kMaxFrame> bytes_{};
};

} // namespace

OpenedWire open_gen(const GenSpec& spec, const OpenOptions& options) {
    const uint32_t longest = options.mtu + kEthernetHeader;
    if (spec.size > longest)
        return fail(EMSGSIZE, "wire gen: size={}: a port with mtu={} takes frames up to {} bytes",
                    spec.size, options.mtu, longest);
    return std::make_unique<GenWire>(spec, options);
}

} // namespace softhca::wire
