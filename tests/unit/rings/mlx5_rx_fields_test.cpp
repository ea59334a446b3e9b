// SPDX-License-Identifier: BSD-3-Clause
// Receive on mapped mlx5 rings: what each CQE field means in the mbuf.
#include "drivers/net/rawqp/flow_tag.hpp"
#include "tests/unit/rings/mlx5_rx.hpp"
#include "tests/unit/rings/verdict_frames.hpp"

namespace rings_test {
namespace {

using mlx5::CqeL3;
using mlx5::CqeL4;

constexpr uint32_t kIpv4 = RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4_EXT_UNKNOWN;
constexpr uint32_t kIpv6 = RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV6_EXT_UNKNOWN;
constexpr uint32_t kInnerIpv4 = RTE_PTYPE_INNER_L3_IPV4_EXT_UNKNOWN;
constexpr uint32_t kInnerIpv6 = RTE_PTYPE_INNER_L3_IPV6_EXT_UNKNOWN;
constexpr uint8_t kBothOk = mlx5::kL2Ok | mlx5::kL3Ok | mlx5::kL4Ok;

constexpr uint8_t type(CqeL3 l3, CqeL4 l4) {
    return static_cast<uint8_t>(static_cast<uint8_t>(l4) << 4 | static_cast<uint8_t>(l3) << 2);
}

struct Case {
    const char* name;
    uint8_t ok;
    uint8_t l4_l3_type;
    uint64_t flags;
    uint32_t packet_type;
    uint8_t packet_info = 0;
};

/// For packets that are not frames at all, so that software finds nothing in them.
const Case kCases[] = {
    {"not IP", mlx5::kL2Ok, type(CqeL3::none, CqeL4::none), 0, RTE_PTYPE_L2_ETHER},
    {"IPv4 TCP", kBothOk, type(CqeL3::ipv4, CqeL4::tcp_no_ack), kIpGood | kL4Good,
     kIpv4 | RTE_PTYPE_L4_TCP},
    {"IPv4 TCP ack", kBothOk, type(CqeL3::ipv4, CqeL4::tcp_ack), kIpGood | kL4Good,
     kIpv4 | RTE_PTYPE_L4_TCP},
    {"IPv4 TCP ack and data", kBothOk, type(CqeL3::ipv4, CqeL4::tcp_ack_data), kIpGood | kL4Good,
     kIpv4 | RTE_PTYPE_L4_TCP},
    {"IPv4 UDP", kBothOk, type(CqeL3::ipv4, CqeL4::udp), kIpGood | kL4Good,
     kIpv4 | RTE_PTYPE_L4_UDP},
    {"IPv4 UDP, L4 not verified", mlx5::kL3Ok, type(CqeL3::ipv4, CqeL4::udp), kIpGood,
     kIpv4 | RTE_PTYPE_L4_UDP},
    {"IPv4 TCP, header not verified", mlx5::kL4Ok, type(CqeL3::ipv4, CqeL4::tcp_ack), kL4Good,
     kIpv4 | RTE_PTYPE_L4_TCP},
    {"IPv4 TCP, nothing verified", 0, type(CqeL3::ipv4, CqeL4::tcp_ack), 0,
     kIpv4 | RTE_PTYPE_L4_TCP},
    {"IPv4 other protocol", mlx5::kL3Ok, type(CqeL3::ipv4, CqeL4::none), kIpGood,
     kIpv4 | RTE_PTYPE_L4_NONFRAG},
    {"IPv4 fragment", mlx5::kL3Ok, type(CqeL3::ipv4, CqeL4::none) | mlx5::kIpFragment, kIpGood,
     kIpv4 | RTE_PTYPE_L4_FRAG},
    {"IPv4 first fragment with its UDP header", mlx5::kL3Ok,
     type(CqeL3::ipv4, CqeL4::udp) | mlx5::kIpFragment, kIpGood, kIpv4 | RTE_PTYPE_L4_FRAG},
    {"IPv6 UDP", kBothOk, type(CqeL3::ipv6, CqeL4::udp), kL4Good, kIpv6 | RTE_PTYPE_L4_UDP},
    {"IPv6 TCP, L4 not verified", mlx5::kL2Ok, type(CqeL3::ipv6, CqeL4::tcp_ack), 0,
     kIpv6 | RTE_PTYPE_L4_TCP},
    {"IPv6 other protocol", mlx5::kL3Ok, type(CqeL3::ipv6, CqeL4::none), 0,
     kIpv6 | RTE_PTYPE_L4_NONFRAG},
    {"outer IPv6 without a tunnel", kBothOk, type(CqeL3::ipv4, CqeL4::udp), kIpGood | kL4Good,
     kIpv4 | RTE_PTYPE_L4_UDP, mlx5::kOuterIpv6},
    {"UDP over IPv4 in IPv4", kBothOk, type(CqeL3::ipv4, CqeL4::udp), kIpGood | kL4Good,
     kIpv4 | kInnerIpv4 | RTE_PTYPE_INNER_L4_UDP, mlx5::kTunnelled},
    {"TCP over IPv6 in IPv6", kBothOk, type(CqeL3::ipv6, CqeL4::tcp_ack), kL4Good,
     kIpv6 | kInnerIpv6 | RTE_PTYPE_INNER_L4_TCP, mlx5::kTunnelled | mlx5::kOuterIpv6},
    {"TCP over IPv4 in IPv6", kBothOk, type(CqeL3::ipv4, CqeL4::tcp_ack), kIpGood | kL4Good,
     kIpv6 | kInnerIpv4 | RTE_PTYPE_INNER_L4_TCP, mlx5::kTunnelled | mlx5::kOuterIpv6},
    {"fragment in a tunnel", mlx5::kL3Ok, type(CqeL3::ipv4, CqeL4::none) | mlx5::kIpFragment,
     kIpGood, kIpv4 | kInnerIpv4 | RTE_PTYPE_INNER_L4_FRAG, mlx5::kTunnelled},
    {"other protocol in a tunnel", mlx5::kL3Ok, type(CqeL3::ipv6, CqeL4::none), 0,
     kIpv4 | kInnerIpv6 | RTE_PTYPE_INNER_L4_NONFRAG, mlx5::kTunnelled},
    {"not IP in a tunnel", mlx5::kL2Ok, type(CqeL3::none, CqeL4::none), 0, kIpv4, mlx5::kTunnelled},
    {"tunnel, some checksum is bad", 0, type(CqeL3::ipv4, CqeL4::udp), 0,
     kIpv4 | kInnerIpv4 | RTE_PTYPE_INNER_L4_UDP, mlx5::kTunnelled},
    {"tunnel, an L4 checksum is bad", mlx5::kL3Ok, type(CqeL3::ipv4, CqeL4::udp), kIpGood,
     kIpv4 | kInnerIpv4 | RTE_PTYPE_INNER_L4_UDP, mlx5::kTunnelled},
};

TEST_P(Mlx5RxReaders, ChecksumsAndPacketTypes) {
    start({.offloads = kAllOffloads});
    EXPECT_EQ(burst.description, reader_name(simd_bits) + ", offloads");
    for (const Case& c : kCases) {
        SCOPED_TRACE(c.name);
        mlx5::Cqe cqe{};
        cqe.hds_ip_ext = c.ok;
        cqe.l4_l3_type = c.l4_l3_type;
        cqe.packet_info = c.packet_info;
        deliver(64, cqe);
        rte_mbuf* mbuf;
        ASSERT_EQ(receive(&mbuf, 1), 1u);
        EXPECT_EQ(mbuf->ol_flags, c.flags);
        EXPECT_EQ(mbuf->packet_type, c.packet_type);
        rte_pktmbuf_free(mbuf);
    }
}

/// What the device does not vouch for is taken from the packet itself, in bursts of any size.
TEST_P(Mlx5RxReaders, VerdictsAreWhatThePacketShows) {
    start({.offloads = kAllOffloads});
    const std::vector<VerdictCase> cases = verdict_cases();
    for (const size_t burst_size : {1u, 8u, 23u}) {
        for (size_t at = 0; at < cases.size();) {
            const size_t count = std::min(burst_size, cases.size() - at);
            for (size_t i = 0; i < count; ++i)
                deliver(cases[at + i].frame, cqe_of(cases[at + i]));
            std::vector<rte_mbuf*> mbufs(count);
            ASSERT_EQ(receive(mbufs.data(), static_cast<uint16_t>(count)), count);
            for (rte_mbuf* mbuf : mbufs) {
                EXPECT_EQ(mbuf->ol_flags, cases[at].flags) << cases[at].name;
                rte_pktmbuf_free(mbuf);
                ++at;
            }
        }
    }
}

TEST_P(Mlx5RxReaders, TheDevicesWordIsTakenForWhatItVouchesFor) {
    start({.offloads = kAllOffloads});
    const VerdictCase wrong = verdict_cases()[1];
    ASSERT_EQ(wrong.flags, kIpGood | kL4Bad);
    rte_mbuf* mbuf;
    for (const uint8_t ok : {mlx5::kL3Ok, mlx5::kL4Ok}) {
        deliver(wrong.frame, cqe_of(wrong, ok));
        ASSERT_EQ(receive(&mbuf, 1), 1u);
        EXPECT_EQ(mbuf->ol_flags, kIpGood | (ok == mlx5::kL4Ok ? kL4Good : kL4Bad));
        rte_pktmbuf_free(mbuf);
    }
}

TEST_P(Mlx5RxReaders, OnlyChecksumsThatWereAskedForAreSettled) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM});
    const VerdictCase wrong = verdict_cases()[1];
    deliver(wrong.frame, cqe_of(wrong));
    rte_mbuf* mbuf;
    ASSERT_EQ(receive(&mbuf, 1), 1u);
    EXPECT_EQ(mbuf->ol_flags, kIpGood);
    rte_pktmbuf_free(mbuf);
}

