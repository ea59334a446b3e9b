// SPDX-License-Identifier: BSD-3-Clause
// Operations of the primary process that a secondary one refuses: with -EPERM, and a log line that
// names the function that was called.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace rawqp::secondary {

/// The name by which users know an operation.
template <size_t kSize> struct Name {
    char text[kSize];
    consteval Name(const char (&from)[kSize]) { std::copy_n(from, kSize, text); }
};

/// Returns -EPERM.
int refuse(const rte_eth_dev* dev, const char* what);

template <Name kName, class Operation> struct Refused;
template <Name kName, class R, class... Args> struct Refused<kName, R (*)(rte_eth_dev*, Args...)> {
    static R call(rte_eth_dev* dev, Args...) noexcept {
        const int error = refuse(dev, kName.text);
        if constexpr (!std::is_void_v<R>) return static_cast<R>(error);
    }
};
/// Puts the refusal in the place of an operation in a table.
template <Name kName, class Operation> constexpr void refused(Operation& operation) {
    operation = Refused<kName, Operation>::call;
}

/// What a secondary process may do with flow rules, and the refusal of everything else.
int flow_ops_get(rte_eth_dev* dev, const rte_flow_ops** ops) noexcept;
/// The refusal of meters.
int meter_ops_get(rte_eth_dev* dev, void* ops) noexcept;
/// The refusal of flow queues, where these have a separate table.
void set_flow_queue_ops(rte_eth_dev& dev) noexcept;

} // namespace rawqp::secondary
