// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/frame_kinds.hpp"

namespace softhca::core {
namespace {

void add(FlowCounts& counts, uint32_t bytes) {
    counts.packets++;
    counts.bytes += bytes;
}

} // namespace

void count_rare(std::span<const iovec> pieces, uint32_t bytes, const RareKinds& kinds) {
    constexpr size_t kMacBytes = 6, kTypeAt = net::kEthernetBytes - 2;
    std::array<std::byte, net::kEthernetBytes + net::kVlanBytes> head{};
    copy_front(pieces, head.data(), std::min<uint32_t>(bytes, head.size()));
    const bool group = (head[0] & std::byte{1}) != std::byte{0};
    if (group) {
        const bool all = std::all_of(head.begin(), head.begin() + kMacBytes,
                                     [](std::byte byte) { return byte == std::byte{0xff}; });
        add(all ? kinds.broadcast : kinds.multicast, bytes);
    }
    if (!kinds.tagged || net::load_be<uint16_t>(&head[kTypeAt]) != net::kEtherVlan) return;
    constexpr int kPcpShift = 13;
    add((*kinds.tagged)[net::load_be<uint16_t>(&head[net::kEthernetBytes]) >> kPcpShift], bytes);
}

} // namespace softhca::core
