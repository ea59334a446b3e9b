// SPDX-License-Identifier: BSD-3-Clause
// What a kernel permits the calling thread, for programs that run with --enforce. Without it,
// everything is permitted.
#pragma once

#include "app/softhca/uverbs/buffers.hpp"

#include <cstdint>

namespace softhca::uverbs {

/// EPERM unless the thread may create RAW_PACKET QPs and flows: CAP_NET_RAW.
[[nodiscard]] Errno may_use_raw_packets();

/// EPERM unless the thread may steer packets by writing to the device's memory: CAP_NET_RAW and
/// CAP_SYS_RAWIO.
[[nodiscard]] Errno may_steer_by_icm();

/// Pages that are pinned for a device while this lives. They count against RLIMIT_MEMLOCK as many
/// times as they are pinned.
class PinnedPages {
  public:
    PinnedPages() = default;
    PinnedPages(PinnedPages&& other) noexcept;
    PinnedPages& operator=(PinnedPages&& other) noexcept;
    ~PinnedPages();

    /// Pins the pages of a range, as ib_umem_get does: EPERM when the limit is 0, ENOMEM when it is
    /// too low, neither with CAP_IPC_LOCK.
    [[nodiscard]] Errno pin(uint64_t address, uint64_t length);

  private:
    uint64_t count_ = 0;
};

} // namespace softhca::uverbs
