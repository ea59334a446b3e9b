// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow_cause.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace rawqp {

namespace {

const char* likely_cause(int error) {
    switch (error) {
    case EPERM: return "raw packet steering needs CAP_NET_RAW (run as root or grant it)";
    case EEXIST: return "the device has a rule with this match already, maybe of another process";
    case EBUSY: return "the object is in use, or another process holds the resource";
    case ENOMEM:
        return "the device or the host is out of resources for rules or hash QPs: use "
               "fewer rules, queues or RSS types";
    case ENOSPC: return "the device's flow tables are full: use fewer rules";
    case EINVAL: return "the device refuses this combination of match, hash and priority";
    case EOPNOTSUPP: return "the device or its kernel driver does not offer this match or action";
    case ENODEV:
    case EIO: return "the device is gone or in fatal error";
    default: return nullptr;
    }
}

} // namespace

std::string flow_cause(int error) {
    const std::string text = std::generic_category().message(error);
    const char* cause = likely_cause(error);
    return cause == nullptr ? text : fmt::format("{} ({})", text, cause);
}

} // namespace rawqp
