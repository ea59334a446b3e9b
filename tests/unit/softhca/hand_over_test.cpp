// SPDX-License-Identifier: BSD-3-Clause
// Frames that the port at the other end of a cable hands over from the sender's memory.
#include "tests/unit/softhca/collector.hpp"
#include "tests/unit/softhca/fault_handler.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <thread>

namespace testbed {
namespace {

/// Frames that differ in their last bytes.
Bytes frame_of(uint8_t number) {
    frames::Spec spec;
    spec.payload = Bytes(32, number);
    return frames::build(spec);
}

class HandOver : public Testbed {
  protected:
    HandOver() {
        steer_all(rq);
        (void)device->poll();
    }
    /// Returns how many of frames first, first + 1, … the device takes from the sender's memory.
    size_t hand_over(uint8_t count, uint8_t first = 0) {
        std::vector<iovec> pieces;
        for (uint8_t i = 0; i < count; i++) {
            sent.push_back(std::make_unique<Bytes>(frame_of(static_cast<uint8_t>(first + i))));
            pieces.push_back({sent.back()->data(), sent.back()->size()});
        }
        return wire->recipient->take(pieces);
    }
    void expect_packets(uint8_t count, uint8_t first = 0) {
        for (uint8_t i = 0; i < count; i++) {
            EXPECT_EQ(packet_of(expect_packet(rx_cq)), frame_of(static_cast<uint8_t>(first + i)));
            rx_cq.release();
        }
        EXPECT_EQ(rx_cq.poll(), nullptr);
    }

    std::vector<std::unique_ptr<Bytes>> sent;
};

TEST_F(HandOver, FramesAreReceivedAtOnce) {
    post_buffers(rq, 40);
    EXPECT_EQ(hand_over(3), 3u);
    expect_packets(3);
    EXPECT_EQ(hand_over(37, 3), 37u) << "of a flow that is known by now, in two batches";
    expect_packets(37, 3);
    EXPECT_EQ(device->counters().wire_rx_packets, 40u);
    EXPECT_EQ(device->counters().delivered, 40u);
}

TEST_F(HandOver, FramesFromTheWireAreReceivedAsBefore) {
    post_buffers(rq, 3);
    wire->incoming = {frame_of(0), frame_of(1), frame_of(2)};
    EXPECT_EQ(hand_over(0), 0u);
    run();
    expect_packets(3);
}

TEST_F(HandOver, NoMoreThanARoundTakes) {
    EXPECT_EQ(hand_over(100), 100u);
    EXPECT_EQ(hand_over(100), 28u);
    EXPECT_EQ(hand_over(1), 0u);
    wire->incoming = {frame_of(0)};
    (void)device->poll();
    EXPECT_EQ(wire->incoming.size(), 1u) << "the round has had its frames";
    (void)device->poll();
    EXPECT_TRUE(wire->incoming.empty());
    EXPECT_EQ(hand_over(100), 100u);
    EXPECT_EQ(device->counters().drop_out_of_buffer, 229u);
}

TEST_F(HandOver, WhatAnRqHoldsIsNotTaken) {
    device->set_pause(true);
    post_buffers(rq, 1);
    EXPECT_EQ(hand_over(3), 1u) << "of a new flow";
    expect_packets(1);
    post_buffers(rq, 3);
    EXPECT_EQ(hand_over(5, 1), 3u);
    expect_packets(3, 1);
    EXPECT_EQ(hand_over(1), 0u);
    EXPECT_EQ(device->counters().wire_rx_packets, 4u);
}

TEST_F(HandOver, OnlyTheThreadThatPollsTakes) {
    size_t taken = 1;
    std::thread([&] { taken = hand_over(1); }).join();
    EXPECT_EQ(taken, 0u);
    EXPECT_EQ(hand_over(1), 1u);
    std::thread([&] {
        (void)device->poll();
        taken = hand_over(1);
    }).join();
    EXPECT_EQ(taken, 1u);
    EXPECT_EQ(hand_over(1), 0u);
}

TEST_F(HandOver, ADeadDeviceTakesNone) {
    device->inject_device_fatal();
    EXPECT_EQ(hand_over(1), 0u);
}

TEST_F(HandOver, WhoLooksSeesThem) {
    Collector collector(false);
    device->add_observer(collector);
    post_buffers(rq, 2);
    EXPECT_EQ(hand_over(2), 2u);
    device->remove_observer(collector);
    ASSERT_EQ(collector.passages.size(), 2u);
    expect_packets(2);
}

TEST_F(HandOver, NobodyTakesForADeviceThatIsGone) {
    wire::Recipient* recipient = wire->recipient;
    ASSERT_NE(recipient, nullptr);
    struct Watched final : wire::Wire {
        explicit Watched(wire::Recipient*& where) : to(where) {}
        std::span<const std::byte> peek() override { return {}; }
        void pop() override {}
        wire::SendResult send(const wire::OutFrame&) override { return wire::SendResult::sent; }
        void set_recipient(wire::Recipient* recipient) override { to = recipient; }
        wire::Recipient*& to;
    };
    {
        const Device other(default_config(), std::make_unique<Watched>(recipient), nullptr);
        EXPECT_NE(recipient, nullptr);
    }
    EXPECT_EQ(recipient, nullptr);
}

struct SendersMemory final : GuardedMemory {
    Pages pages{kPage};
    [[nodiscard]] bool covers(const void* address) const override {
        return pages.area().contains(address);
    }
};

class HandOverFaults : public HandOver {
  protected:
    static constexpr size_t kFar = 16 * kPage; ///< a page of `memory` not used otherwise

