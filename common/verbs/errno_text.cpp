// SPDX-License-Identifier: BSD-3-Clause
#include "common/verbs/errno_text.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <system_error>

namespace verbs {
namespace {

using enum Attempt;

struct Cause {
    int error;
    unsigned attempts; ///< of Attempt, one bit each
    Reason reason;
};

constexpr unsigned operator|(Attempt a, Attempt b) {
    return static_cast<unsigned>(a) | static_cast<unsigned>(b);
}
constexpr unsigned operator|(unsigned a, Attempt b) { return a | static_cast<unsigned>(b); }
constexpr unsigned only(Attempt attempt) { return static_cast<unsigned>(attempt); }

constexpr const char* kNoSuchQps = "the device or its kernel driver has no such QPs";
constexpr const char* kRaiseLimit = "raise it (ulimit -l)";

constexpr Cause kCauses[] = {
    {EPERM,
     create_raw_qp | create_send_qp | steer,
     {"CAP_NET_RAW is needed", "run as root, or setcap cap_net_raw+ep"}},
    {EPERM, only(create_queue), {"RLIMIT_MEMLOCK is 0, and its ring must be locked", kRaiseLimit}},
    {EPERM, only(register_memory), {"not permitted for this process"}},
    {ENOMEM, open_device | create_raw_qp, {"RLIMIT_MEMLOCK may be too low", kRaiseLimit}},
    {ENOMEM,
     create_queue | create_send_qp,
     {"fewer descriptors may help, for a Tx queue a smaller txq_inline too, or RLIMIT_MEMLOCK is "
      "too low",
      kRaiseLimit}},
    {ENOMEM,
     only(register_memory),
     {"too little memory, or RLIMIT_MEMLOCK is too low", kRaiseLimit}},
    {ENOMEM,
     only(steer),
     {"the device or the host is out of resources for rules or hash QPs",
      "use fewer rules, queues or RSS types"}},
    {EINVAL, only(create_raw_qp), {kNoSuchQps}},
    {ENOSYS, only(create_raw_qp), {kNoSuchQps}},
    {EOPNOTSUPP, only(create_raw_qp), {kNoSuchQps}},
    {EINVAL, only(create_send_qp), {"fewer descriptors or a smaller txq_inline may help"}},
    {EFAULT, only(register_memory), {"the memory is not mapped, or not readable and writable"}},
    {EEXIST,
     only(steer),
     {"the device has a rule with this match already, maybe of another process"}},
    {EBUSY, only(steer), {"the object is in use, or another process holds the resource"}},
    {ENOSPC, only(steer), {"the device's flow tables are full", "use fewer rules"}},
    {EINVAL, only(steer), {"the device refuses this combination of match, hash and priority"}},
    {EOPNOTSUPP,
     only(steer),
     {"the device or its kernel driver does not offer this match or action"}},
    {ENODEV, only(steer), {"the device is gone or in fatal error"}},
    {EIO, only(steer), {"the device is gone or in fatal error"}},
};

} // namespace

std::string errno_text(int error) { return std::generic_category().message(error); }

Reason reason_of(int error, Attempt attempt) {
    for (const Cause& cause : kCauses)
        if (cause.error == error && (cause.attempts & only(attempt)) != 0) return cause.reason;
    return {};
}

std::string errno_text(int error, Attempt attempt) {
    const auto [cause, remedy] = reason_of(error, attempt);
    std::string text = errno_text(error);
    for (const char* const more : {cause, remedy})
        if (*more != '\0') text += fmt::format(": {}", more);
    return text;
}

} // namespace verbs
