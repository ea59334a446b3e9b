// SPDX-License-Identifier: BSD-3-Clause
// The meters of a device, as far as they work without a queue: objects are created as many at a
// time as it wants, with two meters each.
#include "drivers/net/rawqp/ethdev/meter/meter_device.hpp"
#include "drivers/net/rawqp/ethdev/meter/meters.hpp"
#include "tests/unit/flow/fake_device.hpp"
#include "tests/unit/verbs/fake_rdma.hpp"

#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

namespace rawqp {
namespace {

using testing::HasSubstr;

constexpr uint32_t kPd = 0x33;
constexpr uint8_t kLogAtOnce = 2, kLogInAll = 10;
bool has_meters = true;

int tell_capabilities(ibv_context*, const void*, size_t, void* out, size_t bytes) {
    std::memset(out, 0, bytes);
    auto& answer = *static_cast<prm::QueryQosCapOut*>(out);
    answer.log_meters_at_least = kLogAtOnce;
    answer.log_meters_at_most = kLogInAll;
    answer.log_meters = has_meters ? kLogInAll : 0;
    return 0;
}

int tell_pd(mlx5dv_obj* object, uint64_t) {
    object->pd.out->pdn = kPd;
    return 0;
}

class MeterDeviceTest : public testing::Test {
  protected:
    MeterDeviceTest() {
        has_meters = true;
        rdma.offer_mlx5_flows();
        rdma.offers_devx = true;
        api = rdma.api();
        api.mlx5_devx_general_cmd = tell_capabilities;
        api.mlx5_init_obj = tell_pd;
    }
    MeterSlot take() {
        const auto slot = device.take();
        EXPECT_TRUE(slot) << slot.error().what;
        return slot.value_or(MeterSlot{});
    }
    std::vector<const verbs_test::DevxObject*> made() const {
        std::vector<const verbs_test::DevxObject*> found;
        for (const auto& object : rdma.devx_objects)
            if (object->opcode() == 0xa00) found.push_back(object.get());
        return found;
    }

    verbs_test::FakeRdma rdma;
    verbs::Api api;
    Devx devx{api, nullptr};
    MeterDevice device{api, devx, nullptr, nullptr, 1};
};

TEST_F(MeterDeviceTest, ObjectsAreMadeAsManyAtOnceAsTheDeviceWants) {
    EXPECT_EQ(device.most(), 2u << kLogInAll);
    std::set<std::pair<uint32_t, int>> slots;
    for (int i = 0; i < 2 << kLogAtOnce; ++i) {
        const MeterSlot slot = take();
        slots.emplace(slot.object, slot.place);
    }
    ASSERT_EQ(made().size(), 1u);
    EXPECT_EQ(slots.size(), 2u << kLogAtOnce);
    EXPECT_EQ(slots.begin()->first, made()[0]->number);
    EXPECT_EQ(slots.rbegin()->first, made()[0]->number + (1u << kLogAtOnce) - 1);
    EXPECT_EQ(made()[0]->word(4), 0x24u); // the object type, after the reserved half
    EXPECT_EQ(made()[0]->word(12),
              0x02000000u); // log2 of the count, in the low bits of a byte
    EXPECT_EQ(made()[0]->word(32), kPd);
    const MeterSlot more = take();
    EXPECT_EQ(made().size(), 2u);
    device.give_back(more);
    EXPECT_EQ(take().object, more.object);
}

TEST_F(MeterDeviceTest, DevicesWithoutMetersSaySo) {
    has_meters = false;
    EXPECT_THAT(device.take().error().what, HasSubstr("has no meters (ASO objects)"));
    api.mlx5_devx_general_cmd = nullptr;
    EXPECT_THAT(device.most().error().what, HasSubstr("does not say which meters it has"));
}

TEST_F(MeterDeviceTest, WithoutDevxThereAreNone) {
    rdma.offers_devx = false;
    const auto most = device.most();
    ASSERT_FALSE(most);
    EXPECT_EQ(most.error().code, ENOTSUP);
    EXPECT_THAT(most.error().what, HasSubstr("the kernel does not give to this process"));
}

/// On a device that has meters.
class PortMetersTest : public testing::Test {
  protected:
    PortMetersTest() {
        has_meters = true;
        rdma.offer_mlx5_flows();
        rdma.offers_devx = true;
        api = rdma.api();
        api.mlx5_devx_general_cmd = tell_capabilities;
        api.mlx5_init_obj = tell_pd;
        params.meter_profile_id = params.meter_policy_id = 1;
        params.meter_enable = 1;
    }
    std::unique_ptr<Steering> steering_by(FlowEngine engine) {
        return std::move(*Steering::make(api, qps, 1, engine));
    }
    /// They have a profile and a policy.
    Meters meters_of(Steering& steering) {
        Meters meters({api, steering.devx(), rdma.context(), rdma.pd(), 1}, steering);
        rte_mtr_meter_profile profile{};
        profile.alg = RTE_MTR_SRTCM_RFC2697;
        profile.srtcm_rfc2697.cir = profile.srtcm_rfc2697.cbs = 1000;
        EXPECT_TRUE(meters.add_profile(1, profile));
        EXPECT_TRUE(meters.add_policy(1, {}));
        return meters;
    }

