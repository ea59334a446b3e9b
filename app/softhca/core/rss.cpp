// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/rss.hpp"

#include <cstring>

namespace softhca::core {
namespace {

constexpr uint8_t kHashSrcIp = 1u << 2, kHashDstIp = 1u << 3;
constexpr uint8_t kHashSrcPort = 1u << 6, kHashDstPort = 1u << 7;
static_assert((kHashSrcIp | kHashDstIp) == mlx5::kHashIp);
static_assert((kHashSrcPort | kHashDstPort) == mlx5::kHashL4);

/// The hash input: selected fields, one after the other.
class HashInput {
  public:
    void add(bool selected, uint8_t type_bit, const std::byte* field, size_t bytes) {
        if (!selected) return;
        std::memcpy(bytes_.data() + size_, field, bytes);
        size_ += bytes;
        type_ |= type_bit;
    }
    [[nodiscard]] std::span<const uint8_t> bytes() const { return {bytes_.data(), size_}; }
    [[nodiscard]] uint8_t type() const { return type_; }

  private:
    std::array<uint8_t, net::kRssMaxInput> bytes_;
    size_t size_ = 0;
    uint8_t type_ = 0;
};

void hash_packet(const Tir& tir, const net::Headers& headers, const std::byte* head,
                 Target& target) {
    const HashFields& fields = tir.fields;
    const bool l3 = headers.ip_version != 0 &&
                    (fields.ip_version == 0 || fields.ip_version == headers.ip_version);
    if (!l3) return;
    HashInput input;
    const std::byte* const ip = head + headers.l3;
    const size_t address_bytes = headers.ip_version == 4 ? 4 : 16;
    const std::byte* const addresses = ip + (headers.ip_version == 4 ? 12 : 8);
    input.add(fields.src_ip, kHashSrcIp, addresses, address_bytes);
    input.add(fields.dst_ip, kHashDstIp, addresses + address_bytes, address_bytes);
    // Fragments hash without ports, so that all of a packet's fragments meet in one queue.
    if (headers.l4 != 0 && !headers.fragment && (fields.l4 == 0 || fields.l4 == headers.ip_proto)) {
        input.add(fields.src_port, kHashSrcPort, head + headers.l4, 2);
        input.add(fields.dst_port, kHashDstPort, head + headers.l4 + 2, 2);
    }
    target.hash = tir.toeplitz->hash(input.bytes());
    target.hash_type = input.type();
}

} // namespace

Target select_target(const Tir& tir, const Packet& packet) {
    Target target{.inner = tir.tunnels && packet.headers().inner != 0};
    if (tir.toeplitz) {
        if (target.inner && tir.hash_inner)
            hash_packet(tir, packet.inner_headers(), packet.head(), target);
        else
            hash_packet(tir, packet.headers(), packet.head(), target);
    }
    if (tir.rqt)
        target.rq = tir.rqt->entries[target.hash & (tir.rqt->entries.size() - 1)];
    else
        target.rq = tir.rq;
    return target;
}

} // namespace softhca::core
