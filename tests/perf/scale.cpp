// SPDX-License-Identifier: BSD-3-Clause
// What a packet costs a verbs program that has many objects which it does not currently use.
// Started by scripts/bench_lib/scale.py; needs one port whose wire loops.
//
//     verbs-scale KIND COUNT…
//         time of a packet to itself and back, next to COUNT objects of that kind
//
//     verbs-scale start
//         opens the first device, if there is one, and exits
#include "common/net/endian.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <infiniband/verbs.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

template <auto kDestroy> struct Deleter {
    template <class T> void operator()(T* object) const { kDestroy(object); }
};
template <class T, auto kDestroy> using Handle = std::unique_ptr<T, Deleter<kDestroy>>;
using Context = Handle<ibv_context, ibv_close_device>;
using Pd = Handle<ibv_pd, ibv_dealloc_pd>;
using Mr = Handle<ibv_mr, ibv_dereg_mr>;
using Channel = Handle<ibv_comp_channel, ibv_destroy_comp_channel>;
using Cq = Handle<ibv_cq, ibv_destroy_cq>;
using Qp = Handle<ibv_qp, ibv_destroy_qp>;
using Flow = Handle<ibv_flow, ibv_destroy_flow>;

/// Returns what verbs returned, unless it is null.
template <class H> H must(H handle, const char* what) {
    if (!handle) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
    return handle;
}
void must_not_fail(int error, const char* what) {
    if (error != 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(error));
}

/// Returns null if there is no device.
Context open_first_device() {
    int count = 0;
    ibv_device** const list = ibv_get_device_list(&count);
    Context context;
    if (count > 0) context = must(Context(ibv_open_device(list[0])), "ibv_open_device");
    if (list) ibv_free_device_list(list);
    return context;
}

constexpr uint32_t kDepth = 4, kFrameBytes = 60;

Cq make_cq(ibv_context& context, ibv_comp_channel* channel = nullptr) {
    return must(Cq(ibv_create_cq(&context, kDepth, nullptr, channel, 0)), "ibv_create_cq");
}

/// A QP that is ready to send and receive.
Qp make_qp(ibv_pd& pd, ibv_cq& cq) {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = &cq;
    attr.cap.max_send_wr = attr.cap.max_recv_wr = 1;
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    attr.qp_type = IBV_QPT_RAW_PACKET;
    Qp qp = must(Qp(ibv_create_qp(&pd, &attr)), "ibv_create_qp");
    for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
        ibv_qp_attr to{};
        to.qp_state = state;
        to.port_num = 1;
        const int mask = state == IBV_QPS_INIT ? IBV_QP_STATE | IBV_QP_PORT : IBV_QP_STATE;
        must_not_fail(ibv_modify_qp(qp.get(), &to, mask), "ibv_modify_qp");
    }
    return qp;
}

/// Memory for one packet, with its own key.
struct Buffer {
    explicit Buffer(ibv_pd& pd)
        : bytes(kSize),
          mr(must(Mr(ibv_reg_mr(&pd, bytes.data(), kSize, IBV_ACCESS_LOCAL_WRITE)), "ibv_reg_mr")) {
        bytes[0] = kMac[0];
        bytes[5] = kMac[5];
        net::store_be<uint16_t>(reinterpret_cast<std::byte*>(&bytes[12]), 0x88b5); // experimental
    }
    [[nodiscard]] ibv_sge sge(uint32_t length) const {
        return {reinterpret_cast<uint64_t>(bytes.data()), length, mr->lkey};
    }

    static constexpr std::array<uint8_t, 6> kMac{0x02, 0, 0, 0, 0, 0x13};
    static constexpr uint32_t kSize = 2048;
    std::vector<uint8_t> bytes;
    Mr mr;
};

/// A QP that sends to itself.
class Pinger {
  public:
    Pinger() : context(must(open_first_device(), "no RDMA device")) {
        struct {
            ibv_flow_attr attr;
            ibv_flow_spec_eth eth;
        } rule{};
        rule.attr.type = IBV_FLOW_ATTR_NORMAL;
        rule.attr.size = sizeof rule;
        rule.attr.num_of_specs = 1;
        rule.attr.port = 1;
        rule.eth.type = IBV_FLOW_SPEC_ETH;
        rule.eth.size = sizeof rule.eth;
        std::ranges::copy(Buffer::kMac, rule.eth.val.dst_mac);
        std::ranges::fill(rule.eth.mask.dst_mac, uint8_t{0xff});
        flow_ = must(Flow(ibv_create_flow(qp_.get(), &rule.attr)), "ibv_create_flow");
    }

