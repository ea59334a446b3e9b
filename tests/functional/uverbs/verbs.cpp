// SPDX-License-Identifier: BSD-3-Clause
#include "tests/functional/uverbs/verbs.hpp"

#include "common/net/endian.hpp"

#include <algorithm>
#include <dirent.h>
#include <fstream>
#include <thread>

namespace test {
ContextHandle open_device(const char* name) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ContextHandle context;
    for (int i = 0; list && i < count; i++)
        if (std::strcmp(ibv_get_device_name(list[i]), name) == 0)
            context.reset(ibv_open_device(list[i]));
    ibv_free_device_list(list);
    return context;
}

std::string netdev_name(const char* device) {
    std::string name;
    const std::string folder = std::string("/sys/class/infiniband/") + device + "/device/net";
    if (DIR* const list = opendir(folder.c_str())) {
        while (const dirent* const entry = readdir(list))
            if (entry->d_name[0] != '.') name = entry->d_name;
        closedir(list);
    }
    EXPECT_NE(name, "") << folder;
    return name;
}

std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

bool wait_until(const std::function<bool()>& condition, std::chrono::milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::yield(); // a CQ is memory: there is nothing to sleep on
    }
    return true;
}

Frame UdpFrame::bytes() const {
    Frame frame(size);
    uint8_t* at = frame.data();
    std::copy(dst_mac.begin(), dst_mac.end(), at);
    at[6] = 0x02;
    at[11] = 0x77;
    net::store_be<uint16_t>(at + 12, 0x0800);
    at[14] = 0x45;
    net::store_be<uint16_t>(at + 16, static_cast<uint16_t>(size - 14));
    at[22] = 64;
    at[23] = protocol;
    net::store_be(at + 26, src_ip);
    net::store_be(at + 30, dst_ip);
    net::store_be(at + 34, src_port);
    net::store_be(at + 36, dst_port);
    net::store_be<uint16_t>(at + 38, static_cast<uint16_t>(size - 34));
    for (size_t i = 42; i < size; i++)
        frame[i] = static_cast<uint8_t>(i * 7 + seed);
    return frame;
}

bool wait_completion(ibv_cq* cq, ibv_wc& wc, std::chrono::milliseconds patience) {
    return wait_until([&] { return ibv_poll_cq(cq, 1, &wc) == 1; }, patience);
}

mlx5dv_qp rings_of(ibv_qp* qp) {
    mlx5dv_qp rings{};
    rings.comp_mask = MLX5DV_QP_MASK_RAW_QP_HANDLES;
    mlx5dv_obj object{};
    object.qp = {qp, &rings};
    EXPECT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP), 0);
    return rings;
}

QpHandle make_qp(ibv_pd* pd, ibv_cq* send_cq, ibv_cq* receive_cq, uint32_t depth) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = send_cq;
    attributes.recv_cq = receive_cq;
    attributes.cap = {.max_send_wr = depth,
                      .max_recv_wr = depth,
                      .max_send_sge = 2,
                      .max_recv_sge = 1,
                      .max_inline_data = 0};
    attributes.qp_type = IBV_QPT_RAW_PACKET;
    return QpHandle(ibv_create_qp(pd, &attributes));
}

void to_state(ibv_qp* qp, ibv_qp_state state) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    attributes.port_num = 1;
    const int mask = state == IBV_QPS_INIT ? IBV_QP_STATE | IBV_QP_PORT : IBV_QP_STATE;
    ASSERT_EQ(ibv_modify_qp(qp, &attributes, mask), 0);
}

Endpoint::Endpoint(ibv_context* context, ibv_pd* endpoint_pd)
    : pd(endpoint_pd), memory((kDepth + 1) * kBufferBytes),
      mr(ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE)),
      send_cq(ibv_create_cq(context, kDepth, nullptr, nullptr, 0)),
      receive_cq(ibv_create_cq(context, kDepth, nullptr, nullptr, 0)),
      qp(make_qp(pd, send_cq.get(), receive_cq.get(), kDepth)) {
    EXPECT_TRUE(mr && send_cq && receive_cq && qp);
}

void Endpoint::start() {
    for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
        to_state(qp.get(), state);
    for (uint32_t i = 0; i < kDepth; i++)
        post_receive(i);
}

void Endpoint::post_receive(uint32_t index) {
    test::post_receive(qp.get(), reinterpret_cast<uint64_t>(buffer(index)), kBufferBytes, mr->lkey,
                       index);
}

