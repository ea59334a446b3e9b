// SPDX-License-Identifier: BSD-3-Clause
// Memory of the rings that libmlx5 creates (CQs, WQs, SQs, doorbell records): from DPDK's heap.
#pragma once

#include "common/verbs/api.hpp"

namespace rawqp {

/// libmlx5's own allocations are on pages of 4 KiB, a TLB entry per ring and more, on any NUMA
/// node; and each costs libibverbs a walk through /proc/self/smaps when the process was made ready
/// for fork() (net_mlx5 does so when its library is loaded). DPDK's heap is on hugepages.
///
/// One control thread at a time, as a port has. Must outlive the context that it serves.
class RingMemory {
  public:
    /// From now on the context's rings are allocated here. Nothing happens where the provider is
    /// not libmlx5: others have no such interface.
    void serve(const verbs::Api& api, ibv_context* context);

    /// NUMA node of what is allocated next.
    void use_socket(int socket) { socket_ = socket; }

  private:
    static void* allocate(size_t bytes, void* self);
    static void release(void* memory, void* self);

    int socket_ = -1; ///< SOCKET_ID_ANY
};

} // namespace rawqp
