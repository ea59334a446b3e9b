// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/objects.hpp"

#include "tests/unit/softhca/testbed.hpp"

#include <gtest/gtest.h>

namespace {

using namespace softhca;

/// Busy while another object exists.
struct Held final : uverbs::Object {
    Held(const bool& busy, bool& gone) : busy_(busy), gone_(gone) {}
    uverbs::Errno take_down(core::Device&) override {
        if (busy_) return EBUSY;
        gone_ = true;
        return 0;
    }

  private:
    const bool& busy_;
    bool& gone_;
};

struct Holder final : uverbs::Object {
    explicit Holder(bool& holds) : holds_(holds) {}
    uverbs::Errno take_down(core::Device&) override {
        holds_ = false;
        return 0;
    }

  private:
    bool& holds_;
};

TEST(ObjectTableTest, WhatOlderObjectsUseGoesInTheEnd) {
    core::Device device({}, std::make_unique<testbed::FakeWire>(), nullptr);
    bool holds = true, gone = false;
    uverbs::ObjectTable objects;
    objects.add(std::make_unique<Holder>(holds));
    objects.add(std::make_unique<Held>(holds, gone));
    objects.destroy_all(device);
    EXPECT_TRUE(gone);
}

TEST(ObjectTableTest, WhatStaysBusyIsGivenUp) {
    core::Device device({}, std::make_unique<testbed::FakeWire>(), nullptr);
    bool gone = false;
    const bool busy = true;
    uverbs::ObjectTable objects;
    const uint32_t handle = objects.add(std::make_unique<Held>(busy, gone));
    objects.destroy_all(device);
    EXPECT_FALSE(gone);
    EXPECT_EQ(objects.find<Held>(handle), nullptr);
}

TEST(ObjectTableTest, WhatIsBusyIsNotReplaced) {
    core::Device device({}, std::make_unique<testbed::FakeWire>(), nullptr);
    bool busy = true, old_gone = false, new_gone = false;
    const bool never = false;
    uverbs::ObjectTable objects;
    const uint32_t handle = objects.add(std::make_unique<Held>(busy, old_gone));
    EXPECT_EQ(objects.replace(handle, std::make_unique<Held>(never, new_gone), device), EBUSY);
    EXPECT_TRUE(new_gone && !old_gone);
    busy = new_gone = false;
    EXPECT_EQ(objects.replace(handle, std::make_unique<Held>(never, new_gone), device), 0);
    EXPECT_TRUE(old_gone && !new_gone);
    EXPECT_NE(objects.find<Held>(handle), nullptr);
}

} // namespace
