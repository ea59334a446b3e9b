// SPDX-License-Identifier: BSD-3-Clause
// What drivers of virtio queues must not do: it ends in an error of that queue, and its owner is
// notified.
#include "tests/unit/softhca/fault_handler.hpp"
#include "tests/unit/softhca/refusal.hpp"
#include "tests/unit/softhca/virtq.hpp"

#include <functional>

namespace testbed {
namespace {

constexpr uint32_t kNowhere = 0x1000; // an address that no key covers

struct Wrong {
    const char* name;
    VirtqFault fault;
    /// Posts it to the ring, with buffers at this address.
    std::function<void(DriverRing&, std::byte* buffer, uint16_t flags)> post;
    uint32_t VirtqCounts::*count = &VirtqCounts::bad_descriptors;
};

void chain(DriverRing& ring, uint16_t at, std::byte* buffer, uint16_t flags, uint16_t next = 0) {
    ring.descriptor(at) = {reinterpret_cast<uint64_t>(buffer), 100, flags, next};
}

const std::vector<Wrong>& wrongs() {
    using virtio::kIndirect, virtio::kNext, virtio::kWrite;
    static const std::vector<Wrong> kWrongs = {
        {"HeadBeyondTheRing", VirtqFault::bad_descriptor,
         [](DriverRing& ring, std::byte*, uint16_t) { ring.offer(DriverRing::kEntries); }},
        {"NextBeyondTheRing", VirtqFault::bad_descriptor,
         [](DriverRing& ring, std::byte* buffer, uint16_t flags) {
             chain(ring, 0, buffer, flags | kNext, DriverRing::kEntries);
             ring.offer(0);
         }},
        {"MoreThanTheRingHolds", VirtqFault::bad_descriptor,
         [](DriverRing& ring, std::byte*, uint16_t) { ring.set_index(DriverRing::kEntries + 1); }},
        {"OtherDirection", VirtqFault::bad_descriptor,
         [](DriverRing& ring, std::byte* buffer, uint16_t flags) {
             chain(ring, 0, buffer, flags ^ kWrite);
             ring.offer(0);
         }},
        {"OtherDirectionLater", VirtqFault::bad_descriptor,
         [](DriverRing& ring, std::byte* buffer, uint16_t flags) {
             chain(ring, 0, buffer, flags | kNext, 1);
             chain(ring, 1, buffer, flags ^ kWrite);
             ring.offer(0);
         }},
        {"Indirect", VirtqFault::bad_descriptor,
         [](DriverRing& ring, std::byte* buffer, uint16_t flags) {
             chain(ring, 0, buffer, flags | kIndirect);
             ring.offer(0);
         }},
        {"WithoutEnd", VirtqFault::chain_too_long,
         [](DriverRing& ring, std::byte* buffer, uint16_t flags) {
             for (uint16_t i = 0; i < DriverRing::kEntries; i++)
                 chain(ring, i, buffer, flags | kNext, (i + 1) % DriverRing::kEntries);
             ring.offer(0);
         },
         &VirtqCounts::chains_too_long},
        {"NoMemory", VirtqFault::invalid_buffer,
         [](DriverRing& ring, std::byte*, uint16_t flags) {
             chain(ring, 0, reinterpret_cast<std::byte*>(uintptr_t{kNowhere}), flags);
             ring.offer(0);
         },
         &VirtqCounts::invalid_buffers},
    };
    return kWrongs;
}

class VirtioFaultTest : public VirtioTest, public testing::WithParamInterface<Wrong> {
  protected:
    void expect_error(Number queue, Number counters) {
        EXPECT_EQ(status(queue).state, VirtqState::error);
        EXPECT_EQ(status(queue).fault, GetParam().fault);
        EXPECT_EQ(status(queue).next_used, 0u);
        EXPECT_EQ(listener.events, (std::vector{std::pair{AsyncEvent::virtq_error, queue}}));
        const VirtqCounts counts = device->query_virtq_counters(counters).value();
        EXPECT_EQ(counts.*GetParam().count, 1u);
        EXPECT_EQ(counts.completed, 0u);
    }
};

TEST_P(VirtioFaultTest, EndsInAnErrorOfTheQueueThatSends) {
    VirtqAttr attr = ring.attr(true);
    attr.counters = device->create_virtq_counters().value();
    const Number queue = start(attr);
    GetParam().post(ring, memory_at(kFrames), 0);
    run();
    expect_error(queue, attr.counters);
    EXPECT_TRUE(wire->sent.empty());
    EXPECT_FALSE(ring.used());
    EXPECT_TRUE(device->destroy_virtq(queue));
}

TEST_P(VirtioFaultTest, EndsInAnErrorOfTheQueueThatReceives) {
    VirtqAttr attr = receive_ring.attr(false);
    attr.counters = device->create_virtq_counters().value();
    const Number queue = start(attr);
    steer_to(queue);
    GetParam().post(receive_ring, memory_at(kBuffers), virtio::kWrite);
    const Bytes frame = frames::build({.payload = Bytes(1400)}); // too long for these chains
    arrive(frame);
    arrive(frame);
    expect_error(queue, attr.counters);
    EXPECT_FALSE(receive_ring.used());
    const PortCounters counters = device->counters();
    EXPECT_EQ(counters.delivered, 0u);
    EXPECT_EQ(counters.drop_rx_error + counters.drop_out_of_buffer, 1u) << "the first one";
    EXPECT_EQ(counters.drop_queue_not_ready, 1u) << "the other one";
}

INSTANTIATE_TEST_SUITE_P(Wrongs, VirtioFaultTest, testing::ValuesIn(wrongs()),
                         [](const auto& test) { return test.param.name; });

class VirtioErrorTest : public VirtioTest {};

TEST_F(VirtioErrorTest, ARingThatNoKeyLeadsTo) {
    VirtqAttr attr = ring.attr(true);
    attr.pd = pd;
    attr.listener = &listener;
    for (const uint32_t key : {0u, lkey ^ 1}) {
        attr.lkey = key;
        const Number queue = device->create_virtq(attr).value();
        ASSERT_TRUE(device->modify_virtq(queue, VirtqState::ready));
        run();
        EXPECT_EQ(status(queue).fault, VirtqFault::no_ring);
    }
    for (const auto part : {&VirtqAttr::descriptors, &VirtqAttr::used}) {
        attr = ring.attr(true);
        attr.*part = kNowhere;
        const Number queue = start(attr);
        post(frames::build({}));
        run();
        EXPECT_EQ(status(queue).fault, VirtqFault::no_ring);
        ring = DriverRing(memory_at(kSendRing));
    }
}

TEST_F(VirtioErrorTest, ChainsThatNoFrameIsIn) {
    for (const uint32_t bytes : {0u, 5u, kHeader}) {
        ring = DriverRing(memory_at(kSendRing));
        const Number queue = start(ring.attr(true));
        ring.post({{memory_at(kFrames), bytes}}, false);
        run();
        EXPECT_EQ(status(queue).fault, VirtqFault::invalid_buffer) << bytes;
    }
    ring = DriverRing(memory_at(kSendRing));
    const Number queue = start(ring.attr(true));
    ring.post({{memory_at(0), 200000}, {memory_at(0), 200000}}, false);
    run();
    EXPECT_EQ(status(queue).fault, VirtqFault::chain_too_long);
    EXPECT_TRUE(wire->sent.empty());
}

TEST_F(VirtioErrorTest, HeadersThatAskForWhatTheQueueHasNot) {
    using virtio::kGsoTcp4, virtio::kNeedsChecksum;
    constexpr uint8_t kGsoUdp = 3;
    const Bytes udp = frames::build({}), tcp = frames::build({.proto = frames::kTcp});
    struct Case {
        NetHeader header;
        Bytes frame;
        bool checksums = true, tso = true;
    };
    const std::vector<Case> cases = {
        {{.flags = kNeedsChecksum, .checksum_start = 34, .checksum_offset = 6}, udp, false},
        {{.flags = kNeedsChecksum, .checksum_start = 34, .checksum_offset = 60}, udp},
        {{.flags = kNeedsChecksum, .checksum_start = 0xffff, .checksum_offset = 0xffff}, udp},
        {{.flags = kNeedsChecksum, .gso_type = kGsoTcp4, .segment_bytes = 10}, tcp, true, false},
        {{.flags = kNeedsChecksum, .gso_type = kGsoTcp4}, tcp},
        {{.flags = kNeedsChecksum, .gso_type = kGsoTcp4, .segment_bytes = 10}, udp},
        {{.flags = kNeedsChecksum, .gso_type = kGsoUdp, .segment_bytes = 10}, udp},
    };
    for (size_t i = 0; i < cases.size(); i++) {
        ring = DriverRing(memory_at(kSendRing));
        VirtqAttr attr = ring.attr(true);
        attr.checksums = cases[i].checksums;
        attr.tso_ipv4 = cases[i].tso;
        const Number queue = start(attr);
        post(cases[i].frame, cases[i].header);
        run();
        EXPECT_EQ(status(queue).fault, VirtqFault::invalid_buffer) << i;
        EXPECT_TRUE(wire->sent.empty()) << i;
    }
}

TEST_F(VirtioErrorTest, MemoryThatIsGone) {
    const Handler handler;
    const Number sender = start(ring.attr(true));
    post(frames::build({}));
    {
        const Hole hole(memory_at(kFrames), kPage);
        run();
        EXPECT_EQ(status(sender).fault, VirtqFault::invalid_buffer);
    }
    const Number receiver = start(receive_ring.attr(false));
    steer_to(receiver);
    receive_ring.post({{memory_at(kBuffers), 2000}}, true);
    {
        const Hole hole(memory_at(kBuffers), kPage);
        arrive(frames::build({}));
        EXPECT_EQ(status(receiver).fault, VirtqFault::invalid_buffer);
        EXPECT_TRUE(wire->incoming.empty());
        EXPECT_EQ(device->counters().drop_rx_error, 1u);
    }
    for (const size_t part : {0, 1, 2}) {
        ring = DriverRing(memory_at(kSendRing));
        const Number queue = start(ring.attr(true));
        post(frames::build({}));
        const Hole hole(memory_at(kSendRing + part * kPage), kPage);
        run();
        EXPECT_EQ(status(queue).fault, VirtqFault::no_ring) << part;
    }
}

/// That of a queue which has failed for it already explains no other fault in the same page.
TEST_F(VirtioErrorTest, APacketInARingThatIsGoneEndsInAnErrorCqe) {
    const Handler handler;
    const Number queue = start(ring.attr(true));
    post(frames::build({}));
    const Hole hole(memory_at(kSendRing), kPage);
    run();
    EXPECT_EQ(status(queue).fault, VirtqFault::no_ring);
    sq.post(Wqe(mlx5::WqeOpcode::send).eth().data(lkey, memory_at(kSendRing), 60));
    sq.ring_doorbell();
    for (int round = 0; round < 100; round++)
        device->poll();
    const mlx5::ErrorCqe* const cqe = tx_cq.poll_error(mlx5::CqeOpcode::req_error);
    ASSERT_NE(cqe, nullptr);
    EXPECT_EQ(cqe->syndrome, static_cast<uint8_t>(mlx5::CqeSyndrome::local_protection));
}

TEST_F(VirtioErrorTest, OnRequest) {
    for (const bool sends : {true, false}) {
        const Number queue = start((sends ? ring : receive_ring).attr(sends));
        EXPECT_TRUE(device->inject_fatal(queue));
        EXPECT_EQ(status(queue).state, VirtqState::error);
        EXPECT_EQ(std::exchange(listener.events, {}),
                  (std::vector{std::pair(AsyncEvent::virtq_error, queue)}));
        EXPECT_EQ(refusal(device->inject_error(queue, CompletionError::local_length)),
                  Status::unsupported);
    }
}

} // namespace
} // namespace testbed
