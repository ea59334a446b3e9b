// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/floor.hpp"

#include <stdexcept>

namespace perf {

Floor::Floor(const std::string& device, const PortSetup& setup, const FloorAhead& ahead)
    : VerbsEnd(device, setup), rx_(setup.queues), tx_(setup.queues),
      stack_size_(size_t{setup.queues} * descriptors_ + setup.spare_mbufs), ahead_(ahead) {
    mlx5dv_context features{};
    check(mlx5dv_query_device(verbs_.front().wq->context, &features), "mlx5 device");
    if ((features.flags & MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW) == 0)
        throw std::runtime_error(device + ": no eMPW, which the floor sends by");
    for (size_t i = 0; i < verbs_.size(); ++i) {
        map_rx(verbs_[i], rx_[i]);
        map_tx(verbs_[i], tx_[i]);
    }
    ready();
}

Floor::~Floor() {
    close_queues();
    for (const FloorRx& queue : rx_)
        stack_.insert(stack_.end(), queue.mbufs.data(), queue.mbufs.data() + queue.mask + 1);
    for (FloorTx& queue : tx_)
        while (queue.freed != queue.sent)
            stack_.push_back(queue.mbufs[queue.freed++ & queue.mbuf_mask]);
    level_stack(0);
}

void Floor::map_rx(const VerbsQueue& verbs, FloorRx& queue) {
    mlx5dv_cq cq{};
    mlx5dv_rwq rwq{};
    mlx5dv_obj object{};
    object.cq = {verbs.rx_cq.get(), &cq};
    object.rwq = {verbs.wq.get(), &rwq};
    check(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ | MLX5DV_OBJ_RWQ), "map Rx rings");
    queue.cq.map(cq);
    queue.mask = rwq.wqe_cnt - 1;
    queue.doorbell = reinterpret_cast<mlx5::QueueDoorbell*>(rwq.dbrec);
    queue.wqes = static_cast<mlx5::WqeDataSeg*>(rwq.buf);
    queue.mbufs = RingArray<rte_mbuf*>(rwq.wqe_cnt, socket_);
    check(-rte_pktmbuf_alloc_bulk(pool(), queue.mbufs.data(), rwq.wqe_cnt), "Rx mbufs");
    queue.post_all(lkey_);
}

void Floor::map_tx(const VerbsQueue& verbs, FloorTx& queue) {
    mlx5dv_cq cq{};
    mlx5dv_qp qp{};
    mlx5dv_obj object{};
    object.cq = {verbs.tx_cq.get(), &cq};
    object.qp = {verbs.tx_qp.get(), &qp};
    check(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ | MLX5DV_OBJ_QP), "map Tx rings");
    queue.cq.map(cq);
    queue.mask = qp.sq.wqe_cnt - 1;
    queue.doorbell = reinterpret_cast<mlx5::QueueDoorbell*>(qp.dbrec);
    queue.wqes = static_cast<uint8_t*>(qp.sq.buf);
    queue.uar = static_cast<volatile uint64_t*>(qp.bf.reg);
    queue.qp_number = verbs.tx_qp->qp_num;
    queue.lkey = lkey_;
    queue.mbuf_mask = descriptors_ - 1u;
    queue.mbufs = RingArray<rte_mbuf*>(descriptors_, socket_);
    queue.ends = RingArray<uint16_t>(qp.sq.wqe_cnt, socket_);
}

} // namespace perf
