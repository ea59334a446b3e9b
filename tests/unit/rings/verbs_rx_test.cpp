// SPDX-License-Identifier: BSD-3-Clause
// Receive through verbs calls.
#include "common/net/endian.hpp"
#include "drivers/net/rawqp/flow_tag.hpp"
#include "drivers/net/rawqp/rings/verbs/format.hpp"
#include "tests/unit/eal.hpp"
#include "tests/unit/rings/fake_mrs.hpp"
#include "tests/unit/rings/fake_verbs_queue.hpp"

#include <optional>
#include <utility>

namespace rings_test {
namespace {

using Bytes = std::vector<uint8_t>;

struct VerbsRxSetup {
    uint8_t segments = 1;
    unsigned pool_size = 256;
    uint16_t data_room = RTE_MBUF_DEFAULT_BUF_SIZE;
    uint64_t offloads = 0;
    bool mark = false;
};

class VerbsRx : public test_eal::EalTest {
  protected:
    static constexpr uint16_t kDescriptors = 64;
    static constexpr uint16_t kPort = 5;

    void create(const VerbsRxSetup& setup) {
        pool = test_eal::make_pool(setup.pool_size, setup.data_room);
        ASSERT_NE(pool, nullptr);
        spec.cq = &cq.handle;
        spec.wq = &wq.handle;
        spec.port_id = kPort;
        spec.descriptors = kDescriptors;
        spec.segments = setup.segments;
        spec.offloads = setup.offloads;
        spec.pool = pool.get();
        spec.mrs = &mrs;
        const auto created = rawqp::kVerbsFormat.rx_create(spec);
        ASSERT_TRUE(created) << created.error().what;
        ring = *created;
        ring->control = this;
        ring->mark = setup.mark;
        ring->reset_wq = [](rawqp::RxRing& reset) {
            return static_cast<VerbsRx*>(reset.control)->on_reset();
        };
        burst = rawqp::kVerbsFormat.rx_burst(spec);
    }
    void start(const VerbsRxSetup& setup = {}) {
        create(setup);
        const auto started = rawqp::kVerbsFormat.rx_start(*ring);
        ASSERT_TRUE(started) << started.error().what;
    }
    /// Stops the ring and forgets it.
    void end() {
        rawqp::kVerbsFormat.rx_stop(*ring);
        rawqp::kVerbsFormat.rx_destroy(std::exchange(ring, nullptr));
        wq.posted.clear();
        filled = 0;
    }
    void TearDown() override {
        if (ring == nullptr) return;
        end();
        EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
        EXPECT_EQ(cq.misuse, 0);
        EXPECT_FALSE(cq.open);
    }
    int on_reset() {
        ++resets;
        if (reset_result != 0) return reset_result;
        wq.posted.clear();
        filled = 0;
        return 0;
    }
    [[nodiscard]] size_t posted() const { return wq.posted.size() - filled; }

