// SPDX-License-Identifier: BSD-3-Clause
// mlx5dv_create_flow: matchers in the device's layout.
#include "common/net/endian.hpp"
#include "tests/functional/uverbs/verbs.hpp"

#include <map>

namespace test {
namespace {

using MatcherHandle = Handle<mlx5dv_flow_matcher, mlx5dv_destroy_flow_matcher>;
using ActionHandle = Handle<ibv_flow_action, ibv_destroy_flow_action>;

// Byte offsets in fte_match_set_lyr_2_4 of the PRM.
constexpr size_t kDstMac = 8, kIpProtocol = 16, kFlags = 18, kTtl = 27, kUdpDstPort = 30,
                 kDstIp = 60;
constexpr uint8_t kOuterHeaders = 1;

/// mlx5dv_flow_match_parameters with room for the outer headers.
class Parameters {
  public:
    Parameters() : words_(1 + kBytes / 8) { get()->match_sz = kBytes; }
    Parameters& set(size_t byte, std::initializer_list<uint8_t> bytes) {
        std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t*>(get()->match_buf) + byte);
        return *this;
    }
    [[nodiscard]] mlx5dv_flow_match_parameters* get() {
        return reinterpret_cast<mlx5dv_flow_match_parameters*>(words_.data());
    }

  private:
    static constexpr size_t kBytes = 64;
    std::vector<uint64_t> words_;
};

class FlowDvTest : public VerbsTest {
  protected:
    void SetUp() override {
        VerbsTest::SetUp();
        endpoint = make_endpoint(context.get(), pd.get());
    }
    [[nodiscard]] MatcherHandle make_matcher(Parameters& mask, uint16_t priority = 0,
                                             mlx5dv_flow_table_type table = kReceive) {
        mlx5dv_flow_matcher_attr attributes{};
        if (table != kReceive) {
            attributes.comp_mask = MLX5DV_FLOW_MATCHER_MASK_FT_TYPE;
            attributes.ft_type = table;
        }
        attributes.type = IBV_FLOW_ATTR_NORMAL;
        attributes.priority = priority;
        attributes.match_criteria_enable = kOuterHeaders;
        attributes.match_mask = mask.get();
        errno = 0;
        return MatcherHandle(mlx5dv_create_flow_matcher(context.get(), &attributes));
    }
    [[nodiscard]] FlowHandle to_endpoint(mlx5dv_flow_matcher* matcher, Parameters& value) {
        mlx5dv_flow_action_attr action{};
        action.type = MLX5DV_FLOW_ACTION_DEST_IBV_QP;
        action.qp = endpoint->qp.get();
        errno = 0;
        return FlowHandle(mlx5dv_create_flow(matcher, value.get(), 1, &action));
    }

    [[nodiscard]] static FlowHandle
    with_default_miss(mlx5dv_flow_matcher* matcher, Parameters& value,
                      std::vector<mlx5dv_flow_action_attr> actions = {}) {
        actions.push_back({});
        actions.back().type = MLX5DV_FLOW_ACTION_DEFAULT_MISS;
        errno = 0;
        return FlowHandle(mlx5dv_create_flow(matcher, value.get(), actions.size(), actions.data()));
    }

    /// A flow that changes all packets like this: those to the endpoint, or those sent.
    [[nodiscard]] FlowHandle changing(mlx5dv_flow_matcher* matcher,
                                      std::vector<ibv_flow_action*> changes, bool received) {
        std::vector<mlx5dv_flow_action_attr> actions(changes.size());
        for (size_t i = 0; i < changes.size(); i++) {
            actions[i].type = MLX5DV_FLOW_ACTION_IBV_FLOW_ACTION;
            actions[i].action = changes[i];
        }
        if (received) {
            actions.push_back({});
            actions.back().type = MLX5DV_FLOW_ACTION_DEST_IBV_QP;
            actions.back().qp = endpoint->qp.get();
        }
        Parameters nothing;
        errno = 0;
        return FlowHandle(
            mlx5dv_create_flow(matcher, nothing.get(), actions.size(), actions.data()));
    }
    /// Sets the last two bytes of the destination MAC (set_action_in of the PRM).
    [[nodiscard]] ActionHandle set_mac(uint16_t low, mlx5dv_flow_table_type table) {
        constexpr uint32_t kSetDstMacLow = 1u << 28 | 0x5 << 16 | 16;
        uint64_t action = net::to_be(uint64_t{kSetDstMacLow} << 32 | low);
        return ActionHandle(
            mlx5dv_create_flow_action_modify_header(context.get(), sizeof action, &action, table));
    }
    [[nodiscard]] ActionHandle reformat(mlx5dv_flow_action_packet_reformat_type type,
                                        mlx5dv_flow_table_type table, Frame headers = {}) {
        return ActionHandle(mlx5dv_create_flow_action_packet_reformat(
            context.get(), headers.size(), headers.empty() ? nullptr : headers.data(), type,
            table));
    }
    static constexpr auto kReceive = MLX5DV_FLOW_TABLE_TYPE_NIC_RX;
    static constexpr auto kTransmit = MLX5DV_FLOW_TABLE_TYPE_NIC_TX;

