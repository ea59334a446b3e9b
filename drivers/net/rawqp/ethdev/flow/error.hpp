// SPDX-License-Identifier: BSD-3-Clause
// Why an rte_flow rule is refused, as the translator hands it up to rte_flow_error.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/ethdev/names.hpp"

#include <fmt/format.h>
#include <string>
#include <tl/expected.hpp>

namespace rawqp {

struct FlowError {
    int code = EINVAL; ///< positive errno
    rte_flow_error_type type = RTE_FLOW_ERROR_TYPE_UNSPECIFIED;
    const void* cause = nullptr; ///< the caller's attribute, item or action
    std::string what;
};
template <class T> using FlowResult = tl::expected<T, FlowError>;

template <class... Args>
[[nodiscard]] tl::unexpected<FlowError> refuse(int code, rte_flow_error_type type,
                                               const void* cause,
                                               fmt::format_string<Args...> format, Args&&... args) {
    return tl::unexpected<FlowError>(
        FlowError{code, type, cause, fmt::format(format, std::forward<Args>(args)...)});
}

[[nodiscard]] inline tl::unexpected<FlowError> lacks_configuration(const rte_flow_action& action) {
    return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &action,
                  "action {}: its configuration is missing", action_name(action.type));
}

} // namespace rawqp
