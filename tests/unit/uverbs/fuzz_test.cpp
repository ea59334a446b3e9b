// SPDX-License-Identifier: BSD-3-Clause
// Commands of the uverbs ABI with arbitrary bytes.
#include "tests/fuzz/corpus_test.hpp"
#include "tests/fuzz/inputs.hpp"

namespace {

TEST(UverbsFuzz, Commands) { fuzz::play_some({"uverbs", fuzz::play_uverbs}, 300, 2000); }

} // namespace
