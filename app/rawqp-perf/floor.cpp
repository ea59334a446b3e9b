// SPDX-License-Identifier: BSD-3-Clause
// The floor's set-up: plain verbs calls.
#include "app/rawqp-perf/floor.hpp"

#include "common/netdev/netdev.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <stdexcept>

namespace perf {
namespace {

template <class T> T* check(T* object, const char* what) {
    if (object == nullptr)
        throw std::runtime_error(fmt::format("floor: {}: {}", what, strerror(errno)));
    return object;
}
void check(int status, const char* what) {
    if (status != 0) throw std::runtime_error(fmt::format("floor: {}: {}", what, strerror(status)));
}

} // namespace

void VerbsDelete::operator()(ibv_context* object) const { ibv_close_device(object); }
void VerbsDelete::operator()(ibv_pd* object) const { ibv_dealloc_pd(object); }
void VerbsDelete::operator()(ibv_mr* object) const { ibv_dereg_mr(object); }
void VerbsDelete::operator()(ibv_cq* object) const { ibv_destroy_cq(object); }
void VerbsDelete::operator()(ibv_wq* object) const { ibv_destroy_wq(object); }
void VerbsDelete::operator()(ibv_rwq_ind_table* object) const { ibv_destroy_rwq_ind_table(object); }
void VerbsDelete::operator()(ibv_qp* object) const { ibv_destroy_qp(object); }
void VerbsDelete::operator()(ibv_flow* object) const { ibv_destroy_flow(object); }

Floor::Floor(const std::string& device, uint16_t descriptors, unsigned spare_mbufs)
    : name_(device), descriptors_(std::bit_ceil(descriptors)) {
    const unsigned count = 4u * descriptors_ + spare_mbufs;
    pool_ = make_pool("floor_" + device, count);
    open(device);
    register_pool();
    create_rx();
    create_tx();
    steer();
    stack_.reserve(count);
    sent_.reserve(count);
    ready();
}

Floor::~Floor() {
    flow_.reset();
    rx_qp_.reset();
    tx_qp_.reset();
    table_.reset();
    wq_.reset(); // the device touches no mbuf from here on
    for (auto* list : {&elements_, &stack_, &sent_})
        rte_pktmbuf_free_bulk(list->data(), static_cast<unsigned>(list->size()));
}

void Floor::open(const std::string& device) {
    int count = 0;
    ibv_device** const list = check(ibv_get_device_list(&count), "device list");
    for (int i = 0; i < count && !context_; ++i)
        if (device == ibv_get_device_name(list[i])) context_.reset(ibv_open_device(list[i]));
    ibv_free_device_list(list);
    check(context_.get(), ("open " + device).c_str());
    mlx5dv_context features{};
    check(mlx5dv_query_device(context_.get(), &features), "mlx5 device");
    if ((features.flags & MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW) == 0)
        throw std::runtime_error("floor: " + device + " has no eMPW");
    const auto interface = netdev::Sysfs().netdev_of(device, 1);
    const auto mac =
        interface ? netdev::Netdev(*interface).mac() : tl::unexpected(interface.error());
    if (!mac) throw std::runtime_error("floor: " + mac.error().what);
    std::copy(mac->begin(), mac->end(), mac_.addr_bytes);
    pd_.reset(check(ibv_alloc_pd(context_.get()), "PD"));
}

void Floor::register_pool() {
    uintptr_t range[2] = {UINTPTR_MAX, 0};
    rte_mempool_mem_iter(
        pool_.get(),
        [](rte_mempool*, void* out, rte_mempool_memhdr* chunk, unsigned) {
            auto* const span = static_cast<uintptr_t*>(out);
            const auto start = reinterpret_cast<uintptr_t>(chunk->addr);
            span[0] = std::min(span[0], start);
            span[1] = std::max(span[1], start + chunk->len);
        },
        range);
    mr_.reset(check(ibv_reg_mr(pd_.get(), reinterpret_cast<void*>(range[0]), range[1] - range[0],
                               int{IBV_ACCESS_LOCAL_WRITE}),
                    "memory region of the pool (RLIMIT_MEMLOCK?)"));
    lkey_be_ = __builtin_bswap32(mr_->lkey);
}

void Floor::Ring::map_cq(const mlx5dv_cq& cq) {
    cqes = static_cast<mlx5::Cqe*>(cq.buf);
    cq_mask = cq.cqe_cnt - 1;
    log_cqes = static_cast<uint32_t>(std::countr_zero(cq.cqe_cnt));
    cq_doorbell = reinterpret_cast<mlx5::CqDoorbell*>(cq.dbrec);
}

void Floor::create_rx() {
    rx_cq_.reset(
        check(ibv_create_cq(context_.get(), descriptors_ - 1, nullptr, nullptr, 0), "Rx CQ"));
    ibv_wq_init_attr attributes{};
    attributes.wq_type = IBV_WQT_RQ;
    attributes.max_wr = descriptors_;
    attributes.max_sge = 1;
    attributes.pd = pd_.get();
    attributes.cq = rx_cq_.get();
    wq_.reset(check(ibv_create_wq(context_.get(), &attributes), "WQ"));
    ibv_wq_attr ready{};
    ready.attr_mask = IBV_WQ_ATTR_STATE;
    ready.wq_state = IBV_WQS_RDY;
    check(ibv_modify_wq(wq_.get(), &ready), "WQ to ready");
    mlx5dv_cq cq{};
    mlx5dv_rwq rwq{};
    mlx5dv_obj object{};
    object.cq = {rx_cq_.get(), &cq};
    object.rwq = {wq_.get(), &rwq};
    check(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ | MLX5DV_OBJ_RWQ), "map Rx rings");
    rx_.map_cq(cq);
    rx_.mask = rwq.wqe_cnt - 1;
    rx_.doorbell = reinterpret_cast<mlx5::QueueDoorbell*>(rwq.dbrec);
    rx_wqes_ = static_cast<mlx5::WqeDataSeg*>(rwq.buf);
    elements_.resize(rwq.wqe_cnt);
    check(-rte_pktmbuf_alloc_bulk(pool_.get(), elements_.data(), rwq.wqe_cnt), "Rx mbufs");
    for (uint32_t i = 0; i < rwq.wqe_cnt; ++i)
        rx_wqes_[i] = {.byte_count = uint32_t{RTE_MBUF_DEFAULT_DATAROOM},
                       .lkey = mr_->lkey,
                       .addr = reinterpret_cast<uint64_t>(elements_[i]->buf_addr) +
                               RTE_PKTMBUF_HEADROOM};
    rx_.producer = static_cast<uint16_t>(rwq.wqe_cnt);
    __atomic_store_n(&rx_.doorbell->receive.raw, __builtin_bswap32(rx_.producer), __ATOMIC_RELEASE);
}

