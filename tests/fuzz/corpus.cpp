// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/corpus.hpp"

std::filesystem::path fuzz::corpus_folder() { return RAWQP_FUZZ_CORPUS; }
