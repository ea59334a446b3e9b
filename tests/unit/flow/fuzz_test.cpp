// SPDX-License-Identifier: BSD-3-Clause
// Arbitrary rules from applications.
#include "tests/fuzz/corpus_test.hpp"
#include "tests/fuzz/inputs.hpp"

namespace {

TEST(FlowFuzz, Flows) { fuzz::play_some({"flows", fuzz::play_flows}, 3000, 600); }

} // namespace
