// SPDX-License-Identifier: BSD-3-Clause
// Steering with LRO: rules lead to TIRs that enable it, and no hash QP is created for them.
#include "tests/unit/flow/fake_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rawqp::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint16_t kTir = 0x900;
constexpr size_t kLroAt = 32 + 16, kTableAt = 32 + 32; // in create_tir: words of tirc
constexpr uint32_t kTunneledOffload = 1u << 29;
constexpr LroTerms kTerms{.period = 0x1234, .units = 0x56, .tunnels = true};

class LroSteeringTest : public testing::Test {
  protected:
    LroSteeringTest() {
        device.offer_mlx5_flows();
        device.offers_devx = true;
        steering = make_steering(device, qps);
        request.target = qps.target({{0, 1}, kDefaultRssKey, IBV_RX_HASH_SRC_IPV4});
        request.pattern.eth().set(47, 1, 0); // one bit of the destination
    }
    std::vector<const verbs_test::DevxObject*> tirs() const {
        std::vector<const verbs_test::DevxObject*> found;
        for (const auto& object : device.devx_objects)
            if (object->opcode() == kTir) found.push_back(object.get());
        return found;
    }

    FakeDevice device{2};
    RssQps qps{device.api(), device.context(), device.pd(), device.rx_queues};
    std::unique_ptr<Steering> steering;
    SteeringRequest request;
};

TEST_F(LroSteeringTest, RulesLeadToTirsThatAskForIt) {
    steering->use_lro(kTerms);
    const auto rule = steering->install(request);
    ASSERT_TRUE(rule) << rule.error().what;
    EXPECT_EQ(qps.size(), 0u);
    ASSERT_THAT(tirs(), SizeIs(1));
    EXPECT_EQ(tirs()[0]->word(kLroAt), 0x1234u << 12 | 3u << 8 | 0x56u); // for both IP versions
    EXPECT_NE(tirs()[0]->word(kTableAt) & kTunneledOffload, 0u);
    ASSERT_THAT(device.flows, SizeIs(1));
    ASSERT_THAT(device.flows[0]->actions, SizeIs(1));
    const auto& action = device.flows[0]->actions[0];
    EXPECT_EQ(action.type, MLX5DV_FLOW_ACTION_DEST_DEVX);
    EXPECT_EQ(verbs_test::DevxObject::of(action.obj), tirs()[0]);
}

TEST_F(LroSteeringTest, WithoutItNothingIsAsked) {
    const auto by_qp = steering->install(request);
    ASSERT_TRUE(by_qp);
    EXPECT_EQ(qps.size(), 1u);
    request.group = 1;
    const auto by_tir = steering->install(request);
    ASSERT_TRUE(by_tir) << by_tir.error().what;
    ASSERT_THAT(tirs(), SizeIs(1));
    EXPECT_EQ(tirs()[0]->word(kLroAt), 0u);
    EXPECT_EQ(tirs()[0]->word(kTableAt) & kTunneledOffload, 0u);
}

TEST_F(LroSteeringTest, EntriesOfGroupsHaveItToo) {
    steering->use_lro(kTerms);
    request.group = 1;
    const auto rule = steering->install(request);
    ASSERT_TRUE(rule) << rule.error().what;
    ASSERT_THAT(tirs(), SizeIs(1));
    EXPECT_EQ(tirs()[0]->word(kLroAt) >> 12, kTerms.period);
}

/// From one port start to the next.
TEST_F(LroSteeringTest, ItComesAndGoes) {
    steering->use_lro(kTerms);
    ASSERT_TRUE(steering->install(request)); // removed again at once
    EXPECT_THAT(tirs(), IsEmpty());
    steering->use_lro(LroTerms{.period = 8, .units = 1});
    {
        const auto rule = steering->install(request);
        ASSERT_THAT(tirs(), SizeIs(1));
        EXPECT_EQ(tirs()[0]->word(kLroAt), 8u << 12 | 3u << 8 | 1u);
        EXPECT_EQ(tirs()[0]->word(kTableAt) & kTunneledOffload, 0u);
    }
    steering->use_lro(std::nullopt);
    const auto rule = steering->install(request);
    EXPECT_EQ(qps.size(), 1u);
    EXPECT_THAT(tirs(), IsEmpty());
}

/// Rules are kept while the port is reconfigured.
TEST_F(LroSteeringTest, AnEngineFoundWithoutItIsNotAsked) {
    const auto found = steering->engine_for(request);
    ASSERT_TRUE(found);
    EXPECT_STREQ((*found)->name(), "verbs");
    request.engine = *found;
    steering->use_lro(kTerms);
    const auto rule = steering->install(request);
    ASSERT_TRUE(rule) << rule.error().what;
    EXPECT_THAT(tirs(), SizeIs(1));
    EXPECT_EQ(qps.size(), 0u);
}

TEST_F(LroSteeringTest, WhatBringsNoTcpGoesByHashQps) {
    steering->use_lro(kTerms);
    request.pattern.eth().set(7, 1, 1); // a group address
    const auto multicast = steering->install(request);
    ASSERT_TRUE(multicast) << multicast.error().what;
    EXPECT_EQ(qps.size(), 1u);
    request.pattern = {};
    ASSERT_EQ(request.pattern.push(Protocol::ipv4), Pattern::Follows::yes);
    request.pattern.last().set(128, 32, 0xe0000005); // 224.0.0.5
    request.strict_level = true;
    const auto ipv4_multicast = steering->install(request);
    ASSERT_TRUE(ipv4_multicast) << ipv4_multicast.error().what;
    request.strict_level = false;
    request.pattern = {};
    request.drop = true;
    const auto drop = steering->install(request);
    ASSERT_TRUE(drop);
    request.drop = false;
    request.type = IBV_FLOW_ATTR_ALL_DEFAULT;
    const auto rest = steering->install(request);
    ASSERT_TRUE(rest);
    EXPECT_THAT(tirs(), IsEmpty());
}

TEST_F(LroSteeringTest, WithoutTheDevicesOwnWordsItIsRefused) {
    EXPECT_TRUE(steering->has_lro());
    const auto verbs = make_steering(device, qps, FlowEngine::verbs);
    EXPECT_FALSE(verbs->has_lro());
    verbs->use_lro(kTerms);
    const auto rule = verbs->install(request);
    ASSERT_FALSE(rule);
    EXPECT_THAT(rule.error().what, HasSubstr("LRO: verbs flows lead to hash QPs"));
}

TEST_F(LroSteeringTest, AFailureLeavesNothing) {
    steering->use_lro(kTerms);
    ASSERT_TRUE(steering->install(request)); // creates the transport domain, which stays
    const int failures = install_through_failures(device, *steering, request, [&] {
        EXPECT_THAT(device.matchers, IsEmpty());
        EXPECT_THAT(tirs(), IsEmpty());
    });
    EXPECT_EQ(failures, 4); // matcher, table, TIR, flow
}

} // namespace
} // namespace rawqp::test