    std::unique_ptr<Endpoint> endpoint;
};

TEST_F(FlowDvTest, MatchesWhatTheMaskNames) {
    Parameters mask, value;
    mask.set(kIpProtocol, {0xff}).set(kFlags, {0x1e}).set(kUdpDstPort, {0xff, 0xff});
    value.set(kIpProtocol, {17}).set(kFlags, {4 << 1}).set(kUdpDstPort, {2000 >> 8, 2000 & 0xff});
    const MatcherHandle matcher = make_matcher(mask);
    ASSERT_TRUE(matcher) << std::strerror(errno);
    const FlowHandle flow = to_endpoint(matcher.get(), value);
    ASSERT_TRUE(flow) << std::strerror(errno);
    ASSERT_EQ(endpoint->send(UdpFrame{.dst_port = 2001}.bytes()), IBV_WC_SUCCESS);
    ASSERT_EQ(endpoint->send(UdpFrame{.protocol = 6}.bytes()), IBV_WC_SUCCESS);
    const Frame right = UdpFrame{}.bytes();
    ASSERT_EQ(endpoint->send(right), IBV_WC_SUCCESS);
    EXPECT_EQ(endpoint->receive(), right) << "and none before it";
}

TEST_F(FlowDvTest, ValuesOutsideTheMaskAreRefused) {
    Parameters mask, right;
    mask.set(kDstIp, {0xff, 0xff, 0xff, 0x00});
    right.set(kDstIp, {10, 0, 0, 0});
    const MatcherHandle matcher = make_matcher(mask);
    for (const size_t byte : {kDstIp + 3, kTtl, kDstMac}) {
        Parameters wrong;
        wrong.set(kDstIp, {10, 0, 0, 0}).set(byte, {1});
        EXPECT_FALSE(to_endpoint(matcher.get(), wrong)) << byte;
        EXPECT_EQ(errno, EINVAL) << byte;
    }
    const FlowHandle flow = to_endpoint(matcher.get(), right);
    ASSERT_TRUE(flow) << std::strerror(errno);
    const Frame frame = UdpFrame{}.bytes();
    ASSERT_EQ(endpoint->send(frame), IBV_WC_SUCCESS);
    EXPECT_EQ(endpoint->receive(), frame);
}

TEST_F(FlowDvTest, DropAction) {
    Parameters nothing;
    const MatcherHandle matcher = make_matcher(nothing, 1), ahead = make_matcher(nothing, 0);
    const FlowHandle flow = to_endpoint(matcher.get(), nothing);
    const Frame frame = UdpFrame{}.bytes();
    ASSERT_EQ(endpoint->send(frame), IBV_WC_SUCCESS);
    EXPECT_EQ(endpoint->receive(), frame);
    mlx5dv_flow_action_attr action{};
    action.type = MLX5DV_FLOW_ACTION_DROP;
    FlowHandle drop(mlx5dv_create_flow(ahead.get(), nothing.get(), 1, &action));
    ASSERT_TRUE(drop) << std::strerror(errno);
    ASSERT_EQ(endpoint->send(frame), IBV_WC_SUCCESS);
    drop.reset();
    const Frame next = UdpFrame{.seed = 9}.bytes();
    ASSERT_EQ(endpoint->send(next), IBV_WC_SUCCESS);
    EXPECT_EQ(endpoint->receive(), next);
}

TEST_F(FlowDvTest, ADefaultMissGoesPastTheOtherRules) {
    Parameters mask, value;
    mask.set(kDstMac, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff});
    value.set(kDstMac, {0x02, 0, 0, 0, 0, 1});
    const MatcherHandle matcher = make_matcher(mask, 1), ahead = make_matcher(mask, 0);
    const FlowHandle flow = to_endpoint(matcher.get(), value);
    const auto rest = make_endpoint(context.get(), pd.get());
    const FlowHandle leftovers = FlowBuilder(IBV_FLOW_ATTR_ALL_DEFAULT).create(rest->qp.get());
    ASSERT_TRUE(flow && leftovers) << std::strerror(errno);
    const Frame first = UdpFrame{.seed = 1}.bytes(), second = UdpFrame{.seed = 2}.bytes(),
                third = UdpFrame{.seed = 3}.bytes();
    ASSERT_EQ(endpoint->send(first), IBV_WC_SUCCESS);
    EXPECT_EQ(endpoint->receive(), first);
    FlowHandle miss = with_default_miss(ahead.get(), value);
    ASSERT_TRUE(miss) << std::strerror(errno);
    ASSERT_EQ(endpoint->send(second), IBV_WC_SUCCESS);
    EXPECT_EQ(rest->receive(), second);
    miss.reset();
    ASSERT_EQ(endpoint->send(third), IBV_WC_SUCCESS);
    EXPECT_EQ(endpoint->receive(), third) << "and not the one before it";
    EXPECT_TRUE(rest->is_empty());
}