TEST_P(Mlx5RxReaders, VerdictsOfBlocksAndOfSeveralSegments) {
    for (const uint8_t segments : {1, 2}) {
        start({.segments = segments,
               .data_room = static_cast<uint16_t>(segments == 1 ? 2048 : 64 + RTE_PKTMBUF_HEADROOM),
               .cq_entries = 128,
               .offloads = kAllOffloads,
               .compressed = true});
        for (const VerdictCase& c : verdict_cases()) { // a block has one description
            constexpr size_t kAlike = mlx5::kMiniCqes + 1;
            deliver_block(cqe_of(c), c.frame, kAlike);
            std::array<rte_mbuf*, kAlike> mbufs;
            ASSERT_EQ(receive(mbufs.data(), kAlike), kAlike);
            for (rte_mbuf* mbuf : mbufs) {
                EXPECT_EQ(mbuf->ol_flags & ~RTE_MBUF_F_RX_RSS_HASH, c.flags) << c.name;
                rte_pktmbuf_free(mbuf);
            }
        }
        finish();
        spec = {};
        consumed = 0;
    }
}

TEST_P(Mlx5RxReaders, FlagsOnlyForEnabledOffloads) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM});
    mlx5::Cqe cqe{};
    cqe.hds_ip_ext = kBothOk;
    cqe.l4_l3_type = type(CqeL3::ipv4, CqeL4::udp);
    cqe.rx_hash_type = kHashedAddresses;
    deliver(64, cqe);
    rte_mbuf* mbuf;
    ASSERT_EQ(receive(&mbuf, 1), 1u);
    EXPECT_EQ(mbuf->ol_flags, kIpGood);
    rte_pktmbuf_free(mbuf);
}