    /// Sends a packet and receives it.
    void ping(const Buffer& from, const Buffer& to) {
        ibv_sge into = to.sge(Buffer::kSize), out = from.sge(kFrameBytes);
        ibv_recv_wr receive{};
        receive.sg_list = &into;
        receive.num_sge = 1;
        ibv_recv_wr* bad_receive = nullptr;
        must_not_fail(ibv_post_recv(qp_.get(), &receive, &bad_receive), "ibv_post_recv");
        ibv_send_wr send{};
        send.sg_list = &out;
        send.num_sge = 1;
        send.opcode = IBV_WR_SEND;
        send.send_flags = IBV_SEND_SIGNALED;
        ibv_send_wr* bad_send = nullptr;
        must_not_fail(ibv_post_send(qp_.get(), &send, &bad_send), "ibv_post_send");
        const auto deadline = Clock::now() + std::chrono::seconds(10);
        for (int done = 0; done < 2;) {
            ibv_wc wc{};
            const int polled = ibv_poll_cq(cq_.get(), 1, &wc);
            if (polled == 0 && Clock::now() > deadline)
                throw std::runtime_error("a packet did not come back: does the wire loop?");
            if (polled != 0 && wc.status != IBV_WC_SUCCESS)
                throw std::runtime_error(ibv_wc_status_str(wc.status));
            done += polled;
        }
    }

    Context context;
    Pd pd = must(Pd(ibv_alloc_pd(context.get())), "ibv_alloc_pd");

  private:
    Cq cq_ = make_cq(*context);
    Qp qp_ = make_qp(*pd, *cq_);
    Flow flow_;
};

/// What the pinger has but does not use; memory, however, is used in turn.
class Crowd {
  public:
    Crowd(Pinger& pinger, std::string_view kind) : pinger_(pinger), kind_(kind) {
        if (kind != "qps" && kind != "cqs" && kind != "contexts" && kind != "mrs")
            throw std::runtime_error("objects are qps, cqs, contexts or mrs, not " + kind_);
        for (int i = 0; i < 2; i++)
            buffers.emplace_back(*pinger.pd);
    }
    void grow_to(size_t count) {
        for (; count_ < count; count_++)
            add();
    }
    std::vector<Buffer> buffers;

  private:
    void add() {
        if (kind_ == "mrs") {
            buffers.emplace_back(*pinger_.pd);
        } else if (kind_ == "qps") {
            qps_.push_back(make_qp(*pinger_.pd, *idle_cq_));
        } else if (kind_ == "cqs") { // without an event requested for them
            cqs_.push_back(make_cq(*pinger_.context, channel_.get()));
        } else {
            contexts_.push_back(must(open_first_device(), "no RDMA device"));
            pds_.push_back(must(Pd(ibv_alloc_pd(contexts_.back().get())), "ibv_alloc_pd"));
            cqs_.push_back(make_cq(*contexts_.back()));
            qps_.push_back(make_qp(*pds_.back(), *cqs_.back()));
        }
    }

    Pinger& pinger_;
    const std::string kind_;
    size_t count_ = 0;
    Channel channel_ =
        must(Channel(ibv_create_comp_channel(pinger_.context.get())), "ibv_create_comp_channel");
    Cq idle_cq_ = make_cq(*pinger_.context);
    std::vector<Context> contexts_;
    std::vector<Pd> pds_;
    std::vector<Cq> cqs_;
    std::vector<Qp> qps_;
};

/// In nanoseconds, the median of several batches. Whatever can go idle has done so by then.
double time_of_ping(Pinger& pinger, const std::vector<Buffer>& buffers) {
    constexpr size_t kBatches = 21, kPings = 500, kWarmUp = 5000;
    size_t next = 0;
    const auto ping = [&] {
        const Buffer& from = buffers[next];
        next = next + 1 < buffers.size() ? next + 1 : 0;
        pinger.ping(from, buffers[next]);
    };
    for (size_t i = 0; i < kWarmUp; i++)
        ping();
    std::vector<double> times;
    for (size_t batch = 0; batch < kBatches; batch++) {
        const auto begin = Clock::now();
        for (size_t i = 0; i < kPings; i++)
            ping();
        const std::chrono::duration<double, std::nano> time = Clock::now() - begin;
        times.push_back(time.count() / kPings);
    }
    std::ranges::nth_element(times, times.begin() + kBatches / 2);
    return times[kBatches / 2];
}

/// A context needs several descriptors.
void allow_descriptors() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

} // namespace

int main(int argc, char** argv) {
    try {
        if (argc == 2 && std::string_view(argv[1]) == "start") {
            open_first_device();
            return 0;
        }
        if (argc < 3) throw std::runtime_error("usage: verbs-scale KIND COUNT… | start");
        allow_descriptors();
        Pinger pinger;
        Crowd crowd(pinger, argv[1]);
        for (int i = 2; i < argc; i++) {
            const size_t count = std::stoul(argv[i]);
            crowd.grow_to(count);
            std::printf("%zu %.1f\n", count, time_of_ping(pinger, crowd.buffers));
            std::fflush(stdout);
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "verbs-scale: %s\n", error.what());
        return 1;
    }
}