TEST_F(FlowDvTest, ADefaultMissGoesWithNoDestination) {
    Parameters nothing;
    const MatcherHandle rx = make_matcher(nothing), tx = make_matcher(nothing, 0, kTransmit);
    mlx5dv_flow_action_attr to_qp{}, drop{};
    to_qp.type = MLX5DV_FLOW_ACTION_DEST_IBV_QP;
    to_qp.qp = endpoint->qp.get();
    drop.type = MLX5DV_FLOW_ACTION_DROP;
    for (const auto& other : {to_qp, drop}) {
        EXPECT_FALSE(with_default_miss(rx.get(), nothing, {other})) << other.type;
        EXPECT_NE(errno, 0);
    }
    EXPECT_FALSE(with_default_miss(tx.get(), nothing));
    EXPECT_EQ(errno, EOPNOTSUPP) << "nothing comes after";
    EXPECT_TRUE(with_default_miss(rx.get(), nothing));
}

TEST_F(FlowDvTest, HeadersAreModifiedInBothDirections) {
    Parameters nothing;
    const MatcherHandle rx = make_matcher(nothing), tx = make_matcher(nothing, 0, kTransmit);
    ASSERT_TRUE(rx && tx) << std::strerror(errno);
    const ActionHandle in = set_mac(0x1234, kReceive), out = set_mac(0x5678, kTransmit);
    ASSERT_TRUE(in && out) << std::strerror(errno);
    const Frame frame = UdpFrame{}.bytes();
    Frame expected = frame;
    FlowHandle flow = to_endpoint(rx.get(), nothing);
    ASSERT_TRUE(flow);
    {
        const FlowHandle sends = changing(tx.get(), {out.get()}, false);
        ASSERT_TRUE(sends) << std::strerror(errno);
        ASSERT_EQ(endpoint->send(frame), IBV_WC_SUCCESS);
        expected[4] = 0x56, expected[5] = 0x78;
        EXPECT_EQ(endpoint->receive(), expected);
        EXPECT_NE(ibv_destroy_flow_action(out.get()), 0) << "in use";
    }
    flow = changing(rx.get(), {in.get()}, true);
    ASSERT_FALSE(flow) << "the same match, other changes";
    EXPECT_EQ(errno, EEXIST);
    flow = nullptr;
}

TEST_F(FlowDvTest, SpecsOfVerbsNameActionsToo) {
    const ActionHandle in = set_mac(0x1234, kReceive);
    ibv_flow_spec_action_handle handle{};
    handle.type = IBV_FLOW_SPEC_ACTION_HANDLE;
    handle.size = sizeof handle;
    handle.action = in.get();
    const FlowHandle flow = FlowBuilder().add(handle).create(endpoint->qp.get());
    ASSERT_TRUE(flow) << std::strerror(errno);
    const Frame frame = UdpFrame{}.bytes();
    ASSERT_EQ(endpoint->send(frame), IBV_WC_SUCCESS);
    Frame expected = frame;
    expected[4] = 0x12, expected[5] = 0x34;
    EXPECT_EQ(endpoint->receive(), expected);
    FlowBuilder twice(IBV_FLOW_ATTR_NORMAL, 1);
    EXPECT_FALSE(twice.add(handle).add(handle).create(endpoint->qp.get()));
    EXPECT_EQ(errno, EINVAL) << "one of a kind";
}