    /// Scatters the frame into the oldest posted request and completes it.
    void deliver(const Bytes& frame, Completion completion = {}) {
        ASSERT_GT(posted(), 0u);
        const auto& request = wq.posted[filled++];
        size_t at = 0;
        for (const ibv_sge& sge : request.sges) {
            ASSERT_EQ(sge.lkey & ~1u, FakeMrs::kLkey);
            const size_t part = std::min<size_t>(sge.length, frame.size() - at);
            if (part > 0) memcpy(reinterpret_cast<void*>(sge.addr), &frame[at], part);
            at += part;
        }
        ASSERT_EQ(at, frame.size());
        completion.wr_id = request.request.wr_id;
        completion.bytes = static_cast<uint32_t>(frame.size());
        cq.queue.push_back(completion);
    }
    void break_queue(ibv_wc_status status) {
        for (; posted() > 0; status = IBV_WC_WR_FLUSH_ERR)
            cq.queue.push_back({.wr_id = wq.posted[filled++].request.wr_id, .status = status});
    }
    uint16_t receive(rte_mbuf** mbufs, uint16_t count) {
        return burst.function(ring, mbufs, count);
    }
    /// Receives one packet, checks its bytes, frees it; returns its flags and type.
    std::pair<uint64_t, uint32_t> receive_one(const Bytes& frame) {
        rte_mbuf* mbuf = nullptr;
        EXPECT_EQ(receive(&mbuf, 1), 1u);
        if (mbuf == nullptr) return {};
        EXPECT_EQ(contents(mbuf), frame);
        EXPECT_EQ(mbuf->port, kPort);
        last_mark = mbuf->hash.fdir.hi;
        const std::pair result{mbuf->ol_flags, mbuf->packet_type};
        rte_pktmbuf_free(mbuf);
        return result;
    }
    static Bytes contents(const rte_mbuf* mbuf) {
        Bytes out(mbuf->pkt_len);
        const void* data = rte_pktmbuf_read(mbuf, 0, mbuf->pkt_len, out.data());
        if (data != nullptr && data != out.data()) memcpy(out.data(), data, out.size());
        return out;
    }
    static Bytes pattern(uint32_t seed, size_t bytes) {
        Bytes out(bytes);
        for (size_t i = 0; i < bytes; ++i)
            out[i] = static_cast<uint8_t>(seed * 31 + i * 7 + (i >> 8));
        return out;
    }
    void expect_traffic(uint32_t packets, size_t bytes = 64) {
        for (uint32_t i = 0; i < packets; ++i) {
            deliver(pattern(i, bytes));
            receive_one(pattern(i, bytes));
        }
    }

