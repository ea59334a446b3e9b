// SPDX-License-Identifier: BSD-3-Clause
// Virtio queues: checksums, segmentation, events and counters.
#include "tests/unit/softhca/refusal.hpp"
#include "tests/unit/softhca/virtq.hpp"

#include <algorithm>

namespace testbed {
namespace {

constexpr uint16_t kL4 = 34; // after the Ethernet and IPv4 headers
constexpr uint16_t kUdpField = 6, kTcpField = 16;

class VirtioOffloadTest : public VirtioTest {
  protected:
    [[nodiscard]] VirtqAttr with_offloads() const {
        VirtqAttr attr = ring.attr(true);
        attr.checksums = attr.tso_ipv4 = attr.tso_ipv6 = true;
        return attr;
    }
    /// As a driver leaves the checksum to the device: its field has the pseudo-header's sum only.
    static Bytes begun(Bytes frame, uint16_t l4, uint16_t field) {
        const uint32_t right = frames::get16(frame, l4 + field);
        frames::put16(frame, l4 + field, 0);
        const uint32_t rest =
            static_cast<uint16_t>(~frames::slow_checksum({frame.begin() + l4, frame.end()}));
        uint32_t pseudo = (~right & 0xffff) + (~rest & 0xffff); // ~right = pseudo + rest
        pseudo = (pseudo & 0xffff) + (pseudo >> 16);
        frames::put16(frame, l4 + field, static_cast<uint16_t>(pseudo));
        return frame;
    }
    void expect_completed(const Bytes& frame, uint16_t l4, uint16_t field) {
        ASSERT_NE(begun(frame, l4, field), frame);
        post(begun(frame, l4, field),
             {.flags = virtio::kNeedsChecksum, .checksum_start = l4, .checksum_offset = field});
        run();
        ASSERT_FALSE(wire->sent.empty());
        EXPECT_EQ(sent_last(), frame);
    }
};

TEST_F(VirtioOffloadTest, ChecksumsAreCompleted) {
    (void)start(with_offloads());
    expect_completed(frames::build({}), kL4, kUdpField);
    expect_completed(frames::build({.payload = frames::pattern(101)}), kL4, kUdpField);
    expect_completed(frames::build({.proto = frames::kTcp}), kL4, kTcpField);
    frames::Spec v6 = frames::ipv6_spec();
    expect_completed(frames::build(v6), 54, kUdpField);
    v6.tags = {{0x8100, 5}};
    expect_completed(frames::build(v6), 58, kUdpField);
    post(frames::build({.udp_checksum = false})); // its checksum is not requested
    run();
    EXPECT_EQ(sent_last(), frames::build({.udp_checksum = false}));
}

TEST_F(VirtioOffloadTest, TcpIsSegmented) {
    constexpr uint16_t kMss = 500;
    (void)start(with_offloads());
    const Bytes payload = frames::pattern(1300, 3);
    for (const int version : {4, 6}) {
        frames::Spec spec = version == 4 ? frames::Spec{} : frames::ipv6_spec();
        spec.proto = frames::kTcp;
        spec.tcp_flags = frames::kAck | frames::kPsh;
        spec.payload = payload;
        Bytes whole = frames::build(spec);
        if (version == 4) frames::put16(whole, 24, 0); // does not count, like the length
        std::vector<Bytes> segments;
        for (uint32_t at = 0; at < payload.size(); at += kMss) {
            frames::Spec segment = spec;
            const bool last = at + kMss >= payload.size();
            segment.payload = {payload.begin() + at,
                               last ? payload.end() : payload.begin() + at + kMss};
            segment.sequence += at;
            segment.ip_id = static_cast<uint16_t>(spec.ip_id + at / kMss);
            if (!last) segment.tcp_flags = frames::kAck;
            segments.push_back(frames::build(segment));
        }
        // The wire stops after the first one; header_bytes is a hint, and wrong here.
        wire->sent.clear();
        wire->room = 1;
        post(whole, {.flags = virtio::kNeedsChecksum,
                     .gso_type = version == 4 ? virtio::kGsoTcp4 : virtio::kGsoTcp6,
                     .header_bytes = 1,
                     .segment_bytes = kMss});
        run();
        EXPECT_FALSE(ring.used());
        wire->room = SIZE_MAX;
        run();
        EXPECT_EQ(wire->sent, segments) << version;
        EXPECT_TRUE(ring.used());
    }
}

/// Another queue continues where this one stopped: nothing may leave twice.
TEST_F(VirtioOffloadTest, AChainEndsWithItsQueue) {
    constexpr uint16_t kMss = 500;
    const frames::Spec spec{.proto = frames::kTcp, .payload = frames::pattern(1900, 3)};
    const NetHeader header{
        .flags = virtio::kNeedsChecksum, .gso_type = virtio::kGsoTcp4, .segment_bytes = kMss};
    for (const size_t room : {3u, 1u}) { // segments that the wire takes in all
        DriverRing chains(memory_at(kSendRing));
        VirtqAttr attr = with_offloads();
        const Number first = start(attr);
        wire->sent.clear();
        wire->room = 1;
        const uint64_t lost = device->counters().drop_tx_wire;
        chains.post({this->header(header), part(0x100, frames::build(spec))}, false);
        run();
        ASSERT_EQ(wire->sent.size(), 1u);
        wire->room = room;
        ASSERT_TRUE(device->modify_virtq(first, VirtqState::suspended));
        EXPECT_EQ(wire->sent.size(), room);
        EXPECT_EQ(device->counters().drop_tx_wire - lost, 4 - room);
        EXPECT_TRUE(chains.used());
        EXPECT_EQ(status(first).next_available, 1u);
        EXPECT_EQ(status(first).next_used, 1u);
        attr.next_available = status(first).next_available;
        attr.next_used = status(first).next_used;
        const Number second = start(attr);
        wire->room = SIZE_MAX;
        run();
        EXPECT_EQ(wire->sent.size(), room);
        ASSERT_TRUE(device->destroy_virtq(first));
        ASSERT_TRUE(device->destroy_virtq(second));
    }
}

/// A fault that is found then puts the queue into error as usual.
TEST_F(VirtioOffloadTest, TheEndOfAChainMayBeAFault) {
    const Number queue = start(with_offloads());
    wire->room = 1;
    post(frames::build({.proto = frames::kTcp, .payload = frames::pattern(1900, 3)}),
         {.flags = virtio::kNeedsChecksum, .gso_type = virtio::kGsoTcp4, .segment_bytes = 500});
    run();
    ring.descriptor(0).flags = 0; // nothing after the header
    EXPECT_EQ(refusal(device->modify_virtq(queue, VirtqState::suspended)), Status::bad_state);
    EXPECT_EQ(status(queue).state, VirtqState::error);
    EXPECT_EQ(status(queue).fault, VirtqFault::invalid_buffer);
}

TEST_F(VirtioOffloadTest, WhatIsRightIsSaid) {
    const Bytes right = frames::build({});
    Bytes wrong = right;
    wrong.back() ^= 1;
    const Bytes neither = frames::build({.ip = 0});
    VirtqAttr attr = receive_ring.attr(false);
    attr.checksums = true;
    steer_to(start(attr));
    const std::pair<Bytes, bool> expected[] = {{right, true}, {wrong, false}, {neither, false}};
    for (const auto& [frame, sound] : expected) {
        receive_ring.post({{memory_at(kBuffers), 2000}}, true);
        arrive(frame);
        EXPECT_EQ(get(memory_at(kBuffers), 1)[0], sound ? virtio::kDataValid : 0);
    }
}

TEST_F(VirtioOffloadTest, WithoutTheFeatureNothingIsSaid) {
    steer_to(start(receive_ring.attr(false)));
    receive_ring.post({{memory_at(kBuffers), 2000}}, true);
    arrive(frames::build({}));
    EXPECT_EQ(get(memory_at(kBuffers), 1)[0], 0);
}

class VirtioEventTest : public VirtioTest {
  protected:
    [[nodiscard]] VirtqAttr with_events(VirtqAttr attr) const {
        attr.events = rq.number;
        return attr;
    }
    [[nodiscard]] uint64_t told() const { return device->rq_counters(rq.number)->cqes; }
};

TEST_F(VirtioEventTest, TheRqHearsOfUsedChains) {
    const Number sender = start(with_events(ring.attr(true)));
    const Number receiver = start(with_events(receive_ring.attr(false)));
    steer_to(receiver);
    post_buffers(rq, 2);
    run();
    EXPECT_EQ(rx_cq.poll(), nullptr);
    post(frames::build({}));
    run();
    const mlx5::Cqe* cqe = rx_cq.poll();
    ASSERT_NE(cqe, nullptr);
    EXPECT_EQ(TestCq::opcode(*cqe), mlx5::CqeOpcode::resp_send);
    EXPECT_EQ(cqe->byte_count, 0u);
    EXPECT_EQ(cqe->wqe_counter, 0u);
    receive_ring.post({{memory_at(kBuffers), 2000}}, true);
    arrive(frames::build({}));
    cqe = rx_cq.poll();
    ASSERT_NE(cqe, nullptr);
    EXPECT_EQ(cqe->wqe_counter, 1u);
    EXPECT_EQ(rx_cq.poll(), nullptr);
    EXPECT_EQ(refusal(device->destroy_rq(rq.number)), Status::busy);
    EXPECT_TRUE(device->destroy_virtq(sender));
}

TEST_F(VirtioEventTest, OneEventTellsOfAllThatWasUsedAtOnce) {
    (void)start(with_events(ring.attr(true)));
    post_buffers(rq, 4);
    for (int i = 0; i < 3; i++)
        post(frames::build({}));
    run();
    EXPECT_EQ(wire->sent.size(), 3u);
    EXPECT_EQ(told(), 1u);
}

TEST_F(VirtioEventTest, ItWaitsForARequest) {
    const Number queue = start(with_events(ring.attr(true)));
    post(frames::build({}));
    run();
    EXPECT_TRUE(device->modify_virtq(queue, VirtqState::suspended)) << "and is still owed";
    EXPECT_EQ(told(), 0u);
    post_buffers(rq, 2);
    run();
    EXPECT_EQ(told(), 1u);
}

TEST_F(VirtioEventTest, AQueueThatIsGoneOwesNone) {
    const Number queue = start(with_events(ring.attr(true)));
    post(frames::build({}));
    run();
    ASSERT_TRUE(device->destroy_virtq(queue));
    post_buffers(rq, 1);
    run();
    EXPECT_EQ(told(), 0u);
}

TEST_F(VirtioEventTest, EachOfSeveralQueuesIsToldOf) {
    const Number sender = start(with_events(ring.attr(true)));
    steer_to(start(with_events(receive_ring.attr(false))));
    post(frames::build({}));
    receive_ring.post({{memory_at(kBuffers), 2000}}, true);
    arrive(frames::build({}));
    EXPECT_EQ(told(), 0u);
    post_buffers(rq, 1);
    run();
    EXPECT_EQ(told(), 1u);
    post_buffers(rq, 2);
    run();
    EXPECT_EQ(told(), 2u) << "one for each queue";
    post(frames::build({}));
    run();
    EXPECT_EQ(told(), 3u);
    ASSERT_TRUE(device->modify_rq(rq.number, QueueState::reset));
    post(frames::build({}));
    EXPECT_TRUE(device->destroy_virtq(sender)) << "whatever it owes";
    run();
}

TEST_F(VirtioEventTest, AnRqThatIsNotReadyIsNotToldLater) {
    (void)start(with_events(ring.attr(true)));
    ASSERT_TRUE(device->modify_rq(rq.number, QueueState::reset));
    post(frames::build({}));
    run();
    EXPECT_EQ(wire->sent.size(), 1u);
    ASSERT_TRUE(device->modify_rq(rq.number, QueueState::ready));
    post_buffers(rq, 1);
    run();
    EXPECT_EQ(told(), 0u);
}

TEST_F(VirtioEventTest, AQueueInErrorOwesNone) {
    const Number queue = start(with_events(ring.attr(true)));
    post(frames::build({}));
    run();
    EXPECT_EQ(wire->sent.size(), 1u);
    EXPECT_TRUE(device->inject_fatal(queue));
    post_buffers(rq, 1);
    run();
    EXPECT_EQ(told(), 0u);
}

TEST_F(VirtioEventTest, DriversThatPollAreLeftAlone) {
    (void)start(with_events(ring.attr(true)));
    post_buffers(rq, 2);
    ring.set_flags(virtio::kNoInterrupt);
    post(frames::build({}));
    run();
    ring.set_flags(0);
    run();
    EXPECT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(told(), 0u) << "it has looked for itself";
    post(frames::build({}));
    run();
    EXPECT_EQ(told(), 1u);
}

TEST_F(VirtioEventTest, CountersCountDescriptors) {
    VirtqAttr attr = ring.attr(true);
    attr.counters = device->create_virtq_counters().value();
    const Number queue = start(attr);
    for (int i = 0; i < 3; i++)
        post(frames::build({})); // two descriptors each
    run();
    const VirtqCounts counts = device->query_virtq_counters(attr.counters).value();
    EXPECT_EQ(counts.received, 6u);
    EXPECT_EQ(counts.completed, 6u);
    EXPECT_EQ(refusal(device->destroy_virtq_counters(attr.counters)), Status::busy);
    EXPECT_TRUE(device->destroy_virtq(queue));
    EXPECT_TRUE(device->destroy_virtq_counters(attr.counters));
    EXPECT_EQ(refusal(device->query_virtq_counters(attr.counters)), Status::bad_resource);
}

} // namespace
} // namespace testbed
