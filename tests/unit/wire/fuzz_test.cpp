// SPDX-License-Identifier: BSD-3-Clause
// Arbitrary input from users, programs and other processes for the readers of text, captures and
// links.
#include "tests/fuzz/corpus_test.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/unit/eal.hpp"

namespace {

class InputFuzz : public test_eal::EalTest {};

TEST_F(InputFuzz, Texts) { fuzz::play_some({"texts", fuzz::play_texts}, 3000, 200); }
TEST_F(InputFuzz, Control) { fuzz::play_some({"control", fuzz::play_control}, 200, 500); }
TEST_F(InputFuzz, Captures) { fuzz::play_some({"captures", fuzz::play_captures}, 2000, 300); }
TEST_F(InputFuzz, Cables) { fuzz::play_some({"cables", fuzz::play_cables}, 500, 200); }
TEST_F(InputFuzz, Rules) { fuzz::play_some({"rules", fuzz::play_rules}, 3000, 400); }

} // namespace
