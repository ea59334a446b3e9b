// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

namespace fuzz {

/// The folder with the inputs that fuzzers have found worth keeping, in a folder for each target.
std::filesystem::path corpus_folder();

} // namespace fuzz
