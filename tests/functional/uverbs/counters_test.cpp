// SPDX-License-Identifier: BSD-3-Clause
// ibv_counters: what rules with a count action have taken.
#include "tests/functional/uverbs/verbs.hpp"

namespace test {
namespace {

using CountersHandle = Handle<ibv_counters, ibv_destroy_counters>;

ibv_flow_spec_counter_action count_spec(ibv_counters* counters) {
    return {IBV_FLOW_SPEC_ACTION_COUNT, sizeof(ibv_flow_spec_counter_action), counters};
}

ibv_flow_spec_tcp_udp to_port(uint16_t port) {
    ibv_flow_spec_tcp_udp udp = udp_spec();
    udp.val.dst_port = __builtin_bswap16(port);
    udp.mask.dst_port = 0xffff;
    return udp;
}

/// One endpoint gets everything; the rules under test count some of it.
class CountersTest : public VerbsTest {
  protected:
    void SetUp() override {
        VerbsTest::SetUp();
        endpoint = make_endpoint(context.get(), pd.get());
        rest = FlowBuilder(IBV_FLOW_ATTR_ALL_DEFAULT).create(endpoint->qp.get());
        ASSERT_TRUE(rest);
    }
    [[nodiscard]] CountersHandle make_counters(uint32_t packets_at = 0, uint32_t bytes_at = 1) {
        ibv_counters_init_attr init{};
        CountersHandle counters(ibv_create_counters(context.get(), &init));
        EXPECT_TRUE(counters) << std::strerror(errno);
        attach(counters.get(), IBV_COUNTER_PACKETS, packets_at);
        attach(counters.get(), IBV_COUNTER_BYTES, bytes_at);
        return counters;
    }
    static void attach(ibv_counters* counters, ibv_counter_description what, uint32_t index) {
        ibv_counter_attach_attr attach{};
        attach.counter_desc = what;
        attach.index = index;
        EXPECT_EQ(ibv_attach_counters_point_flow(counters, &attach, nullptr), 0);
    }
    [[nodiscard]] FlowHandle counting(uint16_t port, ibv_counters* counters) {
        FlowHandle flow =
            FlowBuilder().add(to_port(port)).add(count_spec(counters)).create(endpoint->qp.get());
        EXPECT_TRUE(flow) << std::strerror(errno);
        return flow;
    }
    void expect_round_trip(uint16_t port, size_t size) {
        const Frame frame = UdpFrame{.dst_port = port, .size = size}.bytes();
        EXPECT_EQ(endpoint->send(frame), IBV_WC_SUCCESS);
        EXPECT_EQ(endpoint->receive(), frame);
    }
    template <size_t kSize> [[nodiscard]] static auto read(ibv_counters* counters) {
        std::array<uint64_t, kSize> values{};
        values.fill(~uint64_t{0});
        EXPECT_EQ(ibv_read_counters(counters, values.data(), kSize, 0), 0);
        return values;
    }
    using Values = std::array<uint64_t, 2>;

    std::unique_ptr<Endpoint> endpoint;
    FlowHandle rest;
};

TEST_F(CountersTest, PacketsAndBytesOfOneRule) {
    const CountersHandle counters = make_counters();
    const FlowHandle flow = counting(7, counters.get());
    EXPECT_EQ(read<2>(counters.get()), (Values{0, 0}));
    expect_round_trip(7, 100);
    expect_round_trip(8, 300);
    expect_round_trip(7, 1500);
    EXPECT_EQ(read<2>(counters.get()), (Values{2, 1600}));
}

TEST_F(CountersTest, WhatIsDroppedCounts) {
    const CountersHandle counters = make_counters();
    const FlowHandle flow = FlowBuilder()
                                .add(to_port(7))
                                .add(drop_spec())
                                .add(count_spec(counters.get()))
                                .create(endpoint->qp.get());
    ASSERT_TRUE(flow) << std::strerror(errno);
    EXPECT_EQ(endpoint->send(UdpFrame{.dst_port = 7, .size = 200}.bytes()), IBV_WC_SUCCESS);
    expect_round_trip(8, 100); // by now, the first one has been dropped
    EXPECT_EQ(read<2>(counters.get()), (Values{1, 200}));
}

TEST_F(CountersTest, ValuesStandWhereTheyWereAttached) {
    const CountersHandle counters = make_counters(2, 0);
    attach(counters.get(), IBV_COUNTER_PACKETS, 3);
    const FlowHandle flow = counting(7, counters.get());
    expect_round_trip(7, 100);
    EXPECT_EQ(read<5>(counters.get()), (std::array<uint64_t, 5>{100, 0, 1, 1, 0}));
    std::array<uint64_t, 3> too_few{};
    EXPECT_EQ(ibv_read_counters(counters.get(), too_few.data(), too_few.size(), 0), EINVAL);
}

TEST_F(CountersTest, RulesShareThem) {
    const CountersHandle counters = make_counters();
    const FlowHandle one = counting(7, counters.get());
    FlowHandle two = counting(8, counters.get());
    expect_round_trip(7, 100);
    expect_round_trip(8, 200);
    EXPECT_EQ(read<2>(counters.get()), (Values{2, 300}));
    two.reset();
    expect_round_trip(8, 200);
    expect_round_trip(7, 100);
    EXPECT_EQ(read<2>(counters.get()), (Values{3, 400}));
}

TEST_F(CountersTest, TheyOutliveTheirRules) {
    const CountersHandle counters = make_counters();
    FlowHandle flow = counting(7, counters.get());
    expect_round_trip(7, 100);
    flow.reset();
    Values values{};
    EXPECT_EQ(ibv_read_counters(counters.get(), values.data(), values.size(), 0), EINVAL)
        << "no rule counts into them";
    flow = counting(8, counters.get());
    expect_round_trip(8, 200);
    EXPECT_EQ(read<2>(counters.get()), (Values{2, 300}));
}

TEST_F(CountersTest, EachRuleHasItsOwn) {
    const CountersHandle first = make_counters(), second = make_counters();
    const FlowHandle one = counting(7, first.get()), two = counting(8, second.get());
    expect_round_trip(8, 100);
    EXPECT_EQ(read<2>(first.get()), (Values{0, 0}));
    EXPECT_EQ(read<2>(second.get()), (Values{1, 100}));
}

/// The device counts for all rules with the same match together.
TEST_F(CountersTest, EqualRulesCountOnceEach) {
    const CountersHandle first = make_counters(), second = make_counters();
    const FlowHandle one = counting(7, first.get()), two = counting(7, second.get());
    expect_round_trip(7, 100);
    EXPECT_EQ(read<2>(first.get()), (Values{1, 100}));
    EXPECT_EQ(read<2>(second.get()), (Values{1, 100}));
}

TEST_F(CountersTest, TheyAreBusyWhileARuleCounts) {
    CountersHandle counters = make_counters();
    FlowHandle flow = counting(7, counters.get());
    EXPECT_EQ(ibv_destroy_counters(counters.get()), EBUSY);
    flow.reset();
}

TEST_F(CountersTest, ARuleCountsOnce) {
    const CountersHandle first = make_counters(), second = make_counters();
    errno = 0;
    EXPECT_FALSE(FlowBuilder()
                     .add(to_port(7))
                     .add(count_spec(first.get()))
                     .add(count_spec(second.get()))
                     .create(endpoint->qp.get()));
    EXPECT_EQ(errno, EINVAL);
    const FlowHandle flow = counting(7, second.get()); // a refused rule leaves no trace
    expect_round_trip(7, 100);
    EXPECT_EQ(read<2>(second.get()), (Values{1, 100}));
}

} // namespace
} // namespace test
