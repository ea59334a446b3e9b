// SPDX-License-Identifier: BSD-3-Clause
// Large receive offload: what is coalesced, what ends a session, what its completion tells.
#include "tests/unit/softhca/testbed.hpp"

#include <algorithm>

namespace testbed {
namespace {

using frames::Spec;

constexpr uint32_t kWqeRoom = 16384, kWqes = 4;
constexpr size_t kMss = 1400;
constexpr uint64_t kLong = 3'600'000'000'000; // no session lasts until then
constexpr LroAttr kIpv4Lro{.ipv4 = true, .timeout_ns = kLong, .max_bytes = 65280};

/// All packets to this TIR.
FlowAttr to(Number tir) {
    FlowAttr flow;
    flow.tirs = {tir};
    return flow;
}

enum class Kind { cyclic, striding };

RqOptions options_of(Kind kind, FakeListener* listener) {
    RqOptions options{.log_wqes = 2, .log_wqe_bytes = 7, .listener = listener};
    if (kind == Kind::striding) {
        options.log_wqe_bytes = 5;
        options.striding = StridingAttr{.log_strides = 5, .log_stride_bytes = 9};
    }
    return options;
}

/// What the owner of a completed session makes of it, as the drivers do.
Bytes with_completed_headers(Bytes frame, const mlx5::Cqe& cqe, size_t l3, int ip) {
    const size_t l4 = l3 + (ip == 4 ? 20 : 40);
    if (ip == 4) {
        frame[l3 + 8] = cqe.lro.min_ttl;
        frames::put16(frame, l3 + 2, static_cast<uint16_t>(frame.size() - l3));
        frames::put16(frame, l3 + 10, 0);
        frames::put16(frame, l3 + 10,
                      frames::slow_checksum({frame.begin() + l3, frame.begin() + l4}));
    } else {
        frame[l3 + 7] = cqe.lro.min_ttl;
        frames::put16(frame, l3 + 4, static_cast<uint16_t>(frame.size() - l3 - 40));
    }
    if (cqe.lro.tcppsh_abort_dupack & mlx5::kLroPush) frame[l4 + 13] |= frames::kPsh;
    frames::put32(frame, l4 + 8, cqe.lro.ack_seq_num);
    frames::put16(frame, l4 + 14, cqe.lro.tcp_win);
    frames::put16(frame, l4 + 16, 0);
    frames::put16(
        frame, l4 + 16,
        frames::slow_l4_checksum({frame.begin() + l3, frame.end()}, l4 - l3, frames::kTcp));
    return frame;
}

uint32_t segments_of(const mlx5::Cqe& cqe) { return cqe.srqn_uidx >> 24; }
uint32_t bytes_of(const mlx5::Cqe& cqe) { return cqe.byte_count & 0xffff; }

class Lro : public Testbed, public testing::WithParamInterface<Kind> {
  protected:
    Lro() : queue(*device, pd, rx_cq.number, options_of(GetParam(), &listener)) {}

