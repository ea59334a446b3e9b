// SPDX-License-Identifier: BSD-3-Clause
// mlx5dv_create_flow: matchers in the layout of the device.
#include "tests/functional/uverbs/verbs.hpp"

#include <map>

namespace test {
namespace {

using MatcherHandle = Handle<mlx5dv_flow_matcher, mlx5dv_destroy_flow_matcher>;

// Places in fte_match_set_lyr_2_4 of the PRM, in bytes.
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
    [[nodiscard]] MatcherHandle make_matcher(Parameters& mask, uint16_t priority = 0) {
        mlx5dv_flow_matcher_attr attributes{};
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
    ASSERT_TRUE(last && beyond); // the kernel only looks when a flow is made
    EXPECT_TRUE(to_endpoint(last.get(), nothing));
    EXPECT_FALSE(to_endpoint(beyond.get(), nothing));
    EXPECT_EQ(errno, ENOMEM);
}

/// The kernel only asks the device when the matcher gets its first flow.
TEST_F(FlowDvTest, MasksThatTheDeviceCannotMatchAreRefusedAtTheFlow) {
    const struct {
        size_t byte;
        uint8_t bits;
        const char* why;
    } cases[] = {
        {26, 0x08, "l3_ok"},
        {24, 0xff, "reserved"},
    };
    Parameters nothing;
    for (const auto& c : cases) {
        Parameters mask;
        mask.set(c.byte, {c.bits});
        const MatcherHandle matcher = make_matcher(mask);
        ASSERT_TRUE(matcher) << c.why;
        EXPECT_FALSE(to_endpoint(matcher.get(), nothing)) << c.why;
        EXPECT_EQ(errno, EINVAL) << c.why;
    }
    Parameters both; // no packet has TCP and UDP ports
    both.set(20, {0xff}).set(kUdpDstPort, {0xff});
    const MatcherHandle matcher = make_matcher(both);
    ASSERT_TRUE(matcher);
    EXPECT_FALSE(to_endpoint(matcher.get(), nothing));
    EXPECT_EQ(errno, EINVAL);
}

} // namespace
} // namespace test
