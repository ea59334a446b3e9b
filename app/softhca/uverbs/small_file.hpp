// SPDX-License-Identifier: BSD-3-Clause
// One-line files, as in sysfs.
#pragma once

#include <string>
#include <string_view>

namespace softhca::uverbs {

/// Without the newline; empty when it cannot be read.
[[nodiscard]] std::string read_line(const std::string& path);

/// Replaces the content of an existing file by `line` and a newline. Failures are ignored: the file
/// is only for other programs to read.
void write_line(const std::string& path, std::string_view line);

} // namespace softhca::uverbs
