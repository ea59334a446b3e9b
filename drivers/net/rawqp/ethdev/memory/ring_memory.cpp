// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/memory/ring_memory.hpp"

#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp {

RingHeap::~RingHeap() {
    for (void* const memory : pieces_)
        rte_free(memory);
}

void* RingHeap::allocate(size_t bytes, size_t alignment) {
    const auto align = static_cast<unsigned>(alignment);
    void* memory = rte_malloc_socket("rawqp ring", bytes, align, socket_);
    if (memory == nullptr) memory = rte_malloc("rawqp ring", bytes, align);
    if (memory != nullptr) pieces_.insert(memory);
    return memory;
}

void RingHeap::release(void* memory) {
    pieces_.erase(memory);
    rte_free(memory);
}

RingMemory::RingMemory(const verbs::Api& api, ibv_pd* pd, RingHeap& heap)
    : api_(api), pd_(pd), heap_(heap), parent_(make_domain(nullptr)) {}

verbs::Pd RingMemory::make_domain(ibv_td* thread) {
    ibv_parent_domain_init_attr attributes{};
    attributes.pd = pd_;
    attributes.td = thread;
    attributes.comp_mask =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    attributes.alloc = allocate;
    attributes.free = release;
    attributes.pd_context = &heap_;
    return {ibv_alloc_parent_domain(pd_->context, &attributes), {api_.dealloc_pd, "parent domain"}};
}

void RingMemory::set_domain(ibv_cq_init_attr_ex& attributes) const {
    if (!parent_) return;
    attributes.comp_mask |= IBV_CQ_INIT_ATTR_MASK_PD;
    attributes.parent_domain = parent_.get();
}

void* RingMemory::allocate(ibv_pd*, void* heap, size_t bytes, size_t alignment, uint64_t) {
    return static_cast<RingHeap*>(heap)->allocate(bytes, alignment);
}

void RingMemory::release(ibv_pd*, void* heap, void* memory, uint64_t) {
    static_cast<RingHeap*>(heap)->release(memory);
}

} // namespace rawqp
