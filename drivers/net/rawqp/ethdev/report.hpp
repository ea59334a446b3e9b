// SPDX-License-Identifier: BSD-3-Clause
// From an Error to what ethdev operations return: the sentence goes to the log, the errno back.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/log.hpp"

namespace rawqp {

/// Logs the failure once and returns its negative errno.
inline int report(const Port& port, const Error& error) {
    RAWQP_LOG(ERR, "%s: %s", port.name.c_str(), error.what.c_str());
    return error.code > 0 ? -error.code : -EIO;
}
inline int report(const Port& port, const Result<void>& result) {
    return result ? 0 : report(port, result.error());
}

} // namespace rawqp
