// SPDX-License-Identifier: BSD-3-Clause
// For tests that compare the results of receive readers for the same CQEs.
#pragma once

#include "common/mlx5/formats.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/flow_tag.hpp"
#include "drivers/net/rawqp/rings/ring.hpp"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace rings_test {

/// The mbuf's dynamic field for the metadata of rules, and its flag.
inline constexpr uint8_t kMetadataAt = offsetof(rte_mbuf, dynfield1) + 8 * sizeof(uint32_t);
inline constexpr uint64_t kMetadataFlag = uint64_t{1} << 40;

inline void ask_for_metadata(rawqp::RxRing& ring) {
    ring.metadata_offset = kMetadataAt;
    ring.metadata_flag = kMetadataFlag;
}
inline uint32_t metadata_of(rte_mbuf& mbuf) {
    if ((mbuf.ol_flags & kMetadataFlag) == 0) return 0;
    return *RTE_MBUF_DYNFIELD(&mbuf, kMetadataAt, uint32_t*);
}

/// What the reader writes into an mbuf: from the rearm word to the hash, and the mark.
struct Received {
    std::array<uint8_t, 32> fields;
    uint32_t mark;
    uint32_t metadata;
    uint32_t segments;
    uint64_t time; ///< only with time stamps

    bool operator==(const Received&) const = default;
};

inline Received received_of(rte_mbuf& mbuf, uint64_t offloads) {
    Received got{};
    memcpy(got.fields.data(), rawqp::compat::mbuf_rearm_word(&mbuf), got.fields.size());
    got.mark = mbuf.ol_flags & RTE_MBUF_F_RX_FDIR ? mbuf.hash.fdir.hi : 0;
    got.metadata = metadata_of(mbuf);
    got.segments = mbuf.nb_segs;
    if (offloads & RTE_ETH_RX_OFFLOAD_TIMESTAMP) {
        const int at = rte_mbuf_dynfield_lookup(RTE_MBUF_DYNFIELD_TIMESTAMP_NAME, nullptr);
        got.time = *RTE_MBUF_DYNFIELD(&mbuf, at, uint64_t*);
    }
    return got;
}

/// Packet by packet.
inline void expect_equal(const std::vector<Received>& got, const std::vector<Received>& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i)
        ASSERT_EQ(got[i], wanted[i]) << "packet " << i;
}

/// A CQE with random contents, including some that no device would write.
inline mlx5::Cqe random_cqe(std::mt19937& random) {
    mlx5::Cqe cqe;
    std::array<uint32_t, sizeof cqe / 4> words;
    std::generate(words.begin(), words.end(), std::ref(random));
    memcpy(&cqe, words.data(), sizeof cqe);
    if (random() % 4 == 0) cqe.rx_hash_type = 0;
    if (random() % 4 == 0) cqe.metadata = 0;
    if (random() % 4 == 0) cqe.sop_drop_qpn = random() % 2 ? 0 : rawqp::kFlowTagFlag;
    return cqe;
}

} // namespace rings_test