void Floor::create_tx() {
    tx_cq_.reset(
        check(ibv_create_cq(context_.get(), descriptors_ - 1, nullptr, nullptr, 0), "Tx CQ"));
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = tx_cq_.get();
    attributes.qp_type = IBV_QPT_RAW_PACKET;
    attributes.cap.max_send_wr = descriptors_;
    attributes.cap.max_send_sge = 1;
    tx_qp_.reset(check(ibv_create_qp(pd_.get(), &attributes), "Tx QP (CAP_NET_RAW?)"));
    ibv_qp_attr change{};
    change.port_num = 1;
    change.qp_state = IBV_QPS_INIT;
    check(ibv_modify_qp(tx_qp_.get(), &change, IBV_QP_STATE | IBV_QP_PORT), "QP to INIT");
    for (const ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
        change.qp_state = state;
        check(ibv_modify_qp(tx_qp_.get(), &change, IBV_QP_STATE), "QP to RTS");
    }
    mlx5dv_cq cq{};
    mlx5dv_qp qp{};
    mlx5dv_obj object{};
    object.cq = {tx_cq_.get(), &cq};
    object.qp = {tx_qp_.get(), &qp};
    check(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ | MLX5DV_OBJ_QP), "map Tx rings");
    tx_.map_cq(cq);
    tx_.mask = qp.sq.wqe_cnt - 1;
    tx_.doorbell = reinterpret_cast<mlx5::QueueDoorbell*>(qp.dbrec);
    tx_wqes_ = static_cast<uint8_t*>(qp.sq.buf);
    uar_ = static_cast<volatile uint64_t*>(qp.bf.reg);
}

void Floor::steer() {
    ibv_wq* const queue = wq_.get();
    ibv_rwq_ind_table_init_attr table{};
    table.ind_tbl = const_cast<ibv_wq**>(&queue);
    table_.reset(check(ibv_create_rwq_ind_table(context_.get(), &table), "indirection table"));
    std::array<uint8_t, 40> key{};
    ibv_qp_init_attr_ex attributes{};
    attributes.qp_type = IBV_QPT_RAW_PACKET;
    attributes.comp_mask =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    attributes.pd = pd_.get();
    attributes.rwq_ind_tbl = table_.get();
    attributes.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, key.size(), key.data(), 0};
    rx_qp_.reset(check(ibv_create_qp_ex(context_.get(), &attributes), "Rx QP (CAP_NET_RAW?)"));
    struct {
        ibv_flow_attr attributes;
        ibv_flow_spec_eth ethernet;
    } rule{};
    rule.attributes.type = IBV_FLOW_ATTR_NORMAL;
    rule.attributes.size = sizeof rule;
    rule.attributes.num_of_specs = 1;
    rule.attributes.port = 1;
    rule.ethernet.type = IBV_FLOW_SPEC_ETH;
    rule.ethernet.size = sizeof rule.ethernet;
    memcpy(rule.ethernet.val.dst_mac, mac_.addr_bytes, sizeof rule.ethernet.val.dst_mac);
    memset(rule.ethernet.mask.dst_mac, 0xff, sizeof rule.ethernet.mask.dst_mac);
    flow_.reset(check(ibv_create_flow(rx_qp_.get(), &rule.attributes), "flow rule"));
}

void Floor::ready() {
    rte_pktmbuf_free_bulk(sent_.data(), static_cast<unsigned>(sent_.size()));
    sent_.clear();
    for (;; ++tx_.consumer) {
        const uint8_t owner =
            __atomic_load_n(&tx_.cqes[tx_.consumer & tx_.cq_mask].op_own, __ATOMIC_ACQUIRE);
        if (((owner ^ tx_.consumer >> tx_.log_cqes) & mlx5::kOwnerMask) != 0 || owner >> 4 == 0xf)
            break;
        if (owner >> 4 != 0) throw std::runtime_error("floor: send failed: error completion");
    }
    tx_.cq_doorbell->consumer = tx_.consumer & 0xffffff;
    const size_t missing = 2u * descriptors_ - stack_.size();
    const size_t had = stack_.size();
    stack_.resize(had + missing);
    check(-rte_pktmbuf_alloc_bulk(pool_.get(), stack_.data() + had, static_cast<unsigned>(missing)),
          "mbufs");
}

} // namespace perf