/// The device gives one verdict for TCP and UDP, so either offload requests it.
TEST_P(Mlx5RxReaders, EitherOffloadOfL4TellsOfBoth) {
    for (const uint64_t offload : {RTE_ETH_RX_OFFLOAD_TCP_CKSUM, RTE_ETH_RX_OFFLOAD_UDP_CKSUM}) {
        start({.offloads = offload});
        for (const CqeL4 l4 : {CqeL4::udp, CqeL4::tcp_ack}) {
            mlx5::Cqe cqe{};
            cqe.hds_ip_ext = kBothOk;
            cqe.l4_l3_type = type(CqeL3::ipv4, l4);
            deliver(64, cqe);
            rte_mbuf* mbuf;
            ASSERT_EQ(receive(&mbuf, 1), 1u);
            EXPECT_EQ(mbuf->ol_flags, kL4Good);
            rte_pktmbuf_free(mbuf);
        }
        finish();
        spec = {};
        consumed = 0;
    }
}

TEST_P(Mlx5RxReaders, NoOffloadsNoFlags) {
    start();
    mlx5::Cqe cqe{};
    cqe.hds_ip_ext = kBothOk;
    cqe.l4_l3_type = type(CqeL3::ipv4, CqeL4::udp) | mlx5::kVlanStripped;
    cqe.rx_hash_type = kHashedAddresses;
    cqe.sop_drop_qpn = 5;
    deliver(64, cqe);
    rte_mbuf* mbuf;
    ASSERT_EQ(receive(&mbuf, 1), 1u);
    EXPECT_EQ(mbuf->ol_flags, 0u);
    EXPECT_EQ(mbuf->packet_type, kIpv4 | RTE_PTYPE_L4_UDP);
    rte_pktmbuf_free(mbuf);
}