    FakeMrs mrs;
    FakeVerbsCq cq;
    FakeVerbsWq wq;
    test_eal::Pool pool;
    rawqp::RxSpec spec;
    rawqp::RxRing* ring = nullptr;
    rawqp::Burst<eth_rx_burst_t> burst;
    size_t filled = 0; ///< posted requests that the device has used
    uint32_t last_mark = 0;
    int resets = 0;
    int reset_result = 0;
};

TEST_F(VerbsRx, StartPostsOneChain) {
    start();
    EXPECT_EQ(wq.calls, 1);
    ASSERT_EQ(wq.posted.size(), 64u);
    for (size_t i = 0; i < 64; ++i) {
        ASSERT_EQ(wq.posted[i].sges.size(), 1u);
        EXPECT_EQ(wq.posted[i].sges[0].length, RTE_MBUF_DEFAULT_DATAROOM);
        EXPECT_EQ(wq.posted[i].sges[0].lkey, FakeMrs::kLkey);
    }
    EXPECT_STREQ(burst.description, "verbs");
    EXPECT_EQ(rawqp::kVerbsFormat.rx_wc_flags({}),
              uint64_t{IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_FLOW_TAG});
}

TEST_F(VerbsRx, StartFailsWithoutLeak) {
    create({.pool_size = 40});
    const auto started = rawqp::kVerbsFormat.rx_start(*ring);
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, ENOMEM);
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
    EXPECT_EQ(wq.calls, 0);
}

TEST_F(VerbsRx, EveryBatchSize) {
    start();
    uint32_t seed = 0;
    for (uint16_t batch = 1; batch <= 64; ++batch) {
        const auto count = static_cast<uint16_t>(std::min<size_t>(batch, posted()));
        for (uint16_t i = 0; i < count; ++i)
            deliver(pattern(seed + i, 60u + i));
        rte_mbuf* mbufs[64];
        ASSERT_EQ(receive(mbufs, batch), count);
        for (uint16_t i = 0; i < count; ++i) {
            ASSERT_EQ(contents(mbufs[i]), pattern(seed + i, 60u + i));
            rte_pktmbuf_free(mbufs[i]);
        }
        seed += count;
        ASSERT_GT(posted(), 48u);
    }
    EXPECT_EQ(ring->counters.packets, seed);
    EXPECT_EQ(receive(nullptr, 0), 0u);
}

TEST_F(VerbsRx, TakesNoMoreThanAsked) {
    start();
    for (uint32_t i = 0; i < 5; ++i)
        deliver(pattern(i, 64));
    rte_mbuf* mbufs[5];
    ASSERT_EQ(receive(mbufs, 2), 2u);
    EXPECT_EQ(cq.queue.size(), 3u);
    ASSERT_EQ(receive(mbufs + 2, 5), 3u);
    for (uint32_t i = 0; i < 5; ++i)
        EXPECT_EQ(contents(mbufs[i]), pattern(i, 64));
    rte_pktmbuf_free_bulk(mbufs, 5);
}

TEST_F(VerbsRx, ShortPool) {
    start({.pool_size = 70});
    for (uint32_t i = 0; i < 40; ++i)
        deliver(pattern(i, 64));
    rte_mbuf* mbufs[64];
    ASSERT_EQ(receive(mbufs, 64), 40u);
    EXPECT_EQ(posted(), 30u);
    EXPECT_EQ(ring->counters.nombuf, 34u);
    rte_mbuf* none[1];
    ASSERT_EQ(receive(none, 1), 0u);
    EXPECT_EQ(ring->counters.nombuf, 34u);
    rte_pktmbuf_free_bulk(mbufs, 40);
    ASSERT_EQ(receive(none, 1), 0u);
    EXPECT_EQ(posted(), 64u);
    expect_traffic(100);
}

TEST_F(VerbsRx, RefusedPostsAreRepeated) {
    start();
    wq.accept = 5;
    for (uint32_t i = 0; i < 20; ++i)
        deliver(pattern(i, 64));
    rte_mbuf* mbufs[64];
    ASSERT_EQ(receive(mbufs, 64), 20u);
    rte_pktmbuf_free_bulk(mbufs, 20);
    EXPECT_EQ(posted(), 49u);
    for (uint32_t i = 0; i < 10; ++i)
        deliver(pattern(i, 64));
    ASSERT_EQ(receive(mbufs, 64), 10u);
    rte_pktmbuf_free_bulk(mbufs, 10);
    EXPECT_EQ(posted(), 39u);
    wq.accept = SIZE_MAX;
    ASSERT_EQ(receive(mbufs, 64), 0u);
    EXPECT_EQ(posted(), 64u);
    expect_traffic(200);
}

TEST_F(VerbsRx, ScatteredEverySize) {
    constexpr size_t kFirst = 256;
    constexpr size_t kNext = 256 + RTE_PKTMBUF_HEADROOM;
    start({.segments = 4, .pool_size = 400, .data_room = kNext});
    EXPECT_STREQ(burst.description, "verbs, scattered");
    for (size_t bytes = 60; bytes <= kFirst + 3 * kNext; ++bytes)
        expect_traffic(1, bytes);
}

TEST_F(VerbsRx, Marks) {
    start({.mark = true});
    const Bytes frame = pattern(1, 64);
    deliver(frame, {.tag = rawqp::kFlowTagNone});
    EXPECT_EQ(receive_one(frame).first, 0u);
    deliver(frame, {.tag = rawqp::kFlowTagFlag});
    EXPECT_EQ(receive_one(frame).first, RTE_MBUF_F_RX_FDIR);
    deliver(frame, {.tag = rawqp::tag_of_mark(77)});
    EXPECT_EQ(receive_one(frame).first, RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID);
    EXPECT_EQ(last_mark, 77u);
}

TEST_F(VerbsRx, NoMarksWithoutAReader) {
    cq.handle.read_flow_tag = nullptr;
    start({.mark = true});
    const Bytes frame = pattern(1, 64);
    deliver(frame, {.tag = rawqp::tag_of_mark(77)});
    EXPECT_EQ(receive_one(frame).first, 0u);
}

// ---------------------------------------------------------------- packet types and checksums

/// Ethernet, optional VLAN tag, IPv4 or IPv6, UDP or TCP with right checksums.
struct Frame {
    bool ipv6 = false;
    bool tcp = false;
    bool vlan = false;
    bool fragment = false;
    uint8_t protocol = 0; ///< other than TCP and UDP

    [[nodiscard]] size_t l3() const { return vlan ? 18 : 14; }
    [[nodiscard]] size_t l4() const { return l3() + (ipv6 ? 40 : 20); }
    [[nodiscard]] size_t l4_checksum() const { return l4() + (tcp ? 16 : 6); }