    [[nodiscard]] bool strides() const { return GetParam() == Kind::striding; }
    [[nodiscard]] static Spec segment(uint32_t number, size_t bytes = kMss) {
        Spec spec;
        spec.proto = frames::kTcp;
        spec.sequence = 0xffffff00 + number * kMss; // wraps around soon
        spec.payload = frames::pattern(bytes, static_cast<uint8_t>(number));
        return spec;
    }
    void steer(const LroAttr& lro) {
        (void)device->create_flow(to(direct_tir(queue, lro))).value();
    }
    void steer() { steer({.ipv4 = true, .ipv6 = true, .timeout_ns = kLong, .max_bytes = 65280}); }
    [[nodiscard]] Number direct_tir(const TestRq& to, const LroAttr& lro) {
        TirAttr attr;
        attr.rqn = to.number;
        attr.lro = lro;
        return device->create_tir(attr).value();
    }
    void post(size_t count = 1) {
        while (count--) {
            const size_t at = queue.producer % kWqes * kWqeRoom;
            std::vector<TestRq::Segment> buffers;
            const uint32_t bytes = strides() ? kWqeRoom : kWqeRoom / 8;
            for (uint32_t done = 0; done < kWqeRoom; done += bytes)
                buffers.push_back({lkey, memory_at(at + done), bytes});
            queue.post(buffers);
        }
    }
    void arrive(const Spec& spec) { wire->incoming.push_back(frames::build(spec)); }
    /// Sessions go on, unlike in run().
    void deliver() {
        while (!wire->incoming.empty())
            (void)device->poll();
    }
    /// Whatever session there is ends.
    void end() {
        arrive(udp);
        deliver();
    }
    /// The next completion has so many segments.
    const mlx5::Cqe& expect_segments(uint32_t segments) {
        const mlx5::Cqe& cqe = expect_packet(rx_cq);
        rx_cq.release();
        EXPECT_EQ(segments_of(cqe), segments);
        EXPECT_EQ(cqe.srqn_uidx & 0xffffff, 0xa5u);
        return cqe;
    }
    /// The next completion is of a packet that came alone.
    void expect_alone(const Spec& spec) {
        const mlx5::Cqe& cqe = expect_segments(0);
        EXPECT_EQ(in_memory(cqe), frames::build(spec));
    }
    [[nodiscard]] Bytes in_memory(const mlx5::Cqe& cqe) {
        const size_t wqe = strides() ? cqe.wqe_id : cqe.wqe_counter;
        const size_t stride = strides() ? size_t{cqe.wqe_counter} : 0;
        return get(memory_at(wqe % kWqes * kWqeRoom + stride * 512), bytes_of(cqe));
    }
    /// The next completion is of these segments, and its packet as if it had come as one.
    void expect_coalesced(const std::vector<Spec>& specs, size_t l3 = 14) {
        const mlx5::Cqe& cqe = expect_segments(static_cast<uint32_t>(specs.size()));
        Spec whole = specs.front();
        whole.payload.clear();
        for (const Spec& spec : specs) {
            whole.payload.insert(whole.payload.end(), spec.payload.begin(), spec.payload.end());
            whole.ttl = std::min(whole.ttl, spec.ttl);
        }
        whole.ack = specs.back().ack;
        whole.window = specs.back().window;
        whole.tcp_flags = specs.back().tcp_flags;
        EXPECT_EQ(with_completed_headers(in_memory(cqe), cqe, l3, whole.ip), frames::build(whole));
        EXPECT_EQ(cqe.check_sum, static_cast<uint16_t>(~frames::slow_checksum(whole.payload)));
        EXPECT_EQ(cqe.hds_ip_ext, mlx5::kL2Ok | mlx5::kL3Ok | mlx5::kL4Ok);
        EXPECT_EQ(cqe.l4_l3_type >> 4 & 7, static_cast<uint8_t>(mlx5::CqeL4::tcp_ack_data));
    }
    /// Two segments of a flow, the second of which `change` has made one that does not continue it.
    template <class Change> void expect_apart(Change&& change) {
        post(3);
        Spec second = segment(1);
        change(second);
        arrive(segment(0));
        arrive(second);
        end();
        expect_alone(segment(0));
        expect_alone(second);
    }

