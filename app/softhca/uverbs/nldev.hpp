// SPDX-License-Identifier: BSD-3-Clause
// Answers to requests of the kernel's RDMA netlink family: devices, ports, resources, counters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace softhca::uverbs {

class Runtime;

/// The requesting socket.
struct NldevClient {
    uint32_t port = 0;                     ///< its address, nl_pid
    bool cap_ack = false, ext_ack = false; ///< NETLINK_CAP_ACK, NETLINK_EXT_ACK
};

/// The datagrams with which a kernel (drivers/infiniband/core/nldev.c, netlink.c) answers one that
/// holds any number of requests. `requests` may be anything.
[[nodiscard]] std::vector<std::string> answer_nldev(Runtime& runtime, std::string_view requests,
                                                    const NldevClient& client);

} // namespace softhca::uverbs
