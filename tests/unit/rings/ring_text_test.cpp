// SPDX-License-Identifier: BSD-3-Clause
// What a descriptor dump and telemetry report about a ring: the same as the device sees.
#include "tests/unit/rings/mlx5_striding.hpp"
#include "tests/unit/rings/mlx5_tx.hpp"
#include "tests/unit/rings/verbs_rx.hpp"

#include <map>

namespace rings_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::map<std::string, uint64_t> by_name(const rawqp::Figures& figures) {
    std::map<std::string, uint64_t> named;
    for (const rawqp::Figure& figure : figures)
        EXPECT_TRUE(named.emplace(figure.name, figure.value).second) << figure.name;
    return named;
}

class RxText : public Mlx5Rx {
  protected:
    [[nodiscard]] std::string text(uint16_t offset) const {
        return rawqp::kMlx5Format.rx_descriptor_text(*ring, offset);
    }
};

TEST_F(RxText, PostedReceivedAndMissing) {
    start();
    for (int i = 0; i < 3; ++i)
        deliver(64);
    rte_mbuf* mbuf = nullptr;
    ASSERT_EQ(receive(&mbuf, 1), 1u); // refilled later, together with others
    auto figures = by_name(rawqp::kMlx5Format.rx_figures(*ring));
    EXPECT_EQ(figures["wqe_consumer"], 1u);
    EXPECT_EQ(figures["wqes_posted"], 63u);
    EXPECT_EQ(figures["wqes_missing"], 1u);
    EXPECT_EQ(figures["cq_consumer"], 1u);
    EXPECT_EQ(figures["descriptors_received"], 2u);

    const mlx5::WqeDataSeg& wqe = rq->ring[1];
    EXPECT_THAT(text(0),
                AllOf(StartsWith("descriptor 0: received, wqe 1, mbuf 0x"),
                      HasSubstr(fmt::format("at {:#x}, lkey {:#x}\n", uint64_t{wqe.addr},
                                            uint32_t{wqe.lkey})),
                      HasSubstr(fmt::format("    wqe: {:08x} {:08x} ", uint32_t{wqe.byte_count},
                                            uint32_t{wqe.lkey})),
                      HasSubstr("    cqe 1: "), HasSubstr(" 00000040 "))); // its byte count
    EXPECT_THAT(text(1), StartsWith("descriptor 1: received, wqe 2, "));
    EXPECT_THAT(text(2), StartsWith("descriptor 2: posted, wqe 3, "));
    EXPECT_EQ(text(63), "descriptor 63: not posted, wqe 0\n");
    rte_pktmbuf_free(mbuf);
}

TEST_F(RxText, SegmentsOfOneWqe) {
    start({.descriptors = 64, .segments = 4, .cq_entries = 16});
    EXPECT_THAT(text(7), StartsWith("descriptor 7: posted, wqe 1, mbuf 0x"));
    EXPECT_NE(text(6), text(7));
}

class StridingText : public Mlx5StridingRing {};

TEST_F(StridingText, StridesOfAWqe) {
    start();
    deliver(64);
    deliver(64);
    rte_pktmbuf_free(receive_one());
    auto figures = by_name(format.rx_figures(*ring));
    EXPECT_EQ(figures["strides_used"], 1u);
    EXPECT_EQ(figures["packets_received"], 1u);
    EXPECT_THAT(format.rx_descriptor_text(*ring, 0),
                StartsWith(fmt::format("descriptor 0: received, wqe 0, stride 1, {} bytes at 0x",
                                       kStrideBytes)));
    EXPECT_THAT(format.rx_descriptor_text(*ring, 1), StartsWith("descriptor 1: posted, wqe 0, "));
}

class TxText : public Mlx5Tx {
  protected:
    [[nodiscard]] std::string text(uint16_t offset) const {
        return rawqp::kMlx5Format.tx_descriptor_text(*ring, offset);
    }
};

/// Packets are grouped by the completion that was requested for them: here bursts of 16 or more.
TEST_F(TxText, PacketsWithTheirBlocks) {
    start();
    EXPECT_EQ(text(0), "descriptor 0: free\n");
    EXPECT_EQ(text(63), "descriptor 63: free\n");
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < 36; ++i)
        packets.push_back(packet(i, {64}));
    ASSERT_EQ(send(packets.data(), 16), 16u);
    ASSERT_EQ(send(packets.data() + 16, 17), 17u);
    ASSERT_EQ(send(packets.data() + 33, 3), 3u);
    auto figures = by_name(rawqp::kMlx5Format.tx_figures(*ring));
    EXPECT_EQ(figures["segments_held"], 36u);
    EXPECT_EQ(figures["completions_awaited"], 2u);
    EXPECT_EQ(figures["block_producer"], 36u);

    EXPECT_EQ(text(27), "descriptor 27: free\n");
    const auto first = sq->segment<mlx5::WqeCtrlSeg>(0, 0);
    EXPECT_THAT(
        text(28),
        AllOf(StartsWith(fmt::format("descriptor 28: handed to the device, mbuf {}, somewhere in "
                                     "blocks 0 to 15\n",
                                     fmt::ptr(packets[0]))),
              HasSubstr(fmt::format("    block 0: {:08x} {:08x} ", uint32_t{first.opmod_idx_opcode},
                                    uint32_t{first.qpn_ds})),
              HasSubstr("    block 15: "), Not(HasSubstr("    block 16: "))));
    EXPECT_THAT(text(43), HasSubstr("blocks 0 to 15\n"));
    EXPECT_THAT(text(44), HasSubstr("blocks 16 to 32\n"));
    EXPECT_THAT(text(60), HasSubstr("blocks 16 to 32\n"));
    EXPECT_THAT(text(61), HasSubstr("blocks 33 to 35\n")) << "nothing has asked yet";
    EXPECT_THAT(text(63), AllOf(HasSubstr(fmt::format("mbuf {}", fmt::ptr(packets[35]))),
                                HasSubstr("blocks 33 to 35\n")));

    for (int i = 0; i < 16; ++i)
        execute_wqe(); // executes the first burst
    ASSERT_EQ(rawqp::kMlx5Format.tx_done_cleanup(ring, 15), 15);
    EXPECT_EQ(text(42), "descriptor 42: free\n");
    EXPECT_EQ(text(43), fmt::format("descriptor 43: completed, mbuf {} is to be freed\n",
                                    fmt::ptr(packets[15])));
    EXPECT_THAT(text(44), HasSubstr("blocks 16 to 32\n"));
}

TEST_F(VerbsRx, DescriptorsAsText) {
    start();
    const auto& format = rawqp::kVerbsFormat;
    const auto& sge = wq.posted[3].sges[0];
    EXPECT_THAT(format.rx_descriptor_text(*ring, 3),
                AllOf(StartsWith("descriptor 3: posted, request 3, mbuf 0x"),
                      HasSubstr(fmt::format("{} bytes at {:#x}, lkey {:#x}\n", sge.length, sge.addr,
                                            sge.lkey))));
    EXPECT_EQ(by_name(format.rx_figures(*ring))["wqes_posted"], 64u);
    format.rx_stop(*ring);
    EXPECT_EQ(format.rx_descriptor_text(*ring, 3), "descriptor 3: not posted, request 3\n");
}

} // namespace
} // namespace rings_test
