// SPDX-License-Identifier: BSD-3-Clause
// Firmware commands with arbitrary bytes.
#include "tests/fuzz/corpus_test.hpp"
#include "tests/fuzz/inputs.hpp"

namespace {

TEST(CommandFuzz, Commands) { fuzz::play_some({"commands", fuzz::play_commands}, 300, 2000); }
TEST(CommandFuzz, Mailboxes) { fuzz::play_some({"mailboxes", fuzz::play_mailboxes}, 300, 4000); }

} // namespace