    test::FakeDevice rdma{1};
    verbs::Api api;
    RssQps qps{api, rdma.context(), rdma.pd(), rdma.rx_queues};
    rte_mtr_params params{};
};

TEST_F(PortMetersTest, ThereAreNoneThatNoRuleCouldRun) {
    const auto steering = steering_by(FlowEngine::verbs);
    Meters meters = meters_of(*steering);
    const auto can = meters.capabilities();
    ASSERT_FALSE(can);
    EXPECT_EQ(can.error().code, ENOTSUP);
    EXPECT_THAT(can.error().what, HasSubstr("verbs flow specs run no meters"));
    const auto created = meters.create(1, params);
    ASSERT_FALSE(created);
    EXPECT_EQ(created.error().what, can.error().what);
    EXPECT_EQ(meters_of(*steering_by(FlowEngine::automatic)).capabilities()->n_max,
              2u << kLogInAll);
}

/// What gives all packets the same color is no color-aware metering; there are no header fields to
/// which a default would be the alternative.
TEST_F(PortMetersTest, InputColorsMayBeGreen) {
    const auto steering = steering_by(FlowEngine::mlx5);
    Meters meters = meters_of(*steering);
    EXPECT_EQ(meters.capabilities()->meter_policy_n_max, meters.capabilities()->n_max);
    rdma.fail_always("create_cq_ex", ENOMEM); // which is called to write what is accepted
    std::array<rte_color, 64> dscp{};
    std::array<rte_color, 16> vlan{};
    const auto refusal = [&] { return meters.create(1, params).error().code; };
    params.default_input_color = RTE_COLOR_RED;
    EXPECT_EQ(refusal(), ENOMEM);
    params.dscp_table = dscp.data();
    params.vlan_table = vlan.data();
    EXPECT_EQ(refusal(), ENOMEM);
    dscp.back() = RTE_COLOR_YELLOW;
    EXPECT_EQ(refusal(), ENOTSUP);
    dscp.back() = RTE_COLOR_GREEN;
    vlan.back() = RTE_COLOR_RED;
    EXPECT_EQ(refusal(), ENOTSUP);
    vlan.back() = RTE_COLOR_GREEN;
    params.use_prev_mtr_color = 1;
    EXPECT_EQ(refusal(), ENOTSUP);
}

/// No queue can be created that writes them.
TEST_F(PortMetersTest, AMeterThatCannotBeWrittenGivesItsPlaceBack) {
    const auto steering = steering_by(FlowEngine::mlx5);
    Meters meters = meters_of(*steering);
    rdma.fail_always("create_cq_ex", ENOMEM);
    for (uint32_t id = 0; id < 3u << kLogAtOnce; ++id) { // more than are created at once
        const auto created = meters.create(id, params);
        ASSERT_FALSE(created);
        EXPECT_EQ(created.error().code, ENOMEM) << created.error().what;
    }
    EXPECT_EQ(std::ranges::count_if(rdma.devx_objects,
                                    [](const auto& object) { return object->opcode() == 0xa00; }),
              1);
    EXPECT_TRUE(meters.delete_profile(1)) << "no meter has it";
}

} // namespace
} // namespace rawqp
