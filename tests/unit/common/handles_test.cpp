// SPDX-License-Identifier: BSD-3-Clause
#include "common/verbs/handles.hpp"

#include <cerrno>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace {

using testing::ElementsAre;

std::vector<std::string> calls;
int pd_fails = 0, td_fails = 0; // how often they still fail

int dealloc_pd(ibv_pd*) {
    calls.emplace_back("PD");
    return pd_fails > 0 ? (--pd_fails, ENOMEM) : 0;
}
int dealloc_td(ibv_td*) {
    calls.emplace_back("TD");
    return td_fails > 0 ? (--td_fails, EBUSY) : 0;
}
int close_device(ibv_context*) {
    calls.emplace_back("context");
    return 0;
}

class HandlesTest : public testing::Test {
  protected:
    HandlesTest() {
        calls.clear();
        pd_fails = td_fails = 0;
        pd_.context = td_.context = &context_;
        handler_ = verbs::set_destroy_failure_handler([](const char* kind, int error) {
            calls.push_back(std::string(kind) + ": " + std::to_string(error));
        });
    }
    ~HandlesTest() override { verbs::set_destroy_failure_handler(handler_); }

    verbs::Context context() { return {&context_, {close_device, "context"}}; }
    verbs::Pd pd() { return {&pd_, {dealloc_pd, "PD"}}; }
    verbs::Td td() { return {&td_, {dealloc_td, "TD"}}; }

    ibv_context context_{}, other_{};
    ibv_pd pd_{};
    ibv_td td_{};

  private:
    verbs::DestroyFailureHandler handler_;
};

TEST_F(HandlesTest, WhatWasDestroyedIsNotTriedAgain) {
    {
        const verbs::Context context = this->context();
        const verbs::Pd pd = this->pd();
    }
    EXPECT_THAT(calls, ElementsAre("PD", "context"));
}

TEST_F(HandlesTest, WhatCouldNotBeDestroyedIsTriedAgainBeforeItsContextIsClosed) {
    pd_fails = td_fails = 1;
    {
        const verbs::Context context = this->context();
        verbs::Td td = this->td();
        verbs::Pd pd = this->pd();
        EXPECT_EQ(verbs::destroy(pd), ENOMEM);
        td.reset();
        verbs::destroy_left(&other_); // another context: nothing is tried
        EXPECT_THAT(calls, ElementsAre("PD", "PD: 12", "TD", "TD: 16"));
        calls.clear();
    }
    EXPECT_THAT(calls, ElementsAre("PD", "TD", "context"));
    context().reset();
    EXPECT_THAT(calls, ElementsAre("PD", "TD", "context", "context")) << "once";
}

TEST_F(HandlesTest, WhatStillCannotBeDestroyedKeepsNobodyBusy) {
    pd_fails = 2;
    {
        const verbs::Context context = this->context();
        const verbs::Td td = this->td();
        const verbs::Pd pd = this->pd();
    }
    EXPECT_THAT(calls, ElementsAre("PD", "PD: 12", "TD", "PD", "context"));
}

} // namespace
