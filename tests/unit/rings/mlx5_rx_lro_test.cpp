// SPDX-License-Identifier: BSD-3-Clause
// Packets that the device has merged from TCP segments: the mbufs hold what a single packet with
// the whole payload would, which is built here from scratch.
#include "drivers/net/rawqp/rings/mlx5/rx_lro.hpp"
#include "tests/unit/rings/killed.hpp"
#include "tests/unit/rings/mlx5_rx.hpp"

#include <numeric>
#include <random>

namespace rings_test {
namespace {

/// What may differ between packets.
struct Tcp {
    bool ipv6 = false;
    uint32_t tags = 0;
    uint32_t options = 0; ///< bytes
    uint8_t ttl = 64;
    uint32_t ack = 1;
    uint16_t window = 2;
    bool push = false;

    [[nodiscard]] size_t l3() const { return 14 + 4 * tags; }
    [[nodiscard]] size_t l4() const { return l3() + (ipv6 ? 40 : 20); }
    [[nodiscard]] size_t payload() const { return l4() + 20 + options; }
};

/// RFC 1071, word by word.
uint32_t sum_of(const Bytes& bytes, size_t from, size_t to) {
    uint32_t sum = 0;
    for (size_t i = from; i < to; ++i)
        sum += i % 2 == from % 2 ? bytes[i] * 256u : bytes[i];
    return sum;
}
uint16_t folded(uint32_t sum) {
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<uint16_t>(sum);
}
uint16_t inverse(uint32_t sum) { return static_cast<uint16_t>(~folded(sum)); }

template <class T> void put(Bytes& frame, size_t at, T value) { net::store_be(&frame[at], value); }

Bytes build(const Tcp& tcp, const Bytes& payload) {
    Bytes frame(tcp.payload());
    std::iota(frame.begin(), frame.end(), uint8_t{1});
    for (uint32_t tag = 0; tag < tcp.tags; ++tag)
        put<uint16_t>(frame, 12 + 4 * tag, tag == 0 && tcp.tags > 1 ? 0x88a8 : 0x8100);
    put<uint16_t>(frame, tcp.l3() - 2, tcp.ipv6 ? 0x86dd : 0x0800);
    const size_t ip = tcp.l3(), l4 = tcp.l4();
    frame.insert(frame.end(), payload.begin(), payload.end());
    const auto behind_ip = static_cast<uint16_t>(frame.size() - l4);
    if (tcp.ipv6) {
        put<uint32_t>(frame, ip, 0x6ab12345);
        put<uint16_t>(frame, ip + 4, behind_ip);
        frame[ip + 6] = IPPROTO_TCP;
        frame[ip + 7] = tcp.ttl;
    } else {
        frame[ip] = 0x45;
        put<uint16_t>(frame, ip + 2, static_cast<uint16_t>(20 + behind_ip));
        frame[ip + 8] = tcp.ttl;
        frame[ip + 9] = IPPROTO_TCP;
        put<uint16_t>(frame, ip + 10, 0);
        put<uint16_t>(frame, ip + 10, inverse(sum_of(frame, ip, ip + 20)));
    }
    put<uint32_t>(frame, l4 + 8, tcp.ack);
    frame[l4 + 12] = static_cast<uint8_t>((20 + tcp.options) / 4 << 4);
    frame[l4 + 13] = tcp.push ? 0x18 : 0x10;
    put<uint16_t>(frame, l4 + 14, tcp.window);
    put<uint16_t>(frame, l4 + 16, 0);
    const uint32_t pseudo =
        sum_of(frame, tcp.ipv6 ? ip + 8 : ip + 12, l4) + IPPROTO_TCP + behind_ip;
    put<uint16_t>(frame, l4 + 16, inverse(pseudo + sum_of(frame, l4, frame.size())));
    return frame;
}

/// Segments of a flow: what the device stores and reports of them, and the packet that results.
struct Session {
    Tcp first, last;
    std::vector<Bytes> payloads;
    uint8_t min_ttl = 64;

