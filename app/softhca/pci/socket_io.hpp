// SPDX-License-Identifier: BSD-3-Clause
// Reading messages with descriptors from QEMU's sockets.
#pragma once

#include "common/fd.hpp"
#include "common/result.hpp"

#include <cstddef>
#include <vector>

namespace softhca::pci {

/// Maximum number of descriptors in one message; more are closed.
inline constexpr size_t kMaxMessageFds = 64;

/// Reads exactly `bytes` bytes, and appends any descriptors that come with them. False at end of
/// file.
[[nodiscard]] Result<bool> receive_exactly(int socket, void* to, size_t bytes,
                                           std::vector<Fd>& fds);

} // namespace softhca::pci