TEST_F(FlowDvTest, TunnelsGoOnWhereTheyAreSentAndComeOffWhereTheyArrive) {
    Parameters nothing;
    const MatcherHandle rx = make_matcher(nothing), tx = make_matcher(nothing, 0, kTransmit);
    const Frame frame = UdpFrame{}.bytes();
    Frame headers = UdpFrame{.dst_port = 4789, .size = 42}.bytes();
    headers[16] = headers[17] = headers[38] = headers[39] = 0; // the device fills in lengths
    for (const uint8_t byte : {0x08, 0, 0, 0, 0, 0, 7, 0})
        headers.push_back(byte);
    const ActionHandle encap =
        reformat(MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L2_TUNNEL, kTransmit, headers);
    const ActionHandle decap =
        reformat(MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TUNNEL_TO_L2, kReceive);
    const ActionHandle mac = set_mac(0x1234, kReceive);
    ASSERT_TRUE(encap && decap && mac) << std::strerror(errno);
    const FlowHandle sends = changing(tx.get(), {encap.get()}, false);
    ASSERT_TRUE(sends) << std::strerror(errno);
    {
        const FlowHandle as_it_is = to_endpoint(rx.get(), nothing);
        ASSERT_TRUE(as_it_is);
        ASSERT_EQ(endpoint->send(frame), IBV_WC_SUCCESS);
        const Frame tunnelled = endpoint->receive();
        ASSERT_EQ(tunnelled.size(), frame.size() + headers.size());
        EXPECT_EQ(tunnelled[39], frame.size() + 16) << "UDP length";
        EXPECT_TRUE(std::equal(frame.begin(), frame.end(), tunnelled.end() - frame.size()));
    }
    const FlowHandle arrives = changing(rx.get(), {decap.get(), mac.get()}, true);
    ASSERT_TRUE(arrives) << std::strerror(errno);
    ASSERT_EQ(endpoint->send(frame), IBV_WC_SUCCESS);
    Frame expected = frame;
    expected[4] = 0x12, expected[5] = 0x34;
    EXPECT_EQ(endpoint->receive(), expected);
}

TEST_F(FlowDvTest, ActionsThatTheDeviceDoesNotHaveAreRefused) {
    const Frame headers(14, 2);
    EXPECT_FALSE(
        reformat(MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L2_TUNNEL, kReceive, headers));
    EXPECT_EQ(errno, EOPNOTSUPP);
    EXPECT_FALSE(reformat(MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TUNNEL_TO_L2, kTransmit));
    EXPECT_EQ(errno, EOPNOTSUPP);
    EXPECT_FALSE(
        reformat(MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L2_TUNNEL, kTransmit, Frame(200)));
    EXPECT_EQ(errno, EINVAL) << "longer than the device takes";
    EXPECT_FALSE(set_mac(1, MLX5DV_FLOW_TABLE_TYPE_FDB));
    EXPECT_EQ(errno, EOPNOTSUPP) << "there is no switch";
    uint64_t unknown = net::to_be(uint64_t{1u << 28 | 0x2f << 16} << 32);
    EXPECT_FALSE(
        mlx5dv_create_flow_action_modify_header(context.get(), sizeof unknown, &unknown, kReceive));
    EXPECT_EQ(errno, EINVAL) << "no such field";
    uint64_t many[33];
    std::fill(std::begin(many), std::end(many), net::to_be(uint64_t{1u << 28 | 0x5 << 16} << 32));
    EXPECT_FALSE(
        mlx5dv_create_flow_action_modify_header(context.get(), sizeof many, many, kReceive));
    EXPECT_EQ(errno, EOPNOTSUPP) << "more than a rule may have";
    EXPECT_TRUE(ActionHandle(mlx5dv_create_flow_action_modify_header(
        context.get(), sizeof many - sizeof many[0], many, kReceive)));
}

TEST_F(FlowDvTest, MatcherInUseIsBusy) {
    Parameters nothing;
    const MatcherHandle matcher = make_matcher(nothing);
    FlowHandle flow = to_endpoint(matcher.get(), nothing);
    ASSERT_TRUE(flow);
    EXPECT_EQ(mlx5dv_destroy_flow_matcher(matcher.get()), EBUSY);
    flow.reset();
}

TEST_F(FlowDvTest, PrioritiesEndAtFifteen) {
    Parameters nothing;
    const MatcherHandle last = make_matcher(nothing, 15), beyond = make_matcher(nothing, 16);
    ASSERT_TRUE(last && beyond); // the kernel only checks when a flow is created
    EXPECT_TRUE(to_endpoint(last.get(), nothing));
    EXPECT_FALSE(to_endpoint(beyond.get(), nothing));
    EXPECT_EQ(errno, ENOMEM);
}

/// The kernel only asks the device when the matcher gets its first flow.
TEST_F(FlowDvTest, MasksThatTheDeviceCannotMatchAreRefusedAtTheFlow) {
    constexpr size_t kReserved = 24;
    Parameters nothing, reserved;
    reserved.set(kReserved, {0xff});
    const MatcherHandle unknown = make_matcher(reserved);
    ASSERT_TRUE(unknown);
    EXPECT_FALSE(to_endpoint(unknown.get(), nothing));
    EXPECT_EQ(errno, EINVAL);
    Parameters both; // no packet has TCP and UDP ports
    both.set(20, {0xff}).set(kUdpDstPort, {0xff});
    const MatcherHandle matcher = make_matcher(both);
    ASSERT_TRUE(matcher);
    EXPECT_FALSE(to_endpoint(matcher.get(), nothing));
    EXPECT_EQ(errno, EINVAL);
}

} // namespace
} // namespace test
