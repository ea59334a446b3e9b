// SPDX-License-Identifier: BSD-3-Clause
// At the end of a run, lists what could not be tested because the CPU lacks a feature.
#include <cstdio>
#include <gtest/gtest.h>
#include <map>
#include <string>

namespace {

class NotTested : public testing::EmptyTestEventListener {
    void OnTestPartResult(const testing::TestPartResult& result) override {
        const std::string reason = result.skipped() ? result.message() : "";
        const size_t lacks = reason.find("this CPU has no ");
        if (lacks != std::string::npos) ++tests_[reason.substr(lacks)];
    }
    void OnTestProgramEnd(const testing::UnitTest&) override {
        for (const auto& [reason, count] : tests_)
            std::printf("NOT TESTED: %u tests, as %s\n", count, reason.c_str());
    }
    std::map<std::string, unsigned> tests_; // by reason
};

[[maybe_unused]] const bool kListens = [] {
    testing::UnitTest::GetInstance()->listeners().Append(new NotTested);
    return true;
}();

} // namespace
