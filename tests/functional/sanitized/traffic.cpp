// SPDX-License-Identifier: BSD-3-Clause
// A libibverbs program that test_sanitizers.py builds with a sanitizer: sends 100 frames to itself
// on a port with wire=loop. With an argument, it makes the mistake of that name for the sanitizer
// to find.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <infiniband/verbs.h>
#include <thread>
#include <vector>

namespace {

constexpr uint32_t kFrameBytes = 100, kBufferBytes = 2048;

[[noreturn]] void fail(const char* what) {
    std::perror(what);
    std::exit(1);
}
template <class T> T* need(T* object, const char* what) {
    if (!object) fail(what);
    return object;
}

void to_rts(ibv_qp* qp) {
    ibv_qp_attr attributes{};
    attributes.port_num = 1;
    for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
        attributes.qp_state = state;
        if (ibv_modify_qp(qp, &attributes,
                          IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0)))
            fail("ibv_modify_qp");
    }
}

ibv_flow* steer_all(ibv_qp* qp) {
    struct {
        ibv_flow_attr attributes;
        ibv_flow_spec_eth eth;
    } rule{};
    rule.attributes.size = sizeof rule;
    rule.attributes.num_of_specs = 1;
    rule.attributes.port = 1;
    rule.eth.type = IBV_FLOW_SPEC_ETH;
    rule.eth.size = sizeof rule.eth;
    return need(ibv_create_flow(qp, &rule.attributes), "ibv_create_flow");
}

/// Sends a frame full of `value`; returns whether it came back.
bool echo(ibv_qp* qp, std::vector<uint8_t>& memory, uint32_t lkey, uint8_t value) {
    uint8_t* const out = memory.data();
    uint8_t* const in = out + kBufferBytes;
    ibv_sge in_sge{reinterpret_cast<uint64_t>(in), kBufferBytes, lkey};
    ibv_recv_wr receive{};
    receive.sg_list = &in_sge;
    receive.num_sge = 1;
    ibv_recv_wr* bad_receive = nullptr;
    if (ibv_post_recv(qp, &receive, &bad_receive)) fail("ibv_post_recv");
    std::memset(out, value & ~1, kFrameBytes);
    ibv_sge out_sge{reinterpret_cast<uint64_t>(out), kFrameBytes, lkey};
    ibv_send_wr send{};
    send.sg_list = &out_sge;
    send.num_sge = 1;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad_send = nullptr;
    if (ibv_post_send(qp, &send, &bad_send)) fail("ibv_post_send");
    for (int completions = 0; completions < 2;) {
        ibv_wc wc{};
        completions += ibv_poll_cq(qp->send_cq, 1, &wc);
        if (wc.status != IBV_WC_SUCCESS) fail("completion");
    }
    return std::memcmp(out, in, kFrameBytes) == 0;
}

void make_mistake(const char* name, std::vector<uint8_t>& memory) {
    volatile uint8_t* const bytes = memory.data();
    if (!std::strcmp(name, "overflow")) bytes[memory.size()] = 1;
    if (!std::strcmp(name, "race")) {
        std::thread other([&] { bytes[0] = 1; });
        bytes[0] = 2;
        other.join();
    }
}

} // namespace

int main(int argc, char** argv) {
    ibv_device** const devices = need(ibv_get_device_list(nullptr), "ibv_get_device_list");
    ibv_context* const context = need(ibv_open_device(need(*devices, "device")), "ibv_open_device");
    ibv_free_device_list(devices);
    ibv_pd* const pd = need(ibv_alloc_pd(context), "ibv_alloc_pd");
    ibv_cq* const cq = need(ibv_create_cq(context, 16, nullptr, nullptr, 0), "ibv_create_cq");
    std::vector<uint8_t> memory(2 * kBufferBytes);
    ibv_mr* const mr =
        need(ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = cq;
    attributes.cap = {8, 8, 1, 1, 0};
    attributes.qp_type = IBV_QPT_RAW_PACKET;
    ibv_qp* const qp = need(ibv_create_qp(pd, &attributes), "ibv_create_qp");
    to_rts(qp);
    ibv_flow* const flow = steer_all(qp);
    int received = 0;
    for (int i = 0; i < 100; i++)
        received += echo(qp, memory, mr->lkey, static_cast<uint8_t>(i));
    std::printf("received %d\n", received);
    if (argc > 1) make_mistake(argv[1], memory);
    ibv_destroy_flow(flow);
    ibv_destroy_qp(qp);
    ibv_dereg_mr(mr);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
    return received == 100 ? 0 : 1;
}
