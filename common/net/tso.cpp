// SPDX-License-Identifier: BSD-3-Clause
#include "common/net/tso.hpp"

#include "common/net/endian.hpp"
#include "common/net/ip.hpp"

#include <cstring>

namespace net {
namespace {

constexpr uint32_t kIpv4Id = 4, kUdpLength = 4, kTcpSequence = 4, kTcpFlags = 13;

/// For the segment `index`, which ends `end` bytes after the start of the frame.
void write_ip(std::byte* to, const Headers& headers, uint32_t index, uint32_t end) {
    write_ip_length(to, headers, end);
    if (headers.ip_version != 4) return;
    std::byte* const id = to + headers.l3 + kIpv4Id;
    store_be(id, static_cast<uint16_t>(load_be<uint16_t>(id) + index));
}

} // namespace

void TsoHeader::write(std::byte* to, uint32_t index, uint32_t offset, uint32_t bytes,
                      bool last) const {
    std::memcpy(to, header_.data(), header_.size());
    const uint32_t end = this->bytes() + bytes;
    write_ip(to, tcp_, index, end);
    if (outer_.inner != 0) {
        write_ip(to, outer_, index, end);
        if (outer_.l4 != 0) // UDP; GRE and IP in IP have no length
            store_be(to + outer_.l4 + kUdpLength, static_cast<uint16_t>(end - outer_.l4));
    }
    std::byte* const tcp = to + tcp_.l4;
    store_be(tcp + kTcpSequence, load_be<uint32_t>(tcp + kTcpSequence) + offset);
    auto flags = static_cast<uint8_t>(tcp[kTcpFlags]);
    if (!last) flags &= static_cast<uint8_t>(~(kTcpFin | kTcpPsh));
    if (index != 0) flags &= static_cast<uint8_t>(~kTcpCwr);
    tcp[kTcpFlags] = std::byte{flags};
}

} // namespace net