    [[nodiscard]] Bytes build(size_t payload = 37) const {
        const size_t l4_bytes = (tcp ? 20 : 8) + payload;
        Bytes frame(l4() + l4_bytes);
        for (size_t i = 0; i < frame.size(); ++i)
            frame[i] = static_cast<uint8_t>(i * 11 + 3);
        const uint16_t type = ipv6 ? 0x86dd : 0x0800;
        if (vlan) net::store_be<uint32_t>(&frame[12], 0x81000007);
        net::store_be<uint16_t>(&frame[l3() - 2], type);
        const auto l4_protocol = static_cast<uint8_t>(tcp ? IPPROTO_TCP : IPPROTO_UDP);
        const uint8_t next = protocol != 0 ? protocol : l4_protocol;
        auto* l4_header = &frame[l4()];
        if (tcp)
            l4_header[12] = 0x50;
        else
            net::store_be<uint16_t>(l4_header + 4, static_cast<uint16_t>(l4_bytes));
        net::store_be<uint16_t>(&frame[l4_checksum()], 0);
        uint16_t checksum;
        if (ipv6) {
            auto* ip = reinterpret_cast<rte_ipv6_hdr*>(&frame[l3()]);
            ip->vtc_flow = rte_cpu_to_be_32(0x60000000);
            ip->payload_len = rte_cpu_to_be_16(static_cast<uint16_t>(l4_bytes));
            ip->proto = next;
            checksum = rte_ipv6_udptcp_cksum(ip, l4_header);
        } else {
            auto* ip = reinterpret_cast<rte_ipv4_hdr*>(&frame[l3()]);
            ip->version_ihl = 0x45;
            ip->total_length = rte_cpu_to_be_16(static_cast<uint16_t>(20 + l4_bytes));
            ip->fragment_offset = rte_cpu_to_be_16(fragment ? RTE_IPV4_HDR_MF_FLAG : 0);
            ip->next_proto_id = next;
            ip->hdr_checksum = 0;
            ip->hdr_checksum = rte_ipv4_cksum(ip);
            checksum = rte_ipv4_udptcp_cksum(ip, l4_header);
        }
        memcpy(&frame[l4_checksum()], &checksum, sizeof checksum);
        return frame;
    }
};

constexpr uint64_t kIpGood = RTE_MBUF_F_RX_IP_CKSUM_GOOD;
constexpr uint64_t kIpBad = RTE_MBUF_F_RX_IP_CKSUM_BAD;
constexpr uint64_t kL4Good = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
constexpr uint64_t kL4Bad = RTE_MBUF_F_RX_L4_CKSUM_BAD;

/// The short cut for common headers says what the parser says, whatever the bytes.
TEST_F(VerbsRx, PacketTypesAreThoseOfTheParser) {
    start();
    for (uint32_t seed = 0; seed < 4000; ++seed) {
        Bytes frame = Frame{.ipv6 = (seed & 1) != 0, .tcp = (seed & 2) != 0}.build(seed % 30);
        const size_t spoilt[] = {12, 13, 14, 20, 21, 23};
        if (seed % 5 != 0) frame[spoilt[seed % 6]] = static_cast<uint8_t>(seed / 7);
        if (seed % 11 == 0) frame.resize(14 + seed % 50);
        deliver(frame);
        rte_mbuf* mbuf = nullptr;
        ASSERT_EQ(receive(&mbuf, 1), 1u);
        rte_net_hdr_lens lens;
        EXPECT_EQ(mbuf->packet_type,
                  rte_net_get_ptype(mbuf, &lens,
                                    RTE_PTYPE_L2_MASK | RTE_PTYPE_L3_MASK | RTE_PTYPE_L4_MASK))
            << seed;
        rte_pktmbuf_free(mbuf);
    }
}

TEST_F(VerbsRx, StampsAreTicksOrRealTime) {
    for (const bool real : {false, true}) {
        spec.real_time = real;
        start({.offloads = RTE_ETH_RX_OFFLOAD_TIMESTAMP});
        EXPECT_NE(rawqp::kVerbsFormat.rx_wc_flags(spec) &
                      (real ? IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
                            : IBV_WC_EX_WITH_COMPLETION_TIMESTAMP),
                  0u);
        const int offset = rte_mbuf_dynfield_lookup(RTE_MBUF_DYNFIELD_TIMESTAMP_NAME, nullptr);
        ASSERT_GE(offset, 0);
        deliver(pattern(1, 64), {.ticks = 0x1122334455667788, .wallclock_ns = 1'800'000'000'000});
        rte_mbuf* mbuf = nullptr;
        ASSERT_EQ(receive(&mbuf, 1), 1u);
        EXPECT_EQ(*RTE_MBUF_DYNFIELD(mbuf, offset, uint64_t*),
                  real ? 1'800'000'000'000u : 0x1122334455667788u);
        rte_pktmbuf_free(mbuf);
        if (!real) end();
    }
}

TEST_F(VerbsRx, RefusesStampsThatTheProviderLacks) {
    cq.handle.read_completion_wallclock_ns = nullptr;
    pool = test_eal::make_pool(256);
    spec.cq = &cq.handle;
    spec.wq = &wq.handle;
    spec.descriptors = kDescriptors;
    spec.offloads = RTE_ETH_RX_OFFLOAD_TIMESTAMP;
    spec.real_time = true;
    spec.pool = pool.get();
    spec.mrs = &mrs;
    const auto created = rawqp::kVerbsFormat.rx_create(spec);
    ASSERT_FALSE(created);
    EXPECT_NE(created.error().what.find("no real-time stamps"), std::string::npos);
}

TEST_F(VerbsRx, SplitPacketsHaveEachSegmentFromItsPool) {
    const test_eal::Pool heads = test_eal::make_pool(100, 256);
    const test_eal::Pool bodies = test_eal::make_pool(400, 600);
    spec.split = {{heads.get(), 138, 20},
                  {bodies.get(), 16, 500},
                  {bodies.get(), 16, 500},
                  {bodies.get(), 16, 500}};
    start({.segments = 4, .offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM});
    EXPECT_EQ(rte_mempool_in_use_count(heads.get()), 64u);
    EXPECT_EQ(rte_mempool_in_use_count(bodies.get()), 3 * 64u);
    for (uint32_t round = 0; round < 300; ++round) {
        const uint32_t bytes = 14 + round * 5 % 1506;
        const Bytes frame = pattern(round, bytes);
        deliver(frame);
        rte_mbuf* mbuf = nullptr;
        ASSERT_EQ(receive(&mbuf, 1), 1u);
        EXPECT_EQ(contents(mbuf), frame);
        uint32_t left = bytes;
        for (const rte_mbuf* segment = mbuf; segment != nullptr; segment = segment->next) {
            const bool head = segment == mbuf;
            ASSERT_EQ(segment->pool, head ? heads.get() : bodies.get());
            ASSERT_EQ(segment->data_off, head ? 138 : 16);
            ASSERT_EQ(segment->data_len, std::min(left, head ? 20u : 500u));
            left -= segment->data_len;
        }
        rte_pktmbuf_free(mbuf);
    }
    end();
    EXPECT_EQ(rte_mempool_in_use_count(heads.get()), 0u);
    EXPECT_EQ(rte_mempool_in_use_count(bodies.get()), 0u);
}

TEST_F(VerbsRx, StrippedTags) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_VLAN_STRIP});
    EXPECT_NE(rawqp::kVerbsFormat.rx_wc_flags(spec) & IBV_WC_EX_WITH_CVLAN, 0u);
    EXPECT_EQ(rawqp::kVerbsFormat.rx_wc_flags({}) & IBV_WC_EX_WITH_CVLAN, 0u);
    const Bytes frame = pattern(1, 64);
    for (const uint16_t tag : {0x1001, 0xe000, 0x0fff}) {
        deliver(frame, {.cvlan = tag});
        rte_mbuf* mbuf = nullptr;
        ASSERT_EQ(receive(&mbuf, 1), 1u);
        EXPECT_EQ(mbuf->ol_flags, RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED);
        EXPECT_EQ(mbuf->vlan_tci, tag);
        rte_pktmbuf_free(mbuf);
    }
    deliver(frame);
    EXPECT_EQ(receive_one(frame).first, 0u);
}

