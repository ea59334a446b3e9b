// SPDX-License-Identifier: BSD-3-Clause
// Files and folders, read in the way that suits the kernel's: with plain C calls, one open at a
// time, nothing kept.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace files {

/// Names in a folder, sorted; numbers sort as numbers. Empty when it cannot be read.
[[nodiscard]] std::vector<std::string> entries(const std::string& path);

/// A whole file; nothing when it cannot be read.
[[nodiscard]] std::optional<std::string> contents(const std::string& path);

/// First line of a file without the blanks at its end; empty when it cannot be read.
[[nodiscard]] std::string first_line(const std::string& path);

[[nodiscard]] bool exists(const std::string& path);

/// The target of a symbolic link, as written there; empty if it is not a link.
[[nodiscard]] std::string link_target(const std::string& path);

/// What follows the last slash.
[[nodiscard]] std::string base_name(const std::string& path);

} // namespace files
