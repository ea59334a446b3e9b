// SPDX-License-Identifier: BSD-3-Clause
// A socket of the kernel's RDMA netlink family (NETLINK_RDMA).
#pragma once

#include "app/softhca/uverbs/buffers.hpp"
#include "app/softhca/uverbs/fd_table.hpp"
#include "app/softhca/uverbs/nldev.hpp"

#include <deque>
#include <mutex>
#include <string>
#include <sys/socket.h>

namespace softhca::uverbs {

/// Its descriptor is a datagram socket connected to itself: answers are put into its own receive
/// queue, where poll(2) and similar calls find them. They are there when the sending call returns,
/// as from a kernel. Thread-safe.
class NetlinkSocket final : public OpenFile {
  public:
    /// Returns -1 and sets errno as socket(2) does. `type`: SOCK_RAW or SOCK_DGRAM, and flags.
    [[nodiscard]] static int open_descriptor(int type);

    [[nodiscard]] Errno bind(const sockaddr* address, socklen_t length);
    [[nodiscard]] Errno name(sockaddr* out, socklen_t* length);
    [[nodiscard]] Errno set_option(int option, const void* value, socklen_t length);
    /// The program sends a request. `fd` is one of the socket's descriptors.
    [[nodiscard]] Errno ask(int fd, const msghdr& message);
    /// To be called after a read: there may be more answers to deliver.
    void go_on(int fd);
    /// The source address of all messages. `out` may be null.
    [[nodiscard]] static Errno name_kernel(sockaddr* out, socklen_t* length);

  private:
    void bind_automatically();
    void post(int fd);

    std::mutex mutex_;
    NldevClient client_;
    std::deque<std::string> answers_; ///< not delivered yet for want of room in the receive queue
};

} // namespace softhca::uverbs
