// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/verbs_loop.hpp"

#include <algorithm>
#include <utility>

namespace perf {
namespace {

ibv_cq_ex* extended(ibv_cq* cq) { return reinterpret_cast<ibv_cq_ex*>(cq); }

} // namespace

VerbsLoop::VerbsLoop(const std::string& device, const PortSetup& setup)
    : VerbsEnd(device, setup), rx_(setup.queues), tx_(setup.queues),
      stack_size_(size_t{setup.queues} * descriptors_ + setup.spare_mbufs) {
    for (size_t i = 0; i < verbs_.size(); ++i) {
        rx_[i].cq = extended(verbs_[i].rx_cq.get());
        rx_[i].wq = verbs_[i].wq.get();
        tx_[i].cq = extended(verbs_[i].tx_cq.get());
        tx_[i].qp = ibv_qp_to_qp_ex(verbs_[i].tx_qp.get());
        prepare(rx_[i]);
    }
    sent_.reserve(2 * stack_size_);
    ready();
}

VerbsLoop::~VerbsLoop() {
    close_queues();
    for (const RxQueue& queue : rx_)
        stack_.insert(stack_.end(), queue.mbufs.data(), queue.mbufs.data() + descriptors_);
    stack_.insert(stack_.end(), sent_.begin(), sent_.end());
    level_stack(0);
}

void VerbsLoop::prepare(RxQueue& queue) {
    queue.mbufs = RingArray<rte_mbuf*>(descriptors_, socket_);
    queue.sges = RingArray<ibv_sge>(descriptors_, socket_);
    queue.requests = RingArray<ibv_recv_wr>(descriptors_, socket_);
    check(-rte_pktmbuf_alloc_bulk(pool(), queue.mbufs.data(), descriptors_), "Rx mbufs");
    for (uint32_t i = 0; i < descriptors_; ++i) {
        queue.sges[i] = {fresh_data(queue.mbufs[i]), RTE_MBUF_DEFAULT_DATAROOM, lkey_};
        queue.requests[i] = {.wr_id = i,
                             .next = &queue.requests[(i + 1u) & (descriptors_ - 1u)],
                             .sg_list = &queue.sges[i],
                             .num_sge = 1};
    }
    post(queue, 0, descriptors_);
}

inline void VerbsLoop::post(RxQueue& queue, uint32_t first, uint32_t count) {
    const uint32_t mask = descriptors_ - 1u;
    ibv_recv_wr& last = queue.requests[(first + count - 1) & mask];
    ibv_recv_wr* const next = std::exchange(last.next, nullptr);
    ibv_recv_wr* refused = nullptr;
    const int error = ibv_post_wq_recv(queue.wq, &queue.requests[first & mask], &refused);
    last.next = next;
    check(error, "post receive requests");
}

uint16_t VerbsLoop::rx(uint16_t index, rte_mbuf** mbufs, uint16_t count) {
    RxQueue& queue = rx_[index];
    count = static_cast<uint16_t>(std::min<size_t>(count, stack_.size()));
    ibv_poll_cq_attr attributes{};
    if (count == 0 || ibv_start_poll(queue.cq, &attributes) != 0) return 0;
    const uint32_t first = queue.consumer;
    rte_mbuf* const* fresh_end = stack_.data() + stack_.size();
    uint16_t got = 0;
    do {
        if (queue.cq->status != IBV_WC_SUCCESS) fail("a receive failed: error completion", EIO);
        const uint32_t slot = (first + got) & (descriptors_ - 1u);
        rte_mbuf* const mbuf = queue.mbufs[slot];
        mbuf->data_len = static_cast<uint16_t>(ibv_wc_read_byte_len(queue.cq));
        mbufs[got++] = mbuf;
        rte_mbuf* const fresh = *--fresh_end;
        queue.mbufs[slot] = fresh;
        queue.sges[slot].addr = fresh_data(fresh);
    } while (got < count && ibv_next_poll(queue.cq) == 0);
    ibv_end_poll(queue.cq);
    stack_.resize(stack_.size() - got);
    queue.consumer = first + got;
    post(queue, first, got);
    return got;
}

uint16_t VerbsLoop::tx(uint16_t index, rte_mbuf** mbufs, uint16_t count) {
    const TxQueue& queue = tx_[index];
    ibv_poll_cq_attr attributes{};
    if (ibv_start_poll(queue.cq, &attributes) == 0) {
        do
            if (queue.cq->status != IBV_WC_SUCCESS) fail("a send failed: error completion", EIO);
        while (ibv_next_poll(queue.cq) == 0);
        ibv_end_poll(queue.cq);
    }
    if (count == 0) return 0;
    ibv_wr_start(queue.qp);
    for (uint16_t i = 0; i < count; ++i) {
        const rte_mbuf& mbuf = *mbufs[i];
        queue.qp->wr_id = i;
        queue.qp->wr_flags = i + 1 == count ? IBV_SEND_SIGNALED : 0;
        ibv_wr_send(queue.qp);
        ibv_wr_set_sge(queue.qp, lkey_, reinterpret_cast<uintptr_t>(mbuf.buf_addr) + mbuf.data_off,
                       mbuf.data_len);
    }
    check(ibv_wr_complete(queue.qp), "post a burst (is the ring full?)");
    sent_.insert(sent_.end(), mbufs, mbufs + count);
    return count;
}

void VerbsLoop::ready() {
    rte_pktmbuf_free_bulk(sent_.data(), static_cast<unsigned>(sent_.size()));
    sent_.clear();
    level_stack(stack_size_);
}

} // namespace perf
