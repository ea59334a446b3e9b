// SPDX-License-Identifier: BSD-3-Clause
// What a client of the control socket gets about packets. The device never waits for it.
#include "app/softhca/control/observation.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <nlohmann/json.hpp>

namespace {

using namespace testbed;
using control::Observation;

class ObservationTest : public Testbed {
  protected:
    void receive(size_t count) {
        for (size_t i = 0; i < count; i++)
            wire->incoming.push_back(frames::build(frames::Spec{}));
        run();
    }
};

TEST_F(ObservationTest, PacketsAreTakenOnce) {
    Observation observation({device.get()}, {.steps = true});
    receive(2);
    const auto first = observation.take();
    ASSERT_EQ(first["packets"].size(), 2u);
    const auto& packet = first["packets"][0];
    EXPECT_EQ(packet["device"], "mlx5_0");
    EXPECT_EQ(packet["direction"], "received");
    EXPECT_EQ(packet["frame"].get<std::string>().substr(0, 12), "0215b3000001");
    EXPECT_EQ(packet["steps"][0]["where"], "wire");
    EXPECT_EQ(first["lost"], 0);
    EXPECT_EQ(first["done"], false);
    EXPECT_TRUE(observation.take()["packets"].empty());
}

TEST_F(ObservationTest, AfterACountItIsDone) {
    Observation observation({device.get()}, {.count = 3});
    receive(5);
    const auto answer = observation.take();
    EXPECT_EQ(answer["packets"].size(), 3u);
    EXPECT_TRUE(answer["packets"][0]["steps"].empty());
    EXPECT_EQ(answer["lost"], 0);
    EXPECT_EQ(answer["done"], true);
}

TEST_F(ObservationTest, WhatFindsNoRoomIsCounted) {
    Observation observation({device.get()}, {});
    receive(5000);
    size_t kept = 0;
    uint64_t lost = 0;
    for (auto answer = observation.take(); !answer["packets"].empty();
         answer = observation.take()) {
        kept += answer["packets"].size();
        lost += answer["lost"].get<uint64_t>();
    }
    EXPECT_EQ(kept, 4096u);
    EXPECT_EQ(kept + lost, 5000u);
    receive(1);
    EXPECT_EQ(observation.take()["packets"].size(), 1u) << "there is room again";
}

TEST_F(ObservationTest, FramesThatWereTakenMakeRoomForOthers) {
    Observation observation({device.get()}, {});
    const std::string name = "mlx5_0";
    core::Passage large{.device = &name};
    large.frame.resize(9u << 20); // of the 16 MiB that are kept
    for (int round = 0; round < 2; round++) {
        observation.on_packet(large);
        observation.on_packet(large); // one too many
        const auto answer = observation.take();
        EXPECT_EQ(answer["packets"].size(), 1u);
        EXPECT_EQ(answer["lost"], 1);
    }
}

} // namespace
