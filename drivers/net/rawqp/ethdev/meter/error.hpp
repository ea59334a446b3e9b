// SPDX-License-Identifier: BSD-3-Clause
// Why rte_mtr is refused something, as the port's meters hand it up to rte_mtr_error.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <string>
#include <tl/expected.hpp>

namespace rawqp {

/// The number that a C program has put there: it need not be one of the enumerators and must not be
/// read as one.
template <class Enum> [[nodiscard]] unsigned number_in(const Enum& place) {
    static_assert(sizeof(Enum) == sizeof(unsigned));
    unsigned number;
    std::memcpy(&number, &place, sizeof number);
    return number;
}

struct MeterError {
    int code = EINVAL; ///< positive errno
    rte_mtr_error_type type = RTE_MTR_ERROR_TYPE_UNSPECIFIED;
    std::string what;
};
template <class T> using MeterResult = tl::expected<T, MeterError>;

template <class... Args>
[[nodiscard]] tl::unexpected<MeterError>
refuse(int code, rte_mtr_error_type type, fmt::format_string<Args...> format, Args&&... args) {
    return tl::unexpected<MeterError>(
        MeterError{code, type, fmt::format(format, std::forward<Args>(args)...)});
}

} // namespace rawqp
