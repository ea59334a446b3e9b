// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/verbs_end.hpp"

#include "common/netdev/netdev.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <stdexcept>

namespace perf {
namespace {

uint16_t source_port_of(uint16_t queue) { return static_cast<uint16_t>(1024 + queue); }

} // namespace

void VerbsDelete::operator()(ibv_context* object) const { ibv_close_device(object); }
void VerbsDelete::operator()(ibv_pd* object) const { ibv_dealloc_pd(object); }
void VerbsDelete::operator()(ibv_td* object) const { ibv_dealloc_td(object); }
void VerbsDelete::operator()(ibv_mr* object) const { ibv_dereg_mr(object); }
void VerbsDelete::operator()(ibv_cq* object) const { ibv_destroy_cq(object); }
void VerbsDelete::operator()(ibv_wq* object) const { ibv_destroy_wq(object); }
void VerbsDelete::operator()(ibv_rwq_ind_table* object) const { ibv_destroy_rwq_ind_table(object); }
void VerbsDelete::operator()(ibv_qp* object) const { ibv_destroy_qp(object); }
void VerbsDelete::operator()(ibv_flow* object) const { ibv_destroy_flow(object); }

void VerbsEnd::fail(const std::string& what, int error) const {
    throw std::runtime_error(fmt::format("{}: {}: {}", name_, what, strerror(error)));
}

VerbsEnd::VerbsEnd(const std::string& device, const PortSetup& setup)
    : name_(device), descriptors_(std::bit_ceil(setup.descriptors)),
      socket_(ring_socket(setup.queues, descriptors_, setup.heap)) {
    PortSetup rounded = setup;
    rounded.descriptors = descriptors_;
    const unsigned count = 2 * Port::mbufs(rounded);
    pool_ = make_pool("verbs_" + device, count);
    stack_.reserve(count);
    open();
    register_pool();
    create_domain();
    while (queues() < setup.queues)
        verbs_.push_back(create_queue(source_port_of(queues())));
}

std::vector<uint16_t> VerbsEnd::queue_ports() const {
    std::vector<uint16_t> ports;
    for (uint16_t queue = 0; queue < queues(); ++queue)
        ports.push_back(source_port_of(queue));
    return ports;
}

void VerbsEnd::open() {
    int count = 0;
    ibv_device** const list = check(ibv_get_device_list(&count), "device list");
    for (int i = 0; i < count && !context_; ++i)
        if (name_ == ibv_get_device_name(list[i])) context_.reset(ibv_open_device(list[i]));
    ibv_free_device_list(list);
    check(context_.get(), "open");
    const auto interface = netdev::Sysfs().netdev_of(name_, 1);
    const auto mac =
        interface ? netdev::Netdev(*interface).mac() : tl::unexpected(interface.error());
    if (!mac) throw std::runtime_error(name_ + ": " + mac.error().what);
    std::copy(mac->begin(), mac->end(), mac_.addr_bytes);
    pd_.reset(check(ibv_alloc_pd(context_.get()), "PD"));
}

void VerbsEnd::register_pool() {
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
    lkey_ = mr_->lkey;
}

/// One thread uses all queues, so the provider takes no locks, and we allocate their rings.
void VerbsEnd::create_domain() {
    ibv_td_init_attr thread{};
    thread_.reset(check(ibv_alloc_td(context_.get(), &thread), "thread domain"));
    ibv_parent_domain_init_attr attributes{};
    attributes.pd = pd_.get();
    attributes.td = thread_.get();
    attributes.comp_mask =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    attributes.alloc = allocate;
    attributes.free = release;
    attributes.pd_context = this;
    domain_.reset(check(ibv_alloc_parent_domain(context_.get(), &attributes), "parent domain"));
}

void* VerbsEnd::allocate(ibv_pd*, void* self, size_t bytes, size_t alignment, uint64_t) {
    return rte_malloc_socket("perf ring", bytes, static_cast<unsigned>(alignment),
                             static_cast<const VerbsEnd*>(self)->socket_);
}

void VerbsEnd::release(ibv_pd*, void*, void* memory, uint64_t) { rte_free(memory); }

VerbsQueue VerbsEnd::create_queue(uint16_t source_port) {
    VerbsQueue queue;
    create_rx(queue);
    create_tx(queue);
    steer(queue, source_port);
    return queue;
}

VerbsHandle<ibv_cq> VerbsEnd::create_cq() {
    ibv_cq_init_attr_ex attributes{};
    attributes.cqe = descriptors_ - 1u;
    attributes.wc_flags = IBV_WC_EX_WITH_BYTE_LEN;
    attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    attributes.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    attributes.parent_domain = domain_.get();
    return VerbsHandle<ibv_cq>(
        ibv_cq_ex_to_cq(check(ibv_create_cq_ex(context_.get(), &attributes), "CQ")));
}

void VerbsEnd::create_rx(VerbsQueue& queue) {
    queue.rx_cq = create_cq();
    ibv_wq_init_attr attributes{};
    attributes.wq_type = IBV_WQT_RQ;
    attributes.max_wr = descriptors_;
    attributes.max_sge = 1;
    attributes.pd = domain_.get();
    attributes.cq = queue.rx_cq.get();
    queue.wq.reset(check(ibv_create_wq(context_.get(), &attributes), "WQ"));
    ibv_wq_attr ready{};
    ready.attr_mask = IBV_WQ_ATTR_STATE;
    ready.wq_state = IBV_WQS_RDY;
    check(ibv_modify_wq(queue.wq.get(), &ready), "WQ to ready");
}

void VerbsEnd::create_tx(VerbsQueue& queue) {
    queue.tx_cq = create_cq();
    ibv_qp_init_attr_ex attributes{};
    attributes.send_cq = attributes.recv_cq = queue.tx_cq.get();
    attributes.qp_type = IBV_QPT_RAW_PACKET;
    attributes.cap.max_send_wr = descriptors_;
    attributes.cap.max_send_sge = 1;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attributes.pd = domain_.get();
    attributes.send_ops_flags = IBV_QP_EX_WITH_SEND;
    queue.tx_qp.reset(check(ibv_create_qp_ex(context_.get(), &attributes), "Tx QP (CAP_NET_RAW?)"));
    ibv_qp_attr change{};
    change.port_num = 1;
    change.qp_state = IBV_QPS_INIT;
    check(ibv_modify_qp(queue.tx_qp.get(), &change, IBV_QP_STATE | IBV_QP_PORT), "QP to INIT");
    for (const ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
        change.qp_state = state;
        check(ibv_modify_qp(queue.tx_qp.get(), &change, IBV_QP_STATE), "QP to RTS");
    }
}

void VerbsEnd::steer(VerbsQueue& queue, uint16_t source_port) {
    ibv_wq* wq = queue.wq.get();
    ibv_rwq_ind_table_init_attr table{};
    table.ind_tbl = &wq;
    queue.table.reset(check(ibv_create_rwq_ind_table(context_.get(), &table), "indirection table"));
    std::array<uint8_t, 40> key{};
    ibv_qp_init_attr_ex attributes{};
    attributes.qp_type = IBV_QPT_RAW_PACKET;
    attributes.comp_mask =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    attributes.pd = pd_.get();
    attributes.rwq_ind_tbl = queue.table.get();
    attributes.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, key.size(), key.data(), 0};
    queue.rx_qp.reset(check(ibv_create_qp_ex(context_.get(), &attributes), "Rx QP (CAP_NET_RAW?)"));
    struct {
        ibv_flow_attr attributes;
        ibv_flow_spec_eth ethernet;
        ibv_flow_spec_ipv4 ip;
        ibv_flow_spec_tcp_udp udp;
    } rule{};
    rule.attributes.type = IBV_FLOW_ATTR_NORMAL;
    rule.attributes.size = sizeof rule;
    rule.attributes.num_of_specs = 3;
    rule.attributes.port = 1;
    rule.ethernet.type = IBV_FLOW_SPEC_ETH;
    rule.ethernet.size = sizeof rule.ethernet;
    memcpy(rule.ethernet.val.dst_mac, mac_.addr_bytes, sizeof rule.ethernet.val.dst_mac);
    memset(rule.ethernet.mask.dst_mac, 0xff, sizeof rule.ethernet.mask.dst_mac);
    rule.ip.type = IBV_FLOW_SPEC_IPV4;
    rule.ip.size = sizeof rule.ip;
    rule.udp.type = IBV_FLOW_SPEC_UDP;
    rule.udp.size = sizeof rule.udp;
    rule.udp.val.src_port = rte_cpu_to_be_16(source_port);
    rule.udp.mask.src_port = UINT16_MAX;
    queue.flow.reset(check(ibv_create_flow(queue.rx_qp.get(), &rule.attributes), "flow rule"));
}

void VerbsEnd::level_stack(size_t count) {
    const size_t had = stack_.size();
    if (had > count) {
        rte_pktmbuf_free_bulk(stack_.data() + count, static_cast<unsigned>(had - count));
        stack_.resize(count);
    } else if (had < count) {
        stack_.resize(count);
        const int status = rte_pktmbuf_alloc_bulk(pool_.get(), stack_.data() + had,
                                                  static_cast<unsigned>(count - had));
        if (status != 0) stack_.resize(had);
        check(-status, "mbufs");
    }
}

} // namespace perf
