// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

namespace fuzz {

/// The folder of the inputs that fuzzers found worth keeping, with a subfolder per target.
std::filesystem::path corpus_folder();

} // namespace fuzz
