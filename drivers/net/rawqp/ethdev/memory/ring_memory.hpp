// SPDX-License-Identifier: BSD-3-Clause
// Memory of the rings that the provider creates (CQs, WQs, SQs, doorbell records): DPDK's heap.
#pragma once

#include "common/verbs/handles.hpp"

#include <unordered_set>

namespace rawqp {

/// The pieces of DPDK's heap that hold a context's rings. It outlives the context, whose closing
/// destroys objects that could not be destroyed before. What has not been given back by then
/// belongs to those that the kernel still refuses to destroy: the device may write to it until the
/// context is closed.
class RingHeap {
  public:
    RingHeap() = default;
    RingHeap(const RingHeap&) = delete; // the provider keeps a pointer to it
    RingHeap& operator=(const RingHeap&) = delete;
    ~RingHeap();

    /// Allocates on the NUMA node in use, or else on any; null when there is no room.
    [[nodiscard]] void* allocate(size_t bytes, size_t alignment);
    void release(void* memory);
    void use_socket(int socket) { socket_ = socket; }

  private:
    std::unordered_set<void*> pieces_;
    int socket_ = -1; ///< SOCKET_ID_ANY
};

/// A provider's own allocations are on 4 KiB pages, each ring with its own TLB entries, on any NUMA
/// node; and each makes libibverbs read /proc/self/smaps once something in the process has called
/// ibv_fork_init (net_mlx5 does when its library is loaded). DPDK's heap is on hugepages, which are
/// shared mappings that fork() leaves alone.
///
/// One control thread at a time, as a port has.
class RingMemory {
  public:
    /// Makes a parent domain of `pd`, which outlives this object, as `heap` does. If the provider
    /// has none or accepts no allocators in it, its rings are in its own memory.
    RingMemory(const verbs::Api& api, ibv_pd* pd, RingHeap& heap);

    /// What to create WQs and QPs with instead of the PD.
    [[nodiscard]] ibv_pd* domain() const { return parent_ ? parent_.get() : pd_; }
    /// Rings are in DPDK's heap, where other processes find them, too.
    [[nodiscard]] bool in_dpdk_memory() const { return bool(parent_); }
    /// The same for the QP of one thread; null where the provider has no such domain. This object,
    /// PD and thread domain outlive it.
    [[nodiscard]] verbs::Pd make_domain(ibv_td* thread);
    /// Makes the CQ take its memory from here.
    void set_domain(ibv_cq_init_attr_ex& attributes) const;
    /// NUMA node of what is created next.
    void use_socket(int socket) { heap_.use_socket(socket); }

  private:
    static void* allocate(ibv_pd*, void* heap, size_t bytes, size_t alignment, uint64_t type);
    static void release(ibv_pd*, void* heap, void* memory, uint64_t type);

    const verbs::Api& api_;
    ibv_pd* pd_;
    RingHeap& heap_;
    verbs::Pd parent_;
};

} // namespace rawqp