/// The tunnel type that the rules of a queue imply is reported for tunnelled packets only.
TEST_P(Mlx5RxReaders, NameOfTheTunnel) {
    start({.offloads = kAllOffloads});
    for (const uint32_t name : {uint32_t{RTE_PTYPE_TUNNEL_VXLAN}, 0u}) {
        ring->tunnel_type = name;
        for (uint32_t i = 0; i < 9; ++i) { // vector loop and single packets
            mlx5::Cqe cqe{};
            cqe.packet_info = i % 3 == 0 ? mlx5::kTunnelled : 0;
            deliver(64, cqe);
        }
        rte_mbuf* mbufs[9];
        ASSERT_EQ(receive(mbufs, 9), 9u);
        for (uint32_t i = 0; i < 9; ++i) {
            EXPECT_EQ(mbufs[i]->packet_type & RTE_PTYPE_TUNNEL_MASK, i % 3 == 0 ? name : 0u);
            rte_pktmbuf_free(mbufs[i]);
        }
    }
}

/// ethdev requires that every announced type is recognized, and the name takes rules.
TEST(Mlx5PacketTypes, NoKindOfTunnelIsAnnounced) {
    for (const rawqp::RingFormat* format : {&rawqp::kMlx5Format, rawqp::kMlx5Format.striding})
        for (const uint32_t* type = format->ptypes; *type != RTE_PTYPE_UNKNOWN; ++type)
            EXPECT_EQ(*type & RTE_PTYPE_TUNNEL_MASK, 0u) << rte_get_ptype_tunnel_name(*type);
}

/// In a tunnel that only the device recognizes, software sees the outer headers, but the flags
/// would apply to the inner ones: nothing is reported that the device does not vouch for.
TEST_P(Mlx5RxReaders, SoftwareDoesNotJudgeTunnels) {
    start({.cq_entries = 128, .offloads = kAllOffloads, .compressed = true});
    const Bytes outside = Frame{}.build();
    mlx5::Cqe cqe{};
    cqe.l4_l3_type = type(CqeL3::ipv4, CqeL4::udp);
    cqe.packet_info = mlx5::kTunnelled;
    for (uint32_t i = 0; i < 9; ++i) // vector loop and single packets
        deliver(outside, cqe);
    deliver_block(cqe, outside, 9);
    rte_mbuf* mbufs[18];
    ASSERT_EQ(receive(mbufs, 18), 18u);
    for (rte_mbuf* mbuf : mbufs) {
        EXPECT_EQ(mbuf->ol_flags, 0u);
        rte_pktmbuf_free(mbuf);
    }
}

TEST_P(Mlx5RxReaders, HashAndVlan) {
    start({.offloads = kAllOffloads});
    mlx5::Cqe cqe{};
    cqe.rx_hash_type = kHashedPorts;
    cqe.rx_hash_result = 0xdeadbeef;
    cqe.l4_l3_type = mlx5::kVlanStripped;
    cqe.vlan_info = 0x6123;
    deliver(64, cqe);
    rte_mbuf* mbuf;
    ASSERT_EQ(receive(&mbuf, 1), 1u);
    EXPECT_EQ(mbuf->ol_flags,
              RTE_MBUF_F_RX_RSS_HASH | RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED);
    EXPECT_EQ(mbuf->hash.rss, 0xdeadbeefu);
    EXPECT_EQ(mbuf->vlan_tci, 0x6123);
    rte_pktmbuf_free(mbuf);
}

