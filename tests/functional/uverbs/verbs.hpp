// SPDX-License-Identifier: BSD-3-Clause
// Fixtures for tests of verbs: a device, its objects, and traffic to oneself. Needs one port with
// wire=loop, so that whatever is sent comes back.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <memory>
#include <string>
#include <vector>

namespace test {

template <auto kDestroy> struct Deleter {
    template <class T> void operator()(T* object) const { EXPECT_EQ(kDestroy(object), 0); }
};
template <class T, auto kDestroy> using Handle = std::unique_ptr<T, Deleter<kDestroy>>;

using ContextHandle = Handle<ibv_context, ibv_close_device>;
using PdHandle = Handle<ibv_pd, ibv_dealloc_pd>;
using MrHandle = Handle<ibv_mr, ibv_dereg_mr>;
using CqHandle = Handle<ibv_cq, ibv_destroy_cq>;
using QpHandle = Handle<ibv_qp, ibv_destroy_qp>;
inline int destroy_wq(ibv_wq* wq) { return ibv_destroy_wq(wq); }
using WqHandle = Handle<ibv_wq, destroy_wq>;
inline int destroy_table(ibv_rwq_ind_table* table) { return ibv_destroy_rwq_ind_table(table); }
using TableHandle = Handle<ibv_rwq_ind_table, destroy_table>;
inline int destroy_flow(ibv_flow* flow) { return ibv_destroy_flow(flow); }
using FlowHandle = Handle<ibv_flow, destroy_flow>;

[[nodiscard]] ContextHandle open_device(const char* name = "mlx5_0");

/// The netdev of the device's port.
[[nodiscard]] std::string netdev_name(const char* device = "mlx5_0");

/// The first line of a file, empty if there is none.
[[nodiscard]] std::string first_line(const std::string& path);

/// Waits for something that a program is not notified of.
[[nodiscard]] bool wait_until(const std::function<bool()>& condition,
                              std::chrono::milliseconds patience = std::chrono::seconds(10));

using Frame = std::vector<uint8_t>;

/// A frame of `size` bytes: Ethernet, IPv4, UDP; the payload differs with `seed`.
struct UdpFrame {
    std::array<uint8_t, 6> dst_mac{0x02, 0, 0, 0, 0, 1};
    uint32_t src_ip = 0x0a000001, dst_ip = 0x0a000002;
    uint16_t src_port = 1000, dst_port = 2000;
    uint8_t protocol = 17;
    size_t size = 100;
    uint8_t seed = 0;
    [[nodiscard]] Frame bytes() const;
};

/// A RAW_PACKET QP with its own buffers; sends and receives one frame at a time.
class Endpoint {
  public:
    static constexpr uint32_t kDepth = 64, kBufferBytes = 2048;

    Endpoint(ibv_context* context, ibv_pd* pd);
    /// Brings the QP into RTS and posts all receive buffers.
    void start();
    void post_receive(uint32_t buffer);
    /// Passes a frame to the device and waits for its completion.
    [[nodiscard]] ibv_wc_status send(const Frame& frame);
    /// The next received frame; empty if none arrives in time.
    [[nodiscard]] Frame receive(std::chrono::milliseconds patience = std::chrono::seconds(10));
    /// Whether nothing has been received so far.
    [[nodiscard]] bool is_empty();

    ibv_pd* pd;
    std::vector<uint8_t> memory;
    MrHandle mr;
    CqHandle send_cq, receive_cq;
    QpHandle qp;

  private:
    [[nodiscard]] uint8_t* buffer(uint32_t index) { return memory.data() + index * kBufferBytes; }
};

/// A started endpoint.
[[nodiscard]] std::unique_ptr<Endpoint> make_endpoint(ibv_context* context, ibv_pd* pd);
/// Whatever happened before, a frame that a new endpoint sends to itself arrives.
void expect_working(ibv_context* context, ibv_pd* pd);

/// One request with one segment; sends are signaled.
void post_send(ibv_qp* qp, uint64_t address, uint32_t bytes, uint32_t lkey);
void post_receive(ibv_qp* qp, uint64_t address, uint32_t bytes, uint32_t lkey, uint64_t id);

/// Waits for one completion.
[[nodiscard]] bool wait_completion(ibv_cq* cq, ibv_wc& wc,
                                   std::chrono::milliseconds patience = std::chrono::seconds(10));

[[nodiscard]] QpHandle make_qp(ibv_pd* pd, ibv_cq* send_cq, ibv_cq* receive_cq, uint32_t depth);
/// Its rings and numbers, located through libmlx5.
[[nodiscard]] mlx5dv_qp rings_of(ibv_qp* qp);
void to_state(ibv_qp* qp, ibv_qp_state state);
/// For a receive WQ with one segment.
[[nodiscard]] ibv_wq_init_attr wq_attributes(ibv_pd* pd, ibv_cq* cq, uint32_t depth);

/// An open device with a PD.
class VerbsTest : public testing::Test {
  protected:
    void SetUp() override {
        context = open_device();
        ASSERT_TRUE(context) << std::strerror(errno);
        pd.reset(ibv_alloc_pd(context.get()));
        ASSERT_TRUE(pd) << std::strerror(errno);
    }

    [[nodiscard]] CqHandle make_cq(int entries = 64, ibv_comp_channel* channel = nullptr) {
        return CqHandle(ibv_create_cq(context.get(), entries, nullptr, channel, 0));
    }

    ContextHandle context;
    PdHandle pd;
};

/// Makes requests that no library makes.
class HostileTest : public VerbsTest {
  protected:
    void TearDown() override { // whatever happened, the device must still move packets
        expect_working(context.get(), pd.get());
    }
    [[nodiscard]] int fd() const { return context->cmd_fd; }
};

/// The attributes of a flow followed by its specs, as ibv_create_flow expects them.
class FlowBuilder {
  public:
    explicit FlowBuilder(ibv_flow_attr_type type = IBV_FLOW_ATTR_NORMAL, uint16_t priority = 0);
    template <class Spec> FlowBuilder& add(const Spec& spec) {
        const auto* bytes = reinterpret_cast<const uint8_t*>(&spec);
        bytes_.insert(bytes_.end(), bytes, bytes + sizeof spec);
        attributes().num_of_specs++;
        attributes().size = static_cast<uint16_t>(bytes_.size());
        return *this;
    }
    [[nodiscard]] ibv_flow_attr& attributes() {
        return *reinterpret_cast<ibv_flow_attr*>(bytes_.data());
    }
    [[nodiscard]] FlowHandle create(ibv_qp* qp) {
        errno = 0;
        return FlowHandle(ibv_create_flow(qp, &attributes()));
    }

  private:
    std::vector<uint8_t> bytes_;
};
[[nodiscard]] ibv_flow_spec_eth eth_spec();
[[nodiscard]] ibv_flow_spec_eth dst_mac_spec(const std::array<uint8_t, 6>& mac);
[[nodiscard]] ibv_flow_spec_ipv4 ipv4_spec();
[[nodiscard]] ibv_flow_spec_tcp_udp udp_spec();
[[nodiscard]] ibv_flow_spec_action_tag tag_spec(uint32_t tag);
[[nodiscard]] ibv_flow_spec_action_drop drop_spec();

} // namespace test