TEST_F(VerbsRx, StrippingNeedsAProviderThatReportsTags) {
    spec.offloads = RTE_ETH_RX_OFFLOAD_VLAN_STRIP;
    pool = test_eal::make_pool(256);
    cq.handle.read_cvlan = nullptr;
    spec.cq = &cq.handle;
    spec.wq = &wq.handle;
    spec.descriptors = kDescriptors;
    spec.pool = pool.get();
    spec.mrs = &mrs;
    const auto created = rawqp::kVerbsFormat.rx_create(spec);
    ASSERT_FALSE(created);
    EXPECT_EQ(created.error().code, ENOTSUP);
}

TEST_F(VerbsRx, PacketTypes) {
    start();
    const auto type_of = [&](const Frame& frame) {
        deliver(frame.build());
        return receive_one(frame.build()).second;
    };
    EXPECT_EQ(type_of({}), uint32_t{RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_UDP});
    EXPECT_EQ(type_of({.tcp = true, .vlan = true}),
              uint32_t{RTE_PTYPE_L2_ETHER_VLAN | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_TCP});
    EXPECT_EQ(type_of({.ipv6 = true}),
              uint32_t{RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV6 | RTE_PTYPE_L4_UDP});
    EXPECT_EQ(type_of({.fragment = true}),
              uint32_t{RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_FRAG});
}

