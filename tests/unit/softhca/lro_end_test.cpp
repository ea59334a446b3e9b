// SPDX-License-Identifier: BSD-3-Clause
// Large receive offload: what ends a session, and the fate of its segments when the queue ends.
#include "tests/unit/softhca/lro.hpp"

namespace testbed {
namespace {

TEST_P(Lro, OutOfOrder) {
    steer();
    expect_apart([](Spec& spec) { spec.sequence += 1; });
}
TEST_P(Lro, SentAgain) {
    steer();
    expect_apart([](Spec& spec) { spec.sequence -= kMss; });
}
TEST_P(Lro, AnotherFlow) {
    steer();
    expect_apart([](Spec& spec) { spec.src_port = 1001; });
}
TEST_P(Lro, AnotherAddress) {
    steer();
    expect_apart([](Spec& spec) { spec.dst_ip[3] ^= 1; });
}
TEST_P(Lro, AnotherVlan) {
    steer();
    expect_apart([](Spec& spec) { spec.tags = {{0x8100, 7}}; });
}
TEST_P(Lro, AnotherSource) {
    steer();
    expect_apart([](Spec& spec) { spec.src[5] ^= 1; });
}
TEST_P(Lro, AnotherClass) {
    steer();
    expect_apart([](Spec& spec) { spec.tos = 3; }); // congestion experienced
}
TEST_P(Lro, Finish) {
    steer();
    expect_apart([](Spec& spec) { spec.tcp_flags |= frames::kFin; });
}
TEST_P(Lro, WithoutAck) {
    steer();
    expect_apart([](Spec& spec) { spec.tcp_flags = frames::kPsh; });
}
TEST_P(Lro, TooShort) {
    steer();
    expect_apart([](Spec& spec) { spec.payload.resize(Limits::kLroMinSegmentBytes - 1); });
}
TEST_P(Lro, IpOptions) {
    steer();
    expect_apart([](Spec& spec) { spec.ip_options = {1, 1, 1, 1}; });
}
TEST_P(Lro, Ipv6OnlyWhereAskedFor) {
    steer({.ipv4 = false, .ipv6 = true, .timeout_ns = kLong, .max_bytes = 65280});
    expect_apart([](Spec&) {});
}

TEST_P(Lro, ABadChecksumEndsASession) {
    steer();
    post(4);
    Bytes bad = frames::build(segment(2));
    bad.back() ^= 1;
    arrive(segment(0));
    arrive(segment(1));
    wire->incoming.push_back(bad);
    arrive(segment(3));
    end();
    expect_coalesced({segment(0), segment(1)});
    const mlx5::Cqe& cqe = expect_segments(0);
    EXPECT_EQ(in_memory(cqe), bad);
    EXPECT_EQ(cqe.hds_ip_ext & mlx5::kL4Ok, 0);
    expect_alone(segment(3));
}

TEST_P(Lro, AnotherMarkOrOtherMetadataEndASession) {
    post(3);
    FlowAttr flow = to(direct_tir(queue, kIpv4Lro));
    const auto steer_ttl = [&](uint8_t ttl) {
        flow.mask.outer.ttl = 0xff;
        flow.value.outer.ttl = ttl;
        (void)device->create_flow(flow).value();
    };
    flow.priority = 1;
    (void)device->create_flow(flow).value();
    flow.priority = 0;
    flow.tag = 5;
    steer_ttl(9);
    flow.rewrite.edits =
        *device->create_header_edits({{HeaderEdit::Kind::set, {EditField::reg_b, 0, 32}, {}, 6}});
    steer_ttl(8);
    Spec marked = segment(1), labelled = segment(2);
    marked.ttl = 9;
    labelled.ttl = 8;
    for (const Spec& spec : {segment(0), marked, labelled})
        arrive(spec);
    end();
    for (const auto& [mark, metadata] : {std::pair{0u, 0u}, {5u, 0u}, {5u, 6u}}) {
        const mlx5::Cqe& cqe = expect_segments(0);
        EXPECT_EQ(cqe.sop_drop_qpn, mark);
        EXPECT_EQ(cqe.metadata, metadata);
    }
}

TEST_P(Lro, TheSizeLimitCountsTcp) {
    steer({.ipv4 = true, .timeout_ns = kLong, .max_bytes = 20 + 3 * kMss});
    post(3);
    for (uint32_t i = 0; i < 6; i++)
        arrive(segment(i));
    deliver(); // the last segment that fits ends the session
    expect_coalesced({segment(0), segment(1), segment(2)});
    expect_coalesced({segment(3), segment(4), segment(5)});
}

TEST_P(Lro, ASegmentThatIsTooLongForTheRest) {
    steer({.ipv4 = true, .timeout_ns = kLong, .max_bytes = 20 + 3 * kMss - 1});
    post(3);
    for (uint32_t i = 0; i < 3; i++)
        arrive(segment(i));
    end();
    expect_coalesced({segment(0), segment(1)});
    expect_alone(segment(2));
}

TEST_P(Lro, TheEndOfAWqeEndsASession) {
    steer();
    post(3);
    std::vector<Spec> specs;
    for (uint32_t i = 0; i < 14; i++) {
        specs.push_back(segment(i));
        arrive(specs.back());
    }
    end();
    constexpr size_t kFit = (kWqeRoom - 54) / kMss;
    expect_coalesced({specs.begin(), specs.begin() + kFit});
    if (strides()) {
        EXPECT_NE(expect_segments(0).byte_count >> 31, 0u) << "the rest of the WQE is unused";
    }
    expect_coalesced({specs.begin() + kFit, specs.end()});
}

TEST_P(Lro, TimeEndsASession) {
    steer({.ipv4 = true, .timeout_ns = 50'000, .max_bytes = 65280});
    post(2);
    arrive(segment(0));
    arrive(segment(1));
    deliver(); // one round: no time passes in it
    run();     // until the session is over
    expect_coalesced({segment(0), segment(1)});
}

TEST_P(Lro, AfterItsTimeNothingJoins) {
    steer({.ipv4 = true, .timeout_ns = 1, .max_bytes = 65280});
    post(3);
    for (uint32_t i = 0; i < 2; i++) {
        arrive(segment(i));
        deliver();
    }
    run();
    expect_alone(segment(0));
    expect_alone(segment(1));
}

TEST_P(Lro, ATirWithoutLroEndsASession) {
    FlowAttr plain = to(Testbed::direct_tir(queue));
    plain.mask.outer.ttl = 0xff;
    plain.value.outer.ttl = 9;
    (void)device->create_flow(plain).value();
    FlowAttr rest = to(direct_tir(queue, kIpv4Lro));
    rest.priority = 1;
    (void)device->create_flow(rest).value();
    expect_apart([](Spec& spec) { spec.ttl = 9; });
}

TEST_P(Lro, AStoppedQueueLosesItsSession) {
    steer();
    post(2);
    arrive(segment(0));
    arrive(segment(1));
    deliver();
    ASSERT_TRUE(device->modify_rq(queue.number, QueueState::reset));
    (void)device->poll();
    EXPECT_EQ(rx_cq.poll(), nullptr);
    EXPECT_EQ(device->counters().drop_queue_not_ready, 2u);
    EXPECT_EQ(device->counters().delivered, 0u);
    queue.producer = 0;
    ASSERT_TRUE(device->modify_rq(queue.number, QueueState::ready));
    post(2);
    end();
    expect_alone(udp);
}

TEST_P(Lro, AQueueInErrorCountsItsSession) {
    steer();
    post(2);
    arrive(segment(0));
    deliver();
    ASSERT_TRUE(device->modify_rq(queue.number, QueueState::error));
    (void)device->poll();
    EXPECT_EQ(device->counters().drop_queue_not_ready, 1u);
    for (int i = 0; i < 2; i++)
        EXPECT_NE(rx_cq.poll_error(mlx5::CqeOpcode::resp_error), nullptr);
}

TEST_P(Lro, ADestroyedQueue) {
    auto other =
        std::make_unique<TestRq>(*device, pd, rx_cq.number, options_of(GetParam(), &listener));
    const Number other_tir = direct_tir(*other, kIpv4Lro);
    const Number flow = device->create_flow(to(other_tir)).value();
    other->post({{lkey, memory_at(0), kWqeRoom}});
    arrive(segment(0));
    deliver();
    ASSERT_TRUE(device->destroy_flow(flow));
    ASSERT_TRUE(device->destroy_tir(other_tir));
    ASSERT_TRUE(device->destroy_rq(other->number));
    EXPECT_EQ(device->poll(), 0u);
    EXPECT_EQ(device->counters().drop_queue_not_ready, 1u);
}

TEST_P(Lro, AnInjectedErrorTakesTheSessionWithIt) {
    steer();
    post(2);
    arrive(segment(0));
    deliver();
    ASSERT_TRUE(device->inject_error(queue.number, CompletionError::local_protection));
    arrive(segment(1));
    deliver();
    // The session was complete before the next WQE failed.
    expect_alone(segment(0));
    EXPECT_NE(rx_cq.poll_error(mlx5::CqeOpcode::resp_error), nullptr);
    EXPECT_EQ(device->counters().drop_rx_error, 1u);
}

/// On a lossless port, a packet that finds no WQE after that of the session ends the session and
/// waits.
class LosslessLro : public Testbed {
  protected:
    static DeviceConfig lossless() {
        DeviceConfig config = default_config();
        config.pause = true;
        return config;
    }
    LosslessLro() : Testbed(lossless()), queue(*device, pd, rx_cq.number, {.listener = &listener}) {
        TirAttr attr;
        attr.rqn = queue.number;
        attr.lro = kIpv4Lro;
        (void)device->create_flow(to(device->create_tir(attr).value())).value();
    }
    TestRq queue;
};

TEST_F(LosslessLro, TheLastWqeEndsWhenThePacketAfterItHasNone) {
    Spec spec;
    spec.proto = frames::kTcp;
    spec.payload = frames::pattern(kMss);
    wire->incoming = {frames::build(spec), frames::build({})};
    post_buffer(queue);
    run();
    EXPECT_EQ(wire->incoming.size(), 1u) << "what has no WQE must wait";
    EXPECT_EQ(packet_of(expect_packet(rx_cq)), frames::build(spec));
    post_buffer(queue);
    run();
    EXPECT_EQ(packet_of(expect_packet(rx_cq)), frames::build({}));
    EXPECT_EQ(device->counters().delivered, 2u);
}

} // namespace
} // namespace testbed
