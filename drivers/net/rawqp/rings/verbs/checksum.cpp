// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/verbs/checksum.hpp"

namespace rawqp::verbsrings {
bool set_ipv4_checksum(rte_mbuf& packet) {
    if (packet.l3_len < sizeof(rte_ipv4_hdr) || packet.l2_len + packet.l3_len > packet.data_len)
        return false;
    auto* header = rte_pktmbuf_mtod_offset(&packet, rte_ipv4_hdr*, packet.l2_len);
    header->hdr_checksum = 0;
    header->hdr_checksum = static_cast<uint16_t>(~rte_raw_cksum(header, packet.l3_len));
    return true;
}

} // namespace rawqp::verbsrings