    [[nodiscard]] Bytes all() const {
        Bytes bytes;
        for (const Bytes& each : payloads)
            bytes.insert(bytes.end(), each.begin(), each.end());
        return bytes;
    }
    [[nodiscard]] Bytes in_memory() const {
        Bytes bytes = build(first, payloads.front());
        for (size_t i = 1; i < payloads.size(); ++i)
            bytes.insert(bytes.end(), payloads[i].begin(), payloads[i].end());
        return bytes;
    }
    [[nodiscard]] Bytes whole() const {
        Tcp tcp = last;
        tcp.ttl = min_ttl;
        return build(tcp, all());
    }
    [[nodiscard]] mlx5::Cqe cqe() const {
        const Bytes payload = all();
        mlx5::Cqe cqe{};
        cqe.lro = {.tcppsh_abort_dupack = last.push ? mlx5::kLroPush : uint8_t{0},
                   .min_ttl = min_ttl,
                   .tcp_win = last.window,
                   .ack_seq_num = last.ack};
        cqe.check_sum = folded(sum_of(payload, 0, payload.size()));
        cqe.srqn_uidx = static_cast<uint32_t>(payloads.size()) << mlx5::kLroSegmentsShift | 0x1234;
        cqe.hds_ip_ext = mlx5::kL2Ok | mlx5::kL3Ok | mlx5::kL4Ok;
        const auto l3 = first.ipv6 ? mlx5::CqeL3::ipv6 : mlx5::CqeL3::ipv4;
        cqe.l4_l3_type = static_cast<uint8_t>(static_cast<uint8_t>(l3) << 2 |
                                              static_cast<uint8_t>(mlx5::CqeL4::tcp_ack_data) << 4);
        return cqe;
    }
};

Session random_session(std::mt19937& random, size_t segments, size_t most) {
    Session session;
    Tcp& first = session.first;
    first.ipv6 = random() % 2 != 0;
    first.tags = random() % 4;
    first.options = random() % 2 != 0 ? 12 : 0;
    session.last = first;
    first.ttl = static_cast<uint8_t>(random());
    first.ack = random();
    first.window = static_cast<uint16_t>(random());
    first.push = random() % 2 != 0;
    session.min_ttl = static_cast<uint8_t>(random() % (first.ttl + 1u));
    session.last.ack = random();
    session.last.window = static_cast<uint16_t>(random());
    session.last.push = random() % 2 != 0;
    const size_t each = 1 + random() % (most / segments);
    for (size_t i = 0; i < segments; ++i) {
        Bytes payload(i + 1 < segments ? each : 1 + random() % each);
        std::generate(payload.begin(), payload.end(),
                      [&] { return static_cast<uint8_t>(random()); });
        session.payloads.push_back(payload);
    }
    return session;
}

Bytes bytes_of(const rte_mbuf& packet) {
    Bytes bytes(packet.pkt_len);
    const void* const data = rte_pktmbuf_read(&packet, 0, packet.pkt_len, bytes.data());
    if (data != bytes.data()) std::memcpy(bytes.data(), data, bytes.size());
    return bytes;
}

constexpr uint64_t kLro = RTE_ETH_RX_OFFLOAD_TCP_LRO | RTE_ETH_RX_OFFLOAD_CHECKSUM;

/// One mbuf per packet, or several.
class Mlx5RxLro : public Mlx5Rx, public testing::WithParamInterface<uint8_t> {
  protected:
    void start() {
        const uint8_t segments = GetParam();
        const auto room =
            static_cast<uint16_t>(RTE_PKTMBUF_HEADROOM + (segments == 1 ? 2300 : 300));
        Mlx5Rx::start({.descriptors = static_cast<uint16_t>(64 * segments),
                       .segments = segments,
                       .pool_size = 64u * segments + 64,
                       .data_room = room,
                       .offloads = kLro});
    }
    /// The packet received for this frame and CQE; null: none.
    rte_mbuf* received(const Bytes& frame, const mlx5::Cqe& cqe) {
        deliver(frame, cqe);
        rte_mbuf* packet = nullptr;
        EXPECT_EQ(receive(&packet, 1), 1u);
        return packet;
    }
};
INSTANTIATE_TEST_SUITE_P(Segments, Mlx5RxLro, testing::Values(1, 8));

TEST_P(Mlx5RxLro, ABurstOfItsOwn) {
    start();
    EXPECT_STREQ(burst.description, GetParam() == 1 ? "mlx5 scalar, offloads, LRO"
                                                    : "mlx5 scalar, scattered, offloads, LRO");
}

TEST_P(Mlx5RxLro, RandomSegmentsBecomeOnePacket) {
    start();
    std::mt19937 random(1); // NOLINT: the same each time
    for (int i = 0; i < 500; ++i) {
        const size_t segments = 2 + random() % 20;
        const Session session = random_session(random, segments, 2100);
        rte_mbuf* const packet = received(session.in_memory(), session.cqe());
        ASSERT_NE(packet, nullptr);
        ASSERT_EQ(bytes_of(*packet), session.whole()) << "packet " << i;
        ASSERT_NE(packet->ol_flags & RTE_MBUF_F_RX_LRO, 0u);
        ASSERT_NE(packet->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_GOOD, 0u);
        ASSERT_EQ(packet->nb_segs > 1, GetParam() > 1 && packet->pkt_len > 300);
        // All segments but the last have this size, unless the last one is much smaller.
        const size_t payload = session.all().size();
        ASSERT_EQ(packet->tso_segsz, (payload + segments - 1) / segments);
        rte_pktmbuf_free(packet);
    }
}

TEST_P(Mlx5RxLro, SegmentsOfOneSizeAreToldApart) {
    start();
    Session session;
    session.payloads.assign(5, Bytes(400, 7));
    rte_mbuf* const packet = received(session.in_memory(), session.cqe());
    EXPECT_EQ(packet->tso_segsz, 400u);
    rte_pktmbuf_free(packet);
}

TEST_P(Mlx5RxLro, OtherPacketsStayAsTheyAre) {
    start();
    std::mt19937 random(2); // NOLINT: the same each time
    for (const uint32_t segments : {0u, 1u}) {
        const Session session = random_session(random, 1, 1400);
        mlx5::Cqe cqe = session.cqe();
        cqe.srqn_uidx = segments << mlx5::kLroSegmentsShift | 0xffffff;
        rte_mbuf* const packet = received(session.in_memory(), cqe);
        EXPECT_EQ(bytes_of(*packet), session.in_memory());
        EXPECT_EQ(packet->ol_flags & RTE_MBUF_F_RX_LRO, 0u);
        rte_pktmbuf_free(packet);
    }
}

/// No device reports LRO for these, but nothing outside of the packet may be written.
TEST_P(Mlx5RxLro, WhatIsNoTcpStaysAsItIs) {
    start();
    Session session;
    session.payloads.assign(2, Bytes(100, 7));
    const Bytes sound = session.in_memory();
    std::vector<Bytes> frames(4, sound);
    put<uint16_t>(frames[0], 12, 0x0806);      // not IP
    frames[1][session.first.l4() + 12] = 0x40; // a TCP header of 16 bytes
    frames[2].resize(session.first.payload()); // no payload
    for (size_t at = 12; at < 40; at += 4)     // endless tags
        put<uint16_t>(frames[3], at, 0x8100);
    for (const Bytes& frame : frames) {
        rte_mbuf* const packet = received(frame, session.cqe());
        EXPECT_EQ(bytes_of(*packet), frame);
        EXPECT_EQ(packet->ol_flags & RTE_MBUF_F_RX_LRO, 0u);
        rte_pktmbuf_free(packet);
    }
}

TEST_F(Mlx5Rx, LroWantsHeadersInOneMbuf) {
    cq.emplace(64);
    rq.emplace(64, 1);
    pool = test_eal::make_pool(127, RTE_PKTMBUF_HEADROOM + 127);
    spec.api = &fake_api();
    spec.cq = &cq->handle;
    spec.wq = &rq->handle;
    spec.descriptors = 64;
    spec.offloads = kLro;
    spec.pool = pool.get();
    spec.mrs = &mrs.table;
    const auto created = rawqp::kMlx5Format.rx_create(spec);
    ASSERT_FALSE(created);
    EXPECT_THAT(created.error().what, testing::HasSubstr("use mbufs with 128 or more"));
}

#if defined(__x86_64__)
/// A process is killed while it completes headers, and another one does it again.
TEST_F(Mlx5Rx, LroIsToldAgainAfterAKill) {
    StepByStep step_by_step{mrs};
    const test_eal::Pool mbufs = test_eal::make_pool(1);
    std::mt19937 random(3); // NOLINT: the same each time
    for (int i = 0; i < 4; ++i) {
        Session session = random_session(random, 3, 1200);
        session.first.ipv6 = session.last.ipv6 = i % 2 != 0;
        const Bytes before = session.in_memory(), whole = session.whole();
        const mlx5::Cqe cqe = session.cqe();
        kill_everywhere([&] {
            rte_mbuf* const packet = rte_pktmbuf_alloc(mbufs.get());
            std::memcpy(rte_pktmbuf_append(packet, static_cast<uint16_t>(before.size())),
                        before.data(), before.size());
            const auto tell = [&] { rawqp::mlx5rings::tell_lro(cqe, *packet); };
            (void)step_by_step.run(tell);
            tell();
            EXPECT_EQ(bytes_of(*packet), whole);
            EXPECT_NE(packet->ol_flags & RTE_MBUF_F_RX_LRO, 0u);
            rte_pktmbuf_free(packet);
        });
    }
}
#endif

} // namespace
} // namespace rings_test
