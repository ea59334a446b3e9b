// SPDX-License-Identifier: BSD-3-Clause
// What a device's refusals mean, for whoever made the request: the doctor in a trial, the driver
// when a port is probed.
#pragma once

#include "common/diagnosis/finding.hpp"
#include "common/diagnosis/host.hpp"
#include "common/verbs/errno_text.hpp"

namespace diagnosis {

/// A verbs call failed with `error`. `cause`: what that means for the driver.
[[nodiscard]] Verdict refused(const std::string& call, int error, verbs::Attempt attempt,
                              const std::string& cause);

[[nodiscard]] Verdict no_such_port(const std::string& device, unsigned port, unsigned ports);
[[nodiscard]] Verdict not_ethernet(const std::string& device, unsigned port);
[[nodiscard]] Verdict no_work_queues(const std::string& device);
[[nodiscard]] Verdict no_raw_packets(const std::string& device, int error);

/// ibv_reg_mr of `bytes` failed with `error`: says whether this process's limit is the reason.
[[nodiscard]] Verdict not_registered(const Host& host, uint64_t bytes, int error,
                                     const std::string& cause);

/// How to get the right to raw packets; `program` may be empty.
[[nodiscard]] std::string net_raw_remedy(const std::string& program = "");
/// How to get the right to lock memory.
[[nodiscard]] std::string memlock_remedy();

} // namespace diagnosis
