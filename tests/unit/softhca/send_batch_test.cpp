// SPDX-License-Identifier: BSD-3-Clause
// Send requests with several packets: these leave as one batch where possible, and otherwise one by
// one, like packets with separate requests.
#include "tests/unit/softhca/testbed.hpp"

#include <cstring>
#include <tuple>

namespace testbed {
namespace {

using frames::Spec;

/// Requests with several packets, which leave as one batch.
class SendBatch : public Testbed {
  protected:
    void send(const std::vector<Bytes>& packets, uint8_t cs_flags = 0) {
        Wqe wqe(mlx5::WqeOpcode::enhanced_mpw);
        wqe.eth(cs_flags);
        for (size_t i = 0; i < packets.size(); i++)
            wqe.data(lkey, put(i * kRoom, packets[i]), static_cast<uint32_t>(packets[i].size()));
        send(wqe);
    }
    void send(const Wqe& wqe) {
        sq.post(wqe);
        sq.ring_doorbell();
        run();
    }
    static Bytes to(const frames::Mac& mac) {
        Spec spec;
        spec.dst = mac;
        return frames::build(spec);
    }
};

TEST_F(SendBatch, GroupAddressesAreCounted) {
    const Bytes one = to(frames::kPeerMac), many = to({0x01, 0, 0x5e, 0, 0, 1}),
                all = to({0xff, 0xff, 0xff, 0xff, 0xff, 0xff});
    send({one, many, all, many});
    EXPECT_EQ(wire->sent, (std::vector<Bytes>{one, many, all, many}));
    const GroupCounters groups = device->group_counters();
    EXPECT_EQ(groups.tx_multicast.packets, 2u);
    EXPECT_EQ(groups.tx_multicast.bytes, 2 * many.size());
    EXPECT_EQ(groups.tx_broadcast.packets, 1u);
    EXPECT_EQ(device->counters().wire_tx_packets, 4u);
}

TEST_F(SendBatch, PrioritiesOfTagsAreCounted) {
    const auto tagged = [](uint16_t tci) {
        Spec spec;
        spec.tags = {{0x8100, tci}};
        return frames::build(spec);
    };
    const Bytes plain = to(frames::kPeerMac), two = tagged(2 << 13 | 9), seven = tagged(7 << 13);
    send({two, plain, seven, seven});
    Wqe in_pieces(mlx5::WqeOpcode::send); // a separate request, with the tag in the second piece
    in_pieces.eth(0, Bytes(two.begin(), two.begin() + 12));
    in_pieces.data(lkey, put(0, Bytes(two.begin() + 12, two.end())),
                   static_cast<uint32_t>(two.size() - 12));
    send(in_pieces);
    Wqe inserted(mlx5::WqeOpcode::send);
    inserted.eth_vlan(4 << 13 | 9);
    inserted.data(lkey, put(0, plain), static_cast<uint32_t>(plain.size()));
    send(inserted);
    ASSERT_EQ(wire->sent.size(), 6u);
    EXPECT_EQ(wire->sent[4], two);
    const auto priorities = device->frame_counters().tx_priorities;
    const std::array<uint64_t, 8> packets{1, 0, 2, 0, 1, 0, 0, 2};
    for (size_t i = 0; i < priorities.size(); i++)
        EXPECT_EQ(priorities[i].packets, packets[i]) << i;
    EXPECT_EQ(priorities[0].bytes, plain.size());
    EXPECT_EQ(priorities[2].bytes, 2 * two.size());
    EXPECT_EQ(priorities[4].bytes, plain.size() + 4);
    EXPECT_EQ(priorities[7].bytes, 2 * seven.size());
}

TEST_F(SendBatch, WhatTheWireLosesIsCounted) {
    wire->lossy = true;
    const Bytes frame = to(frames::kPeerMac);
    send({frame, frame, frame});
    EXPECT_EQ(device->counters().drop_tx_wire, 3u);
    EXPECT_EQ(device->counters().wire_tx_packets, 0u);
    EXPECT_EQ(device->sq_counters(sq.number)->packets, 3u);
}

TEST_F(SendBatch, ABusyWireGetsTheRestLater) {
    const std::vector<Bytes> packets = {to(frames::kPeerMac), to(frames::kOurMac),
                                        to({2, 0, 0, 0, 0, 3})};
    wire->room = 2;
    send(packets);
    EXPECT_EQ(wire->sent.size(), 2u);
    EXPECT_EQ(tx_cq.poll(), nullptr);
    wire->room = SIZE_MAX;
    run();
    EXPECT_EQ(wire->sent, packets);
    EXPECT_NE(tx_cq.poll(), nullptr);
}

TEST_F(SendBatch, ARequestMayBecomeShorterWhileItIsSent) {
    constexpr uint32_t kPackets = 50, kFirst = 40;
    const Bytes frame = frames::pattern(100);
    Wqe longer(mlx5::WqeOpcode::enhanced_mpw), shorter(mlx5::WqeOpcode::enhanced_mpw);
    longer.eth();
    shorter.eth();
    const std::byte* const at = put(0, frame);
    for (uint32_t i = 0; i < kPackets; i++)
        longer.data(lkey, at, 100);
    shorter.data(lkey, at, 100);
    wire->room = kFirst;
    const uint16_t index = sq.post(longer);
    sq.ring_doorbell();
    run();
    ASSERT_EQ(wire->sent.size(), kFirst);
    const uint16_t after = sq.producer;
    sq.producer = index; // overwrites the request
    sq.post(shorter);
    sq.producer = after;
    wire->room = SIZE_MAX;
    run();
    EXPECT_EQ(wire->sent.size(), kFirst);
    EXPECT_EQ(device->sq_counters(sq.number)->packets, kFirst);
    EXPECT_NE(tx_cq.poll(), nullptr);
}

/// Each byte of the key is a separate part: the frame has more pieces than a wire takes.
TEST_F(SendBatch, APacketInTooManyPiecesFails) {
    const std::vector<KeyPart> bytes(400, {lkey, reinterpret_cast<uint64_t>(memory_at(0)), 1});
    const uint32_t key =
        device->create_mkey({.pd = pd, .length = bytes.size(), .memory = {}, .parts = bytes})
            .value();
    const Bytes first = frames::pattern(100);
    Wqe wqe(mlx5::WqeOpcode::enhanced_mpw);
    wqe.eth().data(lkey, put(0, first), 100).data(key, nullptr, 400);
    send(wqe);
    EXPECT_EQ(wire->sent, (std::vector<Bytes>{first}));
    EXPECT_NE(tx_cq.poll_error(mlx5::CqeOpcode::req_error), nullptr);
}

TEST_F(SendBatch, SniffersGetEachPacket) {
    steer_all(rq, FlowDomain::sniffer);
    post_buffers(rq, 2);
    const Bytes first = to(frames::kPeerMac), second = to(frames::kOurMac);
    send({first, second});
    for (const Bytes& frame : {first, second}) {
        EXPECT_EQ(packet_of(expect_packet(rx_cq)), frame);
        rx_cq.release();
    }
}

TEST_F(SendBatch, ChecksumsAreFilledInEachPacket) {
    std::vector<Bytes> right, wrong;
    for (uint8_t i = 0; i < 3; i++) {
        Spec spec;
        spec.payload = Bytes(40 + i, i);
        right.push_back(frames::build(spec));
        wrong.push_back(right.back());
        frames::put16(wrong.back(), 14 + 10, 0xdead);
        frames::put16(wrong.back(), 14 + 20 + 6, 0xbeef);
    }
    send(wrong, mlx5::kCsL3 | mlx5::kCsL4);
    EXPECT_EQ(wire->sent, right);
}

TEST_F(SendBatch, APacketInTwoPagesBesideWholeOnes) {
    constexpr size_t kPage = 4096;
    const Pages region(4 * kPage);
    const uint32_t key = device
                             ->create_mkey({.pd = pd,
                                            .iova = reinterpret_cast<uint64_t>(region.data()),
                                            .length = region.size(),
                                            .memory = region.paged_area()})
                             .value();
    std::vector<Bytes> packets;
    Wqe wqe(mlx5::WqeOpcode::enhanced_mpw);
    wqe.eth();
    for (const size_t at : {size_t{0}, kPage - 50, 2 * kPage}) {
        packets.push_back(frames::pattern(100, static_cast<uint8_t>(packets.size())));
        std::memcpy(region.data() + at, packets.back().data(), packets.back().size());
        wqe.data(key, region.data() + at, 100);
    }
    send(wqe);
    EXPECT_EQ(wire->sent, packets);
}

TEST_F(SendBatch, ThePortHearsItself) {
    device->set_loopback({.unicast = true, .multicast = true});
    steer_all(rq);
    post_buffers(rq, 2);
    const Bytes ours = to(frames::kOurMac), theirs = to(frames::kPeerMac);
    send({ours, theirs, ours});
    EXPECT_EQ(wire->sent, (std::vector<Bytes>{theirs}));
    EXPECT_EQ(device->counters().loopback_packets, 2u);
}

TEST_F(SendBatch, RulesDropWhatIsSent) {
    FlowAttr drop;
    drop.domain = FlowDomain::egress;
    drop.mask.outer.src_port = 0xffff;
    drop.value.outer.src_port = 7;
    drop.drop = true;
    ASSERT_TRUE(device->create_flow(drop));
    Spec spec;
    const Bytes passes = frames::build(spec);
    spec.src_port = 7;
    send({frames::build(spec), passes, frames::build(spec)});
    EXPECT_EQ(wire->sent, (std::vector<Bytes>{passes}));
    EXPECT_EQ(device->counters().drop_tx_rule, 2u);
}

TEST_F(SendBatch, ShortPacketsArePadded) {
    const Bytes usual = frames::pattern(100), small = frames::pattern(20);
    send({usual, small});
    EXPECT_EQ(wire->sent, (std::vector<Bytes>{usual, frames::padded(small)}));
}

TEST_F(SendBatch, PacketsThatAreTooLongAreDropped) {
    const uint32_t most = device->mtu() + 14u + 4u;
    const Bytes longest = frames::pattern(most), beyond = frames::pattern(most + 1);
    send({longest, beyond, longest});
    EXPECT_EQ(wire->sent, (std::vector<Bytes>{longest, longest}));
    EXPECT_EQ(device->counters().drop_tx_oversize, 1u);
}

TEST_F(SendBatch, ARoundSendsPartsOfLongRequests) {
    TestSq longer(*device, pd, tx_cq.number, 7);
    std::vector<Bytes> packets;
    uint64_t bytes = 0;
    for (int request = 0; request < 6; request++) {
        Wqe wqe(mlx5::WqeOpcode::enhanced_mpw);
        wqe.eth();
        for (int i = 0; i < 50; i++) {
            const size_t number = packets.size(), length = 60 + number % 5;
            packets.push_back(frames::pattern(length, static_cast<uint8_t>(number)));
            wqe.data(lkey, put(number * 64, packets.back()), static_cast<uint32_t>(length));
            bytes += length;
        }
        longer.post(wqe);
    }
    longer.ring_doorbell();
    std::ignore = device->poll();
    EXPECT_EQ(wire->sent.size(), 128u) << "what a queue may send in a round";
    run();
    EXPECT_EQ(wire->sent, packets);
    EXPECT_EQ(device->sq_counters(longer.number)->bytes, bytes);
}

} // namespace
} // namespace testbed
