// SPDX-License-Identifier: BSD-3-Clause
// Local loopback: which queues of a port receive what is sent there, and what leaves on the wire.
#include "tests/unit/softhca/testbed.hpp"

namespace testbed {
namespace {

using frames::Mac;

constexpr Mac kMulticast{0x01, 0x00, 0x5e, 0, 0, 1};
constexpr Mac kBroadcast{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
constexpr Mac kStranger{0x02, 9, 9, 9, 9, 9};
constexpr Number kSenders = 5, kOthers = 6; // transport domains

/// An SQ of one domain, and an RQ of the same or another domain that gets everything.
class LoopbackTest : public Testbed {
  protected:
    explicit LoopbackTest(DeviceConfig config = default_config(), bool with_kernel = false)
        : Testbed(std::move(config), with_kernel) {
        device->set_loopback({.unicast = true, .multicast = true});
    }
    Number listen(Number domain, Loopback self = {}) {
        TirAttr tir;
        tir.rqn = rq.number;
        tir.transport_domain = domain;
        tir.self_loopback = self;
        FlowAttr flow;
        flow.tirs = {device->create_tir(tir).value()};
        return device->create_flow(flow).value();
    }
    void post(const Mac& to) {
        const Bytes frame = frames::build({.dst = to});
        sender.post(Wqe(mlx5::WqeOpcode::send).eth().data(lkey, put(0, frame), size_of(frame)));
        sender.ring_doorbell();
    }
    /// How many copies of a frame to this address were received, and how many left on the wire.
    std::pair<uint64_t, size_t> send(const Mac& to) {
        const uint64_t before = device->counters().delivered;
        const size_t sent = wire->sent.size();
        post(to);
        run();
        tx_cq.release();
        return {device->counters().delivered - before, wire->sent.size() - sent};
    }
    static uint32_t size_of(const Bytes& frame) { return static_cast<uint32_t>(frame.size()); }

    TestSq sender{*device, pd, tx_cq.number, 5, &listener, false, kSenders};
};

using Went = std::pair<uint64_t, size_t>;

TEST_F(LoopbackTest, OthersOnThePortHearGroupsAndTheirOwnAddress) {
    post_buffers(rq, 10);
    listen(kOthers);
    EXPECT_EQ(send(kMulticast), Went(1, 1));
    EXPECT_EQ(packet_of(expect_packet(rx_cq)), frames::build({.dst = kMulticast}));
    EXPECT_EQ(send(kBroadcast), Went(1, 1));
    EXPECT_EQ(send(frames::kOurMac), Went(1, 0)) << "it has arrived, and need not leave";
    EXPECT_EQ(send(kStranger), Went(0, 1));
    device->set_other_addresses({kStranger});
    EXPECT_EQ(send(kStranger), Went(1, 0));
    const PortCounters counters = device->counters();
    EXPECT_EQ(counters.loopback_packets, 4u);
    EXPECT_EQ(counters.wire_rx_packets, 0u);
    EXPECT_EQ(counters.wire_tx_packets, 3u);
    EXPECT_EQ(device->group_counters().loopback_multicast.packets, 1u);
    EXPECT_EQ(device->group_counters().loopback_broadcast.packets, 1u);
}

TEST_F(LoopbackTest, EachKindIsSwitchedByItself) {
    post_buffers(rq, 10);
    listen(kOthers);
    device->set_loopback({.unicast = true, .multicast = false});
    EXPECT_EQ(send(kMulticast), Went(0, 1));
    EXPECT_EQ(send(frames::kOurMac), Went(1, 0));
    device->set_loopback({.unicast = false, .multicast = true});
    EXPECT_EQ(send(kMulticast), Went(1, 1));
    EXPECT_EQ(send(frames::kOurMac), Went(0, 1));
    device->set_loopback({});
    EXPECT_EQ(send(kMulticast), Went(0, 1));
    EXPECT_EQ(send(frames::kOurMac), Went(0, 1));
}

TEST_F(LoopbackTest, ItsOwnDomainIsHeardByWhoWantsTo) {
    post_buffers(rq, 10);
    Number flow = listen(kSenders);
    EXPECT_EQ(send(kMulticast), Went(0, 1));
    EXPECT_EQ(send(frames::kOurMac), Went(0, 0)) << "taken by the rule, refused by its TIR";
    EXPECT_EQ(device->counters().drop_self_loopback, 2u);
    ASSERT_TRUE(device->destroy_flow(flow));
    flow = listen(kSenders, {.unicast = true, .multicast = false});
    EXPECT_EQ(send(kMulticast), Went(0, 1));
    EXPECT_EQ(send(frames::kOurMac), Went(1, 0));
    ASSERT_TRUE(device->destroy_flow(flow));
    listen(kSenders, {.unicast = false, .multicast = true});
    EXPECT_EQ(send(kMulticast), Went(1, 1));
    EXPECT_EQ(send(frames::kOurMac), Went(0, 0));
    wire->incoming.push_back(frames::build({.dst = frames::kOurMac}));
    run();
    EXPECT_EQ(rx_cq.poll() != nullptr, true) << "the wire is nobody's domain";
}

TEST_F(LoopbackTest, FlowTablesDecideAsOnArrival) {
    post_buffers(rq, 10);
    TirAttr tir;
    tir.rqn = rq.number;
    tir.transport_domain = kOthers;
    const Number tirn = device->create_tir(tir).value();
    const Number table = device->create_flow_table({}).value();
    const Number group = device->create_flow_group(table, {}).value();
    ASSERT_TRUE(device->set_flow_entry(table, 0, {.group = group, .tirs = {tirn}}));
    ASSERT_TRUE(device->set_flow_table_root(table));
    EXPECT_EQ(send(kMulticast), Went(1, 1));
    tir.transport_domain = kSenders;
    ASSERT_TRUE(device->modify_tir(tirn, tir));
    EXPECT_EQ(send(kMulticast), Went(0, 1));
}

TEST_F(LoopbackTest, ABusyWireMakesNoSecondCopy) {
    post_buffers(rq, 10);
    listen(kOthers);
    wire->room = 0;
    EXPECT_EQ(send(kMulticast), Went(1, 0));
    for (int round = 0; round < 3; round++)
        device->poll();
    wire->room = SIZE_MAX;
    run();
    EXPECT_EQ(device->counters().delivered, 1u);
    EXPECT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(send(kMulticast), Went(1, 1));
}

TEST_F(LoopbackTest, WhatThePortCannotSendDoesNotArrive) {
    post_buffers(rq, 10);
    listen(kOthers);
    device->set_mtu(70);
    EXPECT_EQ(send(frames::kOurMac).first, frames::build({}).size() <= 88 ? 1u : 0u);
    device->set_mtu(1500);
    device->set_link(false);
    EXPECT_EQ(send(kMulticast), Went(0, 0));
    EXPECT_EQ(send(frames::kOurMac), Went(0, 0));
}

class LosslessLoopback : public LoopbackTest {
  protected:
    LosslessLoopback() : LoopbackTest(pausing()) {}
    static DeviceConfig pausing() {
        DeviceConfig config = default_config();
        config.pause = true;
        return config;
    }
};

TEST_F(LosslessLoopback, AnEmptyQueueHoldsTheSender) {
    listen(kOthers);
    for (int i = 0; i < 3; i++)
        post(kMulticast);
    run();
    EXPECT_EQ(wire->sent.size(), 0u);
    EXPECT_EQ(tx_cq.poll(), nullptr);
    post_buffers(rq, 3);
    run();
    EXPECT_EQ(wire->sent.size(), 3u);
    EXPECT_EQ(device->counters().delivered, 3u);
    EXPECT_EQ(device->counters().drop_out_of_buffer, 0u);
}

class KernelLoopback : public LoopbackTest {
  protected:
    KernelLoopback() : LoopbackTest(default_config(), true) {}
};

TEST_F(KernelLoopback, KernelAndQueuesHearEachOtherAndNotThemselves) {
    post_buffers(rq, 10);
    kernel->incoming.push_back(frames::build({.dst = kMulticast}));
    run();
    EXPECT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(kernel->sent.size(), 0u);
    EXPECT_EQ(device->counters().drop_self_loopback, 1u);

    EXPECT_EQ(send(kMulticast), Went(0, 1));
    EXPECT_EQ(kernel->sent.size(), 1u);

    const Number flow = listen(kSenders);
    kernel->incoming.push_back(frames::build({.dst = kMulticast}));
    run();
    EXPECT_EQ(device->counters().delivered, 1u);
    ASSERT_TRUE(device->destroy_flow(flow));
    device->set_loopback({});
    EXPECT_EQ(send(kMulticast), Went(0, 1));
    EXPECT_EQ(kernel->sent.size(), 1u);
}

} // namespace
} // namespace testbed
