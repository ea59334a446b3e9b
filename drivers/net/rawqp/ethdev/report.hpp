// SPDX-License-Identifier: BSD-3-Clause
// From an Error to what ethdev operations return: the sentence goes to the log, the errno back.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/log.hpp"

#include <string>

namespace rawqp {

/// Logs the failure of the port or vdev of that name once and returns its negative errno.
inline int report(const std::string& name, const Error& error) {
    RAWQP_LOG(ERR, "%s: %s", name.c_str(), error.what.c_str());
    return error.code > 0 ? -error.code : -EIO;
}
inline int report(const std::string& name, const Result<void>& result) {
    return result ? 0 : report(name, result.error());
}

} // namespace rawqp
