// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/rss.hpp"

#include <cstring>

namespace softhca::core {
namespace {

static_assert(kHashDstIp == kHashSrcIp << 1 && kHashDstPort == kHashSrcPort << 1);
constexpr size_t kSpiBytes = 4;

/// The hash input: selected fields, one after the other.
class HashInput {
  public:
    explicit HashInput(bool symmetric) : symmetric_(symmetric) {}

    /// Adds a source field and the destination field after it. `type_bit` is the source's; the next
    /// one is the destination's. In symmetric mode they are combined as ethtool's symmetric-or-xor,
    /// which Linux says the device does.
    void add_pair(bool source, bool destination, uint8_t type_bit, const std::byte* fields,
                  size_t bytes) {
        std::byte* const at = bytes_.data() + size_;
        if (source) add(type_bit, fields, bytes);
        if (destination) add(static_cast<uint8_t>(type_bit << 1), fields + bytes, bytes);
        if (!symmetric_ || !source || !destination) return;
        for (size_t i = 0; i < bytes; ++i) {
            at[i] = fields[i] | fields[bytes + i];
            at[bytes + i] = fields[i] ^ fields[bytes + i];
        }
    }
    /// Adds a field that has no counterpart.
    void add(uint8_t type_bit, const std::byte* field, size_t bytes) {
        std::memcpy(bytes_.data() + size_, field, bytes);
        size_ += bytes;
        note(type_bit);
    }
    [[nodiscard]] std::span<const uint8_t> bytes() const {
        return {reinterpret_cast<const uint8_t*>(bytes_.data()), size_};
    }
    void note(uint8_t type_bit) { type_ |= type_bit; }
    [[nodiscard]] uint8_t type() const { return type_; }

  private:
    std::array<std::byte, net::kRssMaxInput> bytes_;
    size_t size_ = 0;
    uint8_t type_ = 0;
    bool symmetric_;
};

/// All bytes XORed, with the bits in reverse order. Linux arranges its indirection table by this
/// order (mlx5e_bits_invert), so that the entry is the plain XOR for it.
uint32_t inverted_xor8(std::span<const uint8_t> input) {
    uint8_t all = 0;
    for (const uint8_t byte : input)
        all ^= byte;
    uint32_t inverted = 0;
    for (int bit = 0; bit < 8; bit++)
        inverted = inverted << 1 | (all >> bit & 1);
    return inverted;
}

/// Where the SPI of ESP or AH is; 0: there is none. In IPv6, AH is an extension, of which the
/// headers do not tell.
uint32_t spi_at(const net::Headers& headers) {
    constexpr uint8_t kProtoAh = 51;
    constexpr uint32_t kInAh = 4;
    if (headers.l3_end == 0 || headers.fragment) return 0;
    if (headers.ip_proto == kProtoEsp) return headers.l3_end;
    return headers.ip_proto == kProtoAh ? headers.l3_end + kInAh : 0;
}

void hash_packet(const Tir& tir, const net::Headers& headers, std::span<const std::byte> head,
                 Target& target) {
    const HashFields& fields = tir.fields;
    const bool l3 = headers.ip_version != 0 &&
                    (fields.ip_version == 0 || fields.ip_version == headers.ip_version);
    if (!l3) return;
    HashInput input(tir.symmetric);
    const std::byte* const ip = &head[headers.l3];
    const size_t address_bytes = headers.ip_version == 4 ? 4 : 16;
    const std::byte* const addresses = ip + (headers.ip_version == 4 ? 12 : 8);
    input.add_pair(fields.src_ip, fields.dst_ip, kHashSrcIp, addresses, address_bytes);
    if (headers.ip_version == 6 && input.type() != 0) input.note(kHashIpv6);
    // Fragments are hashed without ports or SPI, so that all of a packet's fragments go to one
    // queue.
    if (headers.l4 != 0 && !headers.fragment && (fields.l4 == 0 || fields.l4 == headers.ip_proto)) {
        input.add_pair(fields.src_port, fields.dst_port, kHashSrcPort, &head[headers.l4], 2);
        if (headers.ip_proto == net::kProtoUdp && (fields.src_port || fields.dst_port))
            input.note(kHashUdp);
    }
    if (fields.spi)
        if (const uint32_t at = spi_at(headers); at != 0 && at + kSpiBytes <= head.size())
            input.add(kHashSpi, &head[at], kSpiBytes);
    target.hash = tir.xor8 ? inverted_xor8(input.bytes()) : tir.toeplitz->hash(input.bytes());
    target.hash_type = input.type();
}

} // namespace

Target select_target(const Tir& tir, const Frame& frame) {
    Target target{.inner = tir.tunnels && frame.headers().inner != 0};
    if (tir.toeplitz) {
        if (target.inner && tir.hash_inner)
            hash_packet(tir, frame.inner_headers(), frame.view(), target);
        else
            hash_packet(tir, frame.headers(), frame.view(), target);
    }
    if (tir.rqt)
        target.rq = tir.rqt->entries[entry_of(*tir.rqt, target.hash)];
    else
        target.rq = tir.rq;
    return target;
}

} // namespace softhca::core
