// SPDX-License-Identifier: BSD-3-Clause
// What an errno of a steering or RSS call most likely means.
#pragma once

#include <string>

namespace rawqp {

/// "Operation not permitted: raw packet rules need CAP_NET_RAW": the errno's text and, where one is
/// known, the likely cause and remedy.
[[nodiscard]] std::string flow_cause(int error);

} // namespace rawqp
