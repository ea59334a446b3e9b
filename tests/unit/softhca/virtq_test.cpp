// SPDX-License-Identifier: BSD-3-Clause
// Virtio queues: frames in the chains of a driver's ring, in both directions, and queue states.
#include "tests/unit/softhca/refusal.hpp"
#include "tests/unit/softhca/virtq.hpp"

#include "tests/unit/softhca/collector.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace testbed {
namespace {

using testing::HasSubstr;

Bytes numbered(uint8_t number, size_t payload = 60) {
    return frames::build({.payload = frames::pattern(payload, number)});
}

TEST_F(VirtioTest, ChainsAreSentAndComeBack) {
    const Number queue = start(ring.attr(true));
    std::vector<Bytes> frames;
    for (uint8_t i = 0; i < 5 * DriverRing::kEntries; i++) { // the ring wraps around several times
        const Bytes frame = numbered(i, 60 + i);
        frames.push_back(frame);
        const Bytes first(frame.begin(), frame.begin() + 20), rest(frame.begin() + 20, frame.end());
        Bytes header(kHeader);
        uint16_t head = 0;
        if (i % 3 == 0) { // header and frame together
            header.insert(header.end(), frame.begin(), frame.end());
            head = ring.post({part(0x100, header)}, false);
        } else if (i % 3 == 1) { // header in two parts, and an empty one
            const Bytes end(header.begin(), header.begin() + 5);
            head = ring.post({part(0, Bytes(header.begin(), header.begin() + 7)),
                              part(0x40, end),
                              {memory_at(0), 0},
                              part(0x100, frame)},
                             false);
        } else { // the first part has some of the frame
            header.insert(header.end(), first.begin(), first.end());
            head = ring.post({part(0x100, header), part(0x800, rest)}, false);
        }
        run();
        const auto used = ring.used();
        ASSERT_TRUE(used) << int{i};
        EXPECT_EQ(used->head, head);
        EXPECT_EQ(used->bytes, 0u);
    }
    EXPECT_EQ(wire->sent, frames);
    EXPECT_FALSE(ring.used());
    EXPECT_EQ(device->sq_counters(queue)->packets, frames.size());
    EXPECT_EQ(status(queue).next_available, frames.size());
}

TEST_F(VirtioTest, SeveralChainsAreSentInTheirOrder) {
    (void)start(ring.attr(true));
    std::vector<Bytes> frames;
    for (uint8_t i = 0; i < DriverRing::kEntries; i++) {
        frames.push_back(numbered(i));
        Bytes chain(kHeader);
        chain.insert(chain.end(), frames.back().begin(), frames.back().end());
        ring.post({part(0x100 * i, chain)}, false);
    }
    run();
    EXPECT_EQ(wire->sent, frames);
    for (uint16_t i = 0; i < DriverRing::kEntries; i++)
        EXPECT_EQ(ring.used()->head, i);
}

TEST_F(VirtioTest, FramesArriveInChainsBehindAHeader) {
    const Number queue = start(receive_ring.attr(false));
    steer_to(queue);
    for (uint8_t i = 0; i < 5 * DriverRing::kEntries; i++) {
        const Bytes frame = numbered(i, 30 + 20 * i);
        const uint32_t first = i % 2 ? kHeader : kHeader + 31;
        const uint16_t head = receive_ring.post(
            {{memory_at(kBuffers), first}, {memory_at(kBuffers + 0x800), 1514}}, true);
        arrive(frame);
        const auto used = receive_ring.used();
        ASSERT_TRUE(used) << int{i};
        EXPECT_EQ(used->head, head);
        EXPECT_EQ(used->bytes, kHeader + frame.size());
        Bytes got = get(memory_at(kBuffers), first);
        const Bytes rest = get(memory_at(kBuffers + 0x800), kHeader + frame.size() - first);
        got.insert(got.end(), rest.begin(), rest.end());
        EXPECT_EQ(Bytes(got.begin(), got.begin() + kHeader),
                  (Bytes{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}));
        EXPECT_EQ(Bytes(got.begin() + kHeader, got.end()), frame);
    }
    EXPECT_EQ(device->counters().delivered, 5u * DriverRing::kEntries);
    EXPECT_EQ(device->rq_counters(queue)->packets, 5u * DriverRing::kEntries);
}

TEST_F(VirtioTest, HeadersOfOldHaveTenBytes) {
    constexpr uint32_t kOld = 10;
    VirtqAttr attr = ring.attr(true);
    attr.version_1 = false;
    (void)start(attr);
    Bytes chain(kOld);
    const Bytes frame = numbered(1);
    chain.insert(chain.end(), frame.begin(), frame.end());
    ring.post({part(0, chain)}, false);
    run();
    EXPECT_EQ(sent_last(), frame);

    attr = receive_ring.attr(false);
    attr.version_1 = false;
    steer_to(start(attr));
    receive_ring.post({{memory_at(kBuffers), 2000}}, true);
    arrive(frame);
    EXPECT_EQ(receive_ring.used()->bytes, kOld + frame.size());
    EXPECT_EQ(get(memory_at(kBuffers), kOld), Bytes(kOld));
    EXPECT_EQ(get(memory_at(kBuffers + kOld), frame.size()), frame);
}

TEST_F(VirtioTest, WithoutChainsFramesAreDropped) {
    const Number queue = start(receive_ring.attr(false));
    steer_to(queue);
    arrive(numbered(1));
    EXPECT_EQ(device->counters().drop_out_of_buffer, 1u);
    receive_ring.post({{memory_at(kBuffers), 2000}}, true);
    arrive(numbered(2));
    arrive(numbered(3));
    EXPECT_EQ(device->counters().drop_out_of_buffer, 2u);
    EXPECT_EQ(device->rq_counters(queue)->out_of_buffer, 2u);
    EXPECT_EQ(device->counters().delivered, 1u);
}

TEST_F(VirtioTest, WithPauseTheWireWaitsForChains) {
    device->set_pause(true);
    steer_to(start(receive_ring.attr(false)));
    arrive(numbered(1));
    EXPECT_EQ(wire->incoming.size(), 1u);
    receive_ring.post({{memory_at(kBuffers), 2000}}, true);
    run();
    EXPECT_TRUE(wire->incoming.empty());
    EXPECT_EQ(get(memory_at(kBuffers + kHeader), numbered(1).size()), numbered(1));
    EXPECT_EQ(device->counters().drop_out_of_buffer, 0u);
}

TEST_F(VirtioTest, AFrameThatIsTooLongIsLostAndItsChainIsNot) {
    const Number queue = start(receive_ring.attr(false));
    steer_to(queue);
    const Bytes frame = numbered(1);
    const auto exactly = static_cast<uint32_t>(kHeader + frame.size());
    receive_ring.post({{memory_at(kBuffers), 20}, {memory_at(kBuffers + 0x100), exactly - 20}},
                      true);
    arrive(numbered(2, 61));
    EXPECT_FALSE(receive_ring.used());
    EXPECT_EQ(device->counters().drop_rx_error, 1u);
    EXPECT_EQ(status(queue).state, VirtqState::ready);
    arrive(frame);
    EXPECT_EQ(receive_ring.used()->bytes, exactly);
    EXPECT_EQ(device->counters().delivered, 1u);
}

TEST_F(VirtioTest, OnlyWhatIsWrittenHasToBeMemory) {
    steer_to(start(receive_ring.attr(false)));
    const Bytes frame = numbered(1);
    const auto exactly = static_cast<uint32_t>(kHeader + frame.size());
    receive_ring.post({{memory_at(kMemory - exactly), 2000}}, true);
    arrive(frame);
    EXPECT_EQ(receive_ring.used()->bytes, exactly);
    EXPECT_EQ(get(memory_at(kMemory - frame.size()), frame.size()), frame);
}

TEST_F(VirtioTest, OnlyReadyQueuesAreServed) {
    const Number queue = make(ring.attr(true));
    post(numbered(1));
    run();
    EXPECT_TRUE(wire->sent.empty());
    EXPECT_EQ(refusal(device->modify_virtq(queue, VirtqState::suspended)), Status::bad_state);
    EXPECT_TRUE(device->modify_virtq(queue, VirtqState::ready));
    run();
    EXPECT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(refusal(device->modify_virtq(queue, VirtqState::ready)), Status::bad_state);
    EXPECT_TRUE(device->modify_virtq(queue, VirtqState::suspended));
    post(numbered(2));
    run();
    EXPECT_EQ(wire->sent.size(), 1u);
    const VirtqStatus stopped = status(queue);
    EXPECT_EQ(stopped.state, VirtqState::suspended);
    EXPECT_EQ(stopped.next_available, 1u);
    EXPECT_EQ(stopped.next_used, 1u);
    for (const VirtqState state : {VirtqState::init, VirtqState::ready, VirtqState::error})
        EXPECT_EQ(refusal(device->modify_virtq(queue, state)), Status::bad_state);
    EXPECT_TRUE(device->destroy_virtq(queue));
    EXPECT_EQ(refusal(device->query_virtq(queue)), Status::bad_resource);
}

TEST_F(VirtioTest, AQueueGoesOnWhereAnotherOneStopped) {
    constexpr uint16_t kStart = 0xfffd; // the indices wrap around soon
    DriverRing later(memory_at(kSendRing), kStart);
    const Number queue = start(later.attr(true));
    for (uint8_t i = 0; i < 6; i++) {
        later.post({header(), part(0x100, numbered(i))}, false);
        run();
        EXPECT_TRUE(later.used());
        EXPECT_EQ(sent_last(), numbered(i));
    }
    EXPECT_EQ(status(queue).next_available, static_cast<uint16_t>(kStart + 6));
    EXPECT_EQ(status(queue).next_used, static_cast<uint16_t>(kStart + 6));
}

TEST_F(VirtioTest, ABusyWireLosesNothingAndSendsNothingTwice) {
    (void)start(ring.attr(true));
    wire->room = 0;
    post(numbered(1));
    run();
    EXPECT_FALSE(ring.used());
    wire->room = SIZE_MAX;
    run();
    EXPECT_EQ(wire->sent, std::vector<Bytes>{numbered(1)});
    EXPECT_TRUE(ring.used());
}

TEST_F(VirtioTest, TablesSpreadOverQueuesThatReceive) {
    const Number first = start(receive_ring.attr(false));
    DriverRing second_ring(memory_at(kSendRing));
    const Number second = start(second_ring.attr(false));
    const std::vector<Number> queues = {first, second};
    const Number rqt = device->create_rqt(queues).value();
    EXPECT_EQ(refusal(device->destroy_virtq(first)), Status::busy);
    TirAttr tir;
    tir.rqt = rqt;
    tir.fields = {.src_port = true, .dst_port = true};
    std::iota(tir.toeplitz_key.begin(), tir.toeplitz_key.end(), uint8_t{1});
    FlowAttr flow;
    flow.tirs = {device->create_tir(tir).value()};
    (void)device->create_flow(flow).value();
    for (DriverRing* const each : {&receive_ring, &second_ring})
        each->post({{memory_at(kBuffers), 2000}}, true);
    for (uint16_t port = 0; port < 16; port++) {
        arrive(frames::build({.src_port = port}));
        const bool is_first = receive_ring.used().has_value();
        EXPECT_NE(is_first, second_ring.used().has_value()) << port;
        (is_first ? receive_ring : second_ring).post({{memory_at(kBuffers), 2000}}, true);
    }
    EXPECT_GT(device->rq_counters(first)->packets, 0u);
    EXPECT_GT(device->rq_counters(second)->packets, 0u);
}

TEST_F(VirtioTest, WhatCannotBeAQueueIsRefused) {
    const auto refusal = [&](auto&& change) {
        VirtqAttr attr = ring.attr(true);
        attr.pd = pd;
        attr.lkey = lkey;
        change(attr);
        return testbed::refusal(device->create_virtq(attr));
    };
    for (const uint16_t entries : {0, 3, 12})
        EXPECT_EQ(refusal([&](VirtqAttr& attr) { attr.entries = entries; }), Status::bad_parameter);
    EXPECT_EQ(refusal([](VirtqAttr& attr) { attr.entries = 0x8001; }), Status::bad_parameter);
    EXPECT_EQ(refusal([](VirtqAttr& attr) { attr.descriptors += 8; }), Status::bad_parameter);
    EXPECT_EQ(refusal([](VirtqAttr& attr) { attr.available += 1; }), Status::bad_parameter);
    EXPECT_EQ(refusal([](VirtqAttr& attr) { attr.used += 2; }), Status::bad_parameter);
    EXPECT_EQ(refusal([](VirtqAttr& attr) { attr.pd = 0xabcde; }), Status::bad_resource);
    EXPECT_EQ(refusal([](VirtqAttr& attr) { attr.events = 0xabcde; }), Status::bad_resource);
    EXPECT_EQ(refusal([](VirtqAttr& attr) { attr.counters = 0xabcde; }), Status::bad_resource);
    for (size_t left = 1u << Limits::kLogMaxVirtqs; left != 0; left--)
        ASSERT_EQ(refusal([](VirtqAttr&) {}), std::nullopt);
    EXPECT_EQ(refusal([](VirtqAttr&) {}), Status::limit);
}

TEST_F(VirtioTest, ItIsShownWhatBecomesOfFrames) {
    const Number receiver = start(receive_ring.attr(false));
    steer_to(receiver);
    const Number sender = start(ring.attr(true));
    Collector collector(true);
    device->add_observer(collector);
    post(numbered(1));
    run();
    EXPECT_THAT(collector.first_way(), HasSubstr("chain 0 of virtio queue"));
    collector.passages.clear();
    arrive(numbered(1));
    EXPECT_THAT(collector.first_way(), HasSubstr("has no chain of buffers available"));
    collector.passages.clear();
    receive_ring.post({{memory_at(kBuffers), 30}}, true);
    arrive(numbered(1));
    EXPECT_THAT(collector.first_way(), HasSubstr("is too short for it"));
    device->remove_observer(collector);
    const nlohmann::json dump = device->dump();
    const auto row_of = [&](const char* kind, Number number) {
        for (const auto& row : dump.at(kind))
            if (row.at("number") == number) return row;
        return nlohmann::json();
    };
    EXPECT_EQ(row_of("sqs", sender).at("virtq_state"), "ready");
    EXPECT_EQ(row_of("sqs", sender).at("virtq_next_used"), 1);
    EXPECT_EQ(row_of("rqs", receiver).at("virtq_next_available"), 0);
    EXPECT_EQ(device->stats().at("rqs").back().at("virtq_state"), "ready");
}

} // namespace
} // namespace testbed