TEST_F(VerbsRx, ProvidersWordOnChecksumsIsTaken) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM});
    EXPECT_STREQ(burst.description, "verbs, checksum");
    Bytes frame = Frame{}.build();
    frame[Frame{}.l4_checksum()] ^= 1; // would be found bad if the driver looked
    deliver(frame, {.wc_flags = IBV_WC_IP_CSUM_OK});
    EXPECT_EQ(receive_one(frame).first, kIpGood | kL4Good);
}

TEST_F(VerbsRx, ChecksumsAreVerifiedWhereTheProviderIsSilent) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM});
    for (const bool ipv6 : {false, true}) {
        for (const bool tcp : {false, true}) {
            for (const bool vlan : {false, true}) {
                const Frame frame{.ipv6 = ipv6, .tcp = tcp, .vlan = vlan};
                SCOPED_TRACE(testing::Message() << ipv6 << tcp << vlan);
                const uint64_t ip = ipv6 ? 0 : kIpGood;
                Bytes good = frame.build();
                deliver(good);
                EXPECT_EQ(receive_one(good).first, ip | kL4Good);
                Bytes bad = frame.build();
                bad.back() ^= 0x10;
                deliver(bad);
                EXPECT_EQ(receive_one(bad).first, ip | kL4Bad);
                if (ipv6) continue;
                Bytes header = frame.build();
                header[frame.l3() + 8] ^= 1; // TTL: in the header's sum only
                deliver(header);
                EXPECT_EQ(receive_one(header).first, kIpBad | kL4Good);
            }
        }
    }
}

TEST_F(VerbsRx, ChecksumsThatCannotBeKnown) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM});
    const auto flags_of = [&](const Bytes& frame) {
        deliver(frame);
        return receive_one(frame).first;
    };
    EXPECT_EQ(flags_of(Frame{.fragment = true}.build()), kIpGood);
    EXPECT_EQ(flags_of(Frame{.protocol = 47}.build()), kIpGood);
    EXPECT_EQ(flags_of(pattern(1, 64)), 0u);
    Bytes none = Frame{}.build();
    none[Frame{}.l4_checksum()] = none[Frame{}.l4_checksum() + 1] = 0;
    EXPECT_EQ(flags_of(none), kIpGood | kL4Good) << "UDP without a checksum";
    Bytes runt = Frame{}.build();
    for (const size_t bytes : {14u, 20u, 33u, 34u, 38u}) { // headers cut anywhere
        const Bytes cut(runt.begin(), runt.begin() + static_cast<long>(bytes));
        EXPECT_EQ(flags_of(cut) & kL4Good, 0u) << bytes;
    }
}

constexpr VerbsRxSetup kChecksumOfSegments = {.segments = 4,
                                              .pool_size = 400,
                                              .data_room = 128 + RTE_PKTMBUF_HEADROOM,
                                              .offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM};