/// Stripping starts while the port runs, with a burst function that was chosen without it.
TEST_P(Mlx5RxReaders, TagsFromSomeMomentOn) {
    start();
    EXPECT_EQ(burst.description, reader_name(simd_bits));
    for (const bool told : {false, true}) {
        ring->tell_all = told;
        for (uint32_t i = 0; i < 9; ++i) { // vector loop and single packets
            mlx5::Cqe cqe{};
            cqe.l4_l3_type = mlx5::kVlanStripped;
            cqe.rx_hash_type = kHashedAddresses;
            cqe.hds_ip_ext = mlx5::kL3Ok | mlx5::kL4Ok;
            deliver(64, cqe);
        }
        rte_mbuf* mbufs[9];
        ASSERT_EQ(receive(mbufs, 9), 9u);
        for (rte_mbuf* mbuf : mbufs) {
            EXPECT_EQ(mbuf->ol_flags, told ? RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED : 0u);
            if (told) {
                EXPECT_EQ(mbuf->vlan_tci, 0);
            }
            rte_pktmbuf_free(mbuf);
        }
    }
}

TEST_P(Mlx5RxReaders, Marks) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_RSS_HASH, .mark = true});
    EXPECT_EQ(burst.description, reader_name(simd_bits) + ", offloads");
    const auto flags_of = [&](uint32_t tag, uint32_t& id) {
        mlx5::Cqe cqe{};
        cqe.sop_drop_qpn = 0x55000000 | tag; // the top byte is not part of the tag
        cqe.rx_hash_type = kHashedAddresses;
        cqe.rx_hash_result = 0x1234;
        deliver(64, cqe);
        rte_mbuf* mbuf = nullptr;
        EXPECT_EQ(receive(&mbuf, 1), 1u);
        EXPECT_EQ(mbuf->hash.rss, 0x1234u);
        id = mbuf->hash.fdir.hi;
        const uint64_t flags = mbuf->ol_flags & ~RTE_MBUF_F_RX_RSS_HASH;
        rte_pktmbuf_free(mbuf);
        return flags;
    };
    uint32_t id;
    EXPECT_EQ(flags_of(rawqp::kFlowTagNone, id), 0u);
    EXPECT_EQ(flags_of(rawqp::kFlowTagFlag, id), RTE_MBUF_F_RX_FDIR);
    for (const uint32_t mark : {0u, 1u, 42u, rawqp::kMarkMax}) {
        EXPECT_EQ(flags_of(rawqp::tag_of_mark(mark), id),
                  RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID);
        EXPECT_EQ(id, mark);
    }
}

TEST_P(Mlx5RxReaders, Metadata) {
    start({.mark = true, .metadata = true});
    for (uint32_t i = 0; i < 9; ++i) { // vector loop and single packets
        mlx5::Cqe cqe{};
        cqe.metadata = i % 3 * 0x01020304;
        deliver(64, cqe);
    }
    rte_mbuf* mbufs[9];
    ASSERT_EQ(receive(mbufs, 9), 9u);
    for (uint32_t i = 0; i < 9; ++i) {
        EXPECT_EQ((mbufs[i]->ol_flags & kMetadataFlag) != 0, i % 3 != 0);
        EXPECT_EQ(metadata_of(*mbufs[i]), i % 3 * 0x01020304);
        rte_pktmbuf_free(mbufs[i]);
    }
}

TEST_P(Mlx5RxReaders, MbufIsWholeAfterReuse) {
    start({.pool_size = 80});
    rte_mbuf* mbuf;
    for (int i = 0; i < 300; ++i) {
        deliver(64);
        ASSERT_EQ(receive(&mbuf, 1), 1u);
        ASSERT_EQ(mbuf->data_off, RTE_PKTMBUF_HEADROOM);
        ASSERT_EQ(rte_mbuf_refcnt_read(mbuf), 1);
        ASSERT_EQ(mbuf->nb_segs, 1);
        ASSERT_EQ(mbuf->next, nullptr);
        ASSERT_EQ(mbuf->data_len, 64);
        ASSERT_EQ(mbuf->ol_flags, 0u);
        mbuf->data_off = 3; // what an application may leave behind
        mbuf->ol_flags = RTE_MBUF_F_TX_VLAN;
        mbuf->port = 0;
        rte_pktmbuf_free(mbuf);
    }
}

} // namespace
} // namespace rings_test