ibv_wc_status Endpoint::send(const Frame& frame) {
    std::copy(frame.begin(), frame.end(), buffer(kDepth));
    post_send(qp.get(), reinterpret_cast<uint64_t>(buffer(kDepth)),
              static_cast<uint32_t>(frame.size()), mr->lkey);
    ibv_wc wc{};
    EXPECT_TRUE(wait_completion(send_cq.get(), wc)) << "no send completion";
    return wc.status;
}

void post_send(ibv_qp* qp, uint64_t address, uint32_t bytes, uint32_t lkey) {
    ibv_sge sge{address, bytes, lkey};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
}

void post_receive(ibv_qp* qp, uint64_t address, uint32_t bytes, uint32_t lkey, uint64_t id) {
    ibv_sge sge{address, bytes, lkey};
    ibv_recv_wr wr{.wr_id = id, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
}

std::unique_ptr<Endpoint> make_endpoint(ibv_context* context, ibv_pd* pd) {
    auto endpoint = std::make_unique<Endpoint>(context, pd);
    endpoint->start();
    return endpoint;
}

void expect_working(ibv_context* context, ibv_pd* pd) {
    Endpoint endpoint(context, pd);
    endpoint.start();
    const FlowHandle flow = FlowBuilder().add(eth_spec()).create(endpoint.qp.get());
    const Frame frame = UdpFrame{}.bytes();
    ASSERT_EQ(endpoint.send(frame), IBV_WC_SUCCESS);
    Frame received; // an earlier frame may still be under way
    do
        received = endpoint.receive();
    while (!received.empty() && received != frame);
    EXPECT_EQ(received, frame);
}

ibv_wq_init_attr wq_attributes(ibv_pd* pd, ibv_cq* cq, uint32_t depth) {
    ibv_wq_init_attr attributes{};
    attributes.wq_type = IBV_WQT_RQ;
    attributes.max_wr = depth;
    attributes.max_sge = 1;
    attributes.pd = pd;
    attributes.cq = cq;
    return attributes;
}

Frame Endpoint::receive(std::chrono::milliseconds patience) {
    ibv_wc wc{};
    if (!wait_completion(receive_cq.get(), wc, patience)) return {};
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    const uint8_t* from = buffer(static_cast<uint32_t>(wc.wr_id));
    Frame frame(from, from + wc.byte_len);
    post_receive(static_cast<uint32_t>(wc.wr_id));
    return frame;
}

bool Endpoint::is_empty() {
    ibv_wc wc{};
    return ibv_poll_cq(receive_cq.get(), 1, &wc) == 0;
}

FlowBuilder::FlowBuilder(ibv_flow_attr_type type, uint16_t priority)
    : bytes_(sizeof(ibv_flow_attr)) {
    attributes().type = type;
    attributes().priority = priority;
    attributes().size = sizeof(ibv_flow_attr);
    attributes().port = 1;
}

namespace {
template <class Spec> Spec empty_spec(ibv_flow_spec_type type) {
    Spec spec{};
    spec.type = type;
    spec.size = sizeof spec;
    return spec;
}
} // namespace

ibv_flow_spec_eth eth_spec() { return empty_spec<ibv_flow_spec_eth>(IBV_FLOW_SPEC_ETH); }
ibv_flow_spec_ipv4 ipv4_spec() { return empty_spec<ibv_flow_spec_ipv4>(IBV_FLOW_SPEC_IPV4); }
ibv_flow_spec_tcp_udp udp_spec() { return empty_spec<ibv_flow_spec_tcp_udp>(IBV_FLOW_SPEC_UDP); }

ibv_flow_spec_eth dst_mac_spec(const std::array<uint8_t, 6>& mac) {
    ibv_flow_spec_eth spec = eth_spec();
    std::copy(mac.begin(), mac.end(), spec.val.dst_mac);
    std::fill(std::begin(spec.mask.dst_mac), std::end(spec.mask.dst_mac), 0xff);
    return spec;
}

ibv_flow_spec_action_tag tag_spec(uint32_t tag) {
    return {IBV_FLOW_SPEC_ACTION_TAG, sizeof(ibv_flow_spec_action_tag), tag};
}

ibv_flow_spec_action_drop drop_spec() {
    return {IBV_FLOW_SPEC_ACTION_DROP, sizeof(ibv_flow_spec_action_drop)};
}

} // namespace test