TEST_F(VerbsRx, ChecksumOverSeveralSegments) {
    start(kChecksumOfSegments);
    for (const size_t payload : {301u, 400u, 600u}) {
        Bytes frame = Frame{.tcp = true}.build(payload);
        deliver(frame);
        EXPECT_EQ(receive_one(frame).first, kIpGood | kL4Good);
        frame.back() ^= 1;
        deliver(frame);
        EXPECT_EQ(receive_one(frame).first, kIpGood | kL4Bad);
    }
}

/// The headers lie in two segments, so whoever wants them in one piece copies them.
TEST_F(VerbsRx, LongExtensionHeadersOverSeveralSegments) {
    start(kChecksumOfSegments);
    for (const size_t options : {8u, 64u, 256u}) {
        Bytes frame = Frame{.ipv6 = true, .protocol = IPPROTO_DSTOPTS}.build();
        Bytes header(options);
        header[0] = IPPROTO_UDP;
        header[1] = static_cast<uint8_t>(options / 8 - 1);
        frame.insert(frame.begin() + 14 + 40, header.begin(), header.end());
        deliver(frame);
        const auto [flags, type] = receive_one(frame);
        EXPECT_EQ(type & (RTE_PTYPE_L3_MASK | RTE_PTYPE_L4_MASK),
                  RTE_PTYPE_L3_IPV6_EXT | RTE_PTYPE_L4_UDP);
        EXPECT_EQ(flags, 0u) << options;
    }
}

TEST_F(VerbsRx, OnlyEnabledChecksumsAreTold) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM});
    const Bytes frame = Frame{}.build();
    deliver(frame);
    EXPECT_EQ(receive_one(frame).first, kIpGood);
}

// ---------------------------------------------------------------- errors

TEST_F(VerbsRx, ErrorResetsTheQueue) {
    start();
    expect_traffic(37);
    deliver(pattern(1, 64));
    break_queue(IBV_WC_LOC_LEN_ERR);
    rte_mbuf* mbufs[8];
    ASSERT_EQ(receive(mbufs, 8), 1u);
    rte_pktmbuf_free(mbufs[0]);
    EXPECT_EQ(resets, 1);
    EXPECT_EQ(ring->counters.errors, 1u);
    EXPECT_EQ(ring->counters.recoveries, 1u);
    EXPECT_TRUE(cq.queue.empty());
    EXPECT_EQ(posted(), 64u);
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 64u);
    expect_traffic(300);
}

TEST_F(VerbsRx, FlushAloneLosesNoPacket) {
    start({.segments = 2, .data_room = 256 + RTE_PKTMBUF_HEADROOM});
    expect_traffic(30, 100);
    break_queue(IBV_WC_WR_FLUSH_ERR);
    rte_mbuf* mbufs[8];
    ASSERT_EQ(receive(mbufs, 8), 0u);
    EXPECT_EQ(ring->counters.errors, 0u);
    expect_traffic(100, 500);
}

TEST_F(VerbsRx, FailingResetLeavesTheQueueDeadForAWhile) {
    start();
    reset_result = -EIO;
    break_queue(IBV_WC_LOC_PROT_ERR);
    rte_mbuf* mbufs[8];
    while (resets < 3)
        ASSERT_EQ(receive(mbufs, 8), 0u);
    EXPECT_EQ(ring->counters.errors, 1u);
    EXPECT_EQ(ring->counters.recoveries, 0u);
    reset_result = 0;
    while (resets < 4)
        ASSERT_EQ(receive(mbufs, 8), 0u);
    expect_traffic(100);
}

TEST_F(VerbsRx, StopAndStartAgain) {
    start();
    for (int round = 0; round < 4; ++round) {
        expect_traffic(50);
        deliver(pattern(0, 64));
        cq.queue.push_back({.status = IBV_WC_WR_FLUSH_ERR});
        EXPECT_EQ(rawqp::kVerbsFormat.rx_stop(*ring), 1u) << "received, never polled";
        EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
        wq.posted.clear();
        filled = 0;
        ASSERT_TRUE(rawqp::kVerbsFormat.rx_start(*ring));
        EXPECT_TRUE(cq.queue.empty());
    }
}

} // namespace
} // namespace rings_test