    /// Hands over two frames, one on that missing page, and one more.
    size_t hand_over_with(std::byte* missing) {
        std::vector<iovec> pieces;
        for (uint8_t i = 0; i < 4; i++) {
            sent.push_back(std::make_unique<Bytes>(frame_of(i)));
            std::byte* at = reinterpret_cast<std::byte*>(sent.back()->data());
            if (i == 2) at = missing + 100;
            pieces.push_back({at, sent.back()->size()});
        }
        const Hole hole(missing, kPage);
        size_t taken = 0;
        EXPECT_EQ(run_guarded(senders, [&] { taken = wire->recipient->take(pieces); }), nullptr)
            << "the fault stays in the device that takes";
        return taken;
    }
    void expect_unharmed() {
        expect_packets(2);
        EXPECT_EQ(*device->query_rq(rq.number), QueueState::ready);
        EXPECT_EQ(hand_over(1, 9), 1u);
        expect_packets(1, 9);
        EXPECT_EQ(device->counters().delivered, 3u + learned);
    }
    /// From here on, the device knows the flow.
    void learn() {
        post_buffer(rq);
        EXPECT_EQ(hand_over(1), 1u);
        expect_packets(1);
        learned = 1;
    }

    SendersMemory senders;
    Handler handler;
    unsigned learned = 0;
};

TEST_F(HandOverFaults, AFrameThatCannotBeReadIsTheSendersMatter) {
    post_buffers(rq, 3);
    EXPECT_EQ(hand_over_with(senders.pages.data()), 1u);
    EXPECT_EQ(hand_over(1, 1), 1u)
        << "it was not taken, as it was looked at together with the next";
    expect_unharmed();
}

TEST_F(HandOverFaults, AlsoOfAKnownFlow) {
    learn();
    post_buffers(rq, 3);
    // All frames of the batch are read before the first one is taken.
    const size_t taken = hand_over_with(senders.pages.data());
    EXPECT_EQ(taken, 0u);
    EXPECT_EQ(hand_over(2), 2u);
    expect_unharmed();
}

TEST_F(HandOverFaults, AlsoIfTheReceiverKnowsTheMemory) {
    post_buffers(rq, 3);
    EXPECT_EQ(hand_over_with(memory_at(kFar)), 1u);
    EXPECT_EQ(hand_over(1, 1), 1u);
    expect_unharmed();
}

TEST_F(HandOverFaults, ABufferThatIsGoneIsTheReceiversMatter) {
    learn();
    post_buffers(rq, 2);
    rq.post({{lkey, memory_at(kFar), kRoom}});
    {
        const Hole hole(memory_at(kFar), kPage);
        EXPECT_EQ(hand_over(5), 3u) << "the one under way is lost, and counted";
        EXPECT_EQ(hand_over(2, 3), 2u);
    }
    for (uint8_t i = 0; i < 2; i++) {
        EXPECT_EQ(packet_of(expect_packet(rx_cq)), frame_of(i));
        rx_cq.release();
    }
    EXPECT_NE(rx_cq.poll_error(mlx5::CqeOpcode::resp_error), nullptr);
    EXPECT_EQ(*device->query_rq(rq.number), QueueState::error);
    const PortCounters counters = device->counters();
    EXPECT_EQ(counters.wire_rx_packets, 6u);
    EXPECT_EQ(counters.drop_rx_error, 1u);
    EXPECT_EQ(counters.drop_queue_not_ready, 2u);
}

} // namespace
} // namespace testbed