    TestRq queue;
    const Spec udp;
};

INSTANTIATE_TEST_SUITE_P(Rings, Lro, testing::Values(Kind::cyclic, Kind::striding),
                         [](const auto& info) {
                             return info.param == Kind::cyclic ? "Cyclic" : "Striding";
                         });

TEST_P(Lro, SegmentsBecomeOnePacket) {
    steer();
    post(2);
    std::vector<Spec> specs;
    for (uint32_t i = 0; i < 5; i++) {
        specs.push_back(segment(i));
        specs.back().ttl = static_cast<uint8_t>(64 - i % 3);
        specs.back().ip_id = static_cast<uint16_t>(100 + i);
        specs.back().ack = 1000 * i;
        specs.back().window = static_cast<uint16_t>(500 + i);
        arrive(specs.back());
    }
    deliver();
    EXPECT_EQ(rx_cq.poll(), nullptr) << "the session is over before anything ended it";
    EXPECT_EQ(device->counters().delivered, 0u);
    end();
    expect_coalesced(specs);
    expect_alone(udp);
    EXPECT_EQ(device->counters().delivered, 6u);
    EXPECT_EQ(device->rq_counters(queue.number)->cqes, 2u);
}

TEST_P(Lro, OddPayloadsAndIpv6BehindTags) {
    steer();
    post(2);
    Spec first = segment(0, 1401), second = segment(1, 1403);
    for (Spec* spec : {&first, &second}) {
        const Spec ipv6 = frames::ipv6_spec();
        spec->ip = 6;
        spec->src_ip = ipv6.src_ip;
        spec->dst_ip = ipv6.dst_ip;
        spec->flow_label = 0x12345;
        spec->tags = {{0x88a8, 5}, {0x8100, 7}};
    }
    device->set_mtu(1600);
    second.sequence = first.sequence + 1401;
    second.ttl = 3;
    arrive(first);
    arrive(second);
    end();
    expect_coalesced({first, second}, 22);
}

TEST_P(Lro, PushEndsASessionAtOnce) {
    steer();
    post(2);
    Spec last = segment(2);
    last.tcp_flags |= frames::kPsh;
    const std::vector<Spec> specs = {segment(0), segment(1), last};
    for (const Spec& spec : specs)
        arrive(spec);
    deliver();
    expect_coalesced(specs);
}

TEST_P(Lro, OneSegmentIsAPacketLikeAnyOther) {
    steer();
    post(2);
    Spec only = segment(0);
    only.tcp_flags |= frames::kPsh;
    arrive(only);
    deliver();
    const mlx5::Cqe& cqe = expect_segments(0);
    const Bytes frame = frames::build(only);
    EXPECT_EQ(in_memory(cqe), frame);
    EXPECT_EQ(cqe.check_sum,
              static_cast<uint16_t>(~frames::slow_checksum({frame.begin() + 14, frame.end()})));
}

TEST_P(Lro, TimeStampsThatAreTheSame) {
    steer();
    post(3);
    std::vector<Spec> specs = {segment(0), segment(1), segment(2)};
    for (Spec& spec : specs)
        spec.tcp_options = {1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2};
    specs[2].tcp_options[7] = 9;
    for (const Spec& spec : specs)
        arrive(spec);
    end();
    expect_coalesced({specs[0], specs[1]});
    expect_alone(specs[2]);
}

TEST_P(Lro, OtherOptions) {
    steer();
    post(3);
    std::vector<Spec> specs = {segment(0), segment(1)};
    for (Spec& spec : specs) {
        spec.tcp_options = {1, 1, 4, 2};
        arrive(spec);
    }
    deliver();
    expect_alone(specs[0]);
    expect_alone(specs[1]);
}

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

TEST_P(Lro, AnotherMarkEndsASession) {
    post(3);
    FlowAttr marked = to(direct_tir(queue, kIpv4Lro));
    marked.mask.outer.ttl = 0xff;
    marked.value.outer.ttl = 9;
    marked.tag = 5;
    (void)device->create_flow(marked).value();
    FlowAttr rest = to(marked.tirs.front());
    rest.priority = 1;
    (void)device->create_flow(rest).value();
    Spec second = segment(1);
    second.ttl = 9;
    arrive(segment(0));
    arrive(second);
    end();
    EXPECT_EQ(expect_segments(0).sop_drop_qpn, 0u);
    EXPECT_EQ(expect_segments(0).sop_drop_qpn, 5u);
}

TEST_P(Lro, TheSizeLimitCountsTcp) {
    steer({.ipv4 = true, .timeout_ns = kLong, .max_bytes = 20 + 3 * kMss});
    post(3);
    for (uint32_t i = 0; i < 6; i++)
        arrive(segment(i));
    deliver(); // the last segment that fits ends a session
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
    // The session was whole when the next WQE failed.
    expect_alone(segment(0));
    EXPECT_NE(rx_cq.poll_error(mlx5::CqeOpcode::resp_error), nullptr);
    EXPECT_EQ(device->counters().drop_rx_error, 1u);
}

TEST_P(Lro, FcsIsNotCoalesced) {
    RqOptions options = options_of(GetParam(), &listener);
    options.scatter_fcs = true;
    TestRq with_fcs(*device, pd, rx_cq.number, options);
    (void)device->create_flow(to(direct_tir(with_fcs, kIpv4Lro))).value();
    for (int i = 0; i < 2; i++)
        with_fcs.post({{lkey, memory_at(0), kWqeRoom}});
    arrive(segment(0));
    arrive(segment(1));
    deliver();
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(bytes_of(expect_segments(0)), 54 + kMss + 4);
}

TEST_P(Lro, StrippedTag) {
    ASSERT_TRUE(device->modify_rq_vlan_strip(queue.number, true));
    steer();
    post(2);
    Spec first = segment(0), second = segment(1);
    first.tags = second.tags = {{0x8100, 77}};
    arrive(first);
    arrive(second);
    end();
    const mlx5::Cqe& cqe = expect_segments(2);
    EXPECT_EQ(cqe.vlan_info, 77u);
    EXPECT_NE(cqe.l4_l3_type & mlx5::kVlanStripped, 0);
    Spec whole = segment(0);
    whole.payload.insert(whole.payload.end(), second.payload.begin(), second.payload.end());
    EXPECT_EQ(with_completed_headers(in_memory(cqe), cqe, 14, 4), frames::build(whole));
}

/// A port that loses nothing waits for a WQE behind the session, which time ends.
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
