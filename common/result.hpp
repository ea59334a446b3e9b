// SPDX-License-Identifier: BSD-3-Clause
// Errors as values. Every fallible control-path function returns Result<T>.
#pragma once

#include <fmt/format.h>
#include <string>
#include <tl/expected.hpp>
#include <utility>

/// A failure: a positive errno value and one sentence that names the object, the likely cause and
/// the remedy. Owned by value; safe to move between threads.
struct Error {
    int code = 0;
    std::string what;
};

/// Either a value or an Error. `Result<void>` for calls that only succeed or fail.
template <class T> using Result = tl::expected<T, Error>;

/// Builds the failing side of a Result: `return fail(ENODEV, "{}: no such device", name);`
template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(int code, fmt::format_string<Args...> format,
                                         Args&&... args) {
    return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}
