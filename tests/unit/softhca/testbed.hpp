// SPDX-License-Identifier: BSD-3-Clause
// A device core driven by hand: rings in plain memory, a wire that records, no threads.
#pragma once

#include "app/softhca/core/device.hpp"
#include "app/softhca/core/rings/mlx5/doorbells.hpp"
#include "tests/unit/net/frames.hpp"

#include <deque>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

namespace testbed {

using frames::Bytes;
using namespace softhca;
using namespace softhca::core;
using mlx5_rings::cq_doorbell;
using mlx5_rings::receive_doorbell;
using mlx5_rings::send_doorbell;

/// A port's wire: takes and supplies its frames.
struct FakeWire final : wire::Wire {
    std::deque<Bytes> incoming;
    std::vector<Bytes> sent;
    Bytes sending;          ///< the last of these
    size_t room = SIZE_MAX; ///< frames until send() returns busy
    bool lossy = false;     ///< send() returns lost
    bool plugged = true;
    bool started = false;
    Bytes first; ///< preview()
    size_t flushes = 0;
    wire::WireReport report; ///< what take_report() returns next
    bool port_up = true;     ///< as reported by the port
    wire::Recipient* recipient = nullptr;
    std::function<void()> on_arrival; ///< the device finds a frame
    std::function<void()> on_send;    ///< the device sends one

    std::span<const std::byte> peek() override;
    void pop() override { incoming.pop_front(); }
    size_t peek_batch(std::span<iovec> frames) override;
    void pop_batch(size_t count) override;
    wire::SendResult send(const wire::OutFrame& frame) override;
    void flush() override { flushes++; }
    wire::WireReport take_report() override { return std::exchange(report, {}); }
    void set_carrier(bool up) override { port_up = up; }
    void start() override { started = true; }
    void set_recipient(wire::Recipient* to) override { recipient = to; }
    [[nodiscard]] std::span<const std::byte> preview() const override {
        return std::as_bytes(std::span(first));
    }
    [[nodiscard]] bool carrier() override { return plugged; }
};

/// Records what the device reports.
struct FakeListener final : Listener {
    std::vector<uint64_t> completions; ///< cookies
    std::vector<std::pair<AsyncEvent, Number>> events;
    void on_completion(Number, uint64_t cookie) override { completions.push_back(cookie); }
    void on_async(AsyncEvent event, Number number, uint64_t) override {
        events.emplace_back(event, number);
    }
    [[nodiscard]] bool saw(AsyncEvent event) const;
};

/// Zeroed, page-aligned memory.
class Pages {
  public:
    explicit Pages(size_t bytes);
    [[nodiscard]] std::byte* data() const { return data_.get(); }
    [[nodiscard]] size_t size() const { return size_; }
    [[nodiscard]] DmaArea area() const { return DmaArea::contiguous(data(), size_); }
    /// The same bytes, as 4 KiB pages.
    [[nodiscard]] DmaArea paged_area() const;

  private:
    struct Free {
        void operator()(std::byte* data) const { ::free(data); }
    };
    std::unique_ptr<std::byte, Free> data_;
    size_t size_;
};

/// A key for all of the memory; WQEs refer to it by its addresses.
[[nodiscard]] uint32_t make_key(Device& device, Number pd, const Pages& memory,
                                bool local_write = false);

class TestCq {
  public:
    TestCq(Device& device, uint8_t log_entries, FakeListener* listener = nullptr,
           bool events = false, uint8_t cqe_size = 64);

    /// The next CQE, or null. The consumer counter moves with release() only.
    [[nodiscard]] const mlx5::Cqe* poll();
    [[nodiscard]] const mlx5::ErrorCqe* poll_error(mlx5::CqeOpcode opcode);
    void release() { doorbell.consumer = consumer & 0xffffff; }
    void arm(bool solicited = false);
    [[nodiscard]] static mlx5::CqeOpcode opcode(const mlx5::Cqe& cqe) {
        return static_cast<mlx5::CqeOpcode>(cqe.op_own >> 4);
    }

    Number number = 0;
    uint32_t consumer = 0;
    uint32_t events = 0; ///< taken by the consumer
    mlx5::CqDoorbell doorbell{};
    Pages ring;

  private:
    uint8_t log_entries_;
    uint8_t cqe_size_;
};

/// Builds a send WQE.
class Wqe {
  public:
    explicit Wqe(mlx5::WqeOpcode opcode, uint8_t ce = mlx5::kCqUpdate);
    Wqe& eth(uint8_t cs_flags = 0, const Bytes& inline_header = {}, uint16_t mss = 0);
    Wqe& eth_vlan(uint16_t tci, bool svlan = false, uint8_t cs_flags = 0);
    Wqe& data(uint32_t lkey, const void* address, uint32_t bytes);
    Wqe& inline_data(const Bytes& data);

    Bytes bytes; ///< a multiple of 16; posting sets the control segment's index and QPN
};

class TestSq {
  public:
    TestSq(Device& device, Number pd, Number cqn, uint8_t log_wqebbs,
           FakeListener* listener = nullptr, bool paged = false, Number domain = kKernelDomain);
    /// As in `attr`, except for ring, doorbell and their size.
    TestSq(Device& device, SqAttr attr, uint8_t log_wqebbs, bool paged = false);

    /// Writes the WQE at the producer position and returns its index.
    uint16_t post(const Wqe& wqe);
    void ring_doorbell() { doorbell.send = producer; }
    [[nodiscard]] Bytes read(uint16_t index, size_t bytes) const;
    void write(uint16_t index, size_t offset, const Bytes& bytes);

    Number number = 0;
    uint16_t producer = 0;
    mlx5::QueueDoorbell doorbell{};
    Pages ring;
};

/// The other attributes of a receive queue.
struct RqOptions {
    uint8_t log_wqes = 6;
    uint8_t log_wqe_bytes = 4;
    bool vlan_strip = false;
    bool scatter_fcs = false;
    bool delay_drop = false;
    std::optional<StridingAttr> striding{};
    FakeListener* listener = nullptr;
};

class TestRq {
  public:
    TestRq(Device& device, Number pd, Number cqn, const RqOptions& options = {});

    struct Segment {
        uint32_t lkey;
        const void* address;
        uint32_t bytes;
    };
    /// Writes one WQE and rings the doorbell.
    void post(const std::vector<Segment>& segments);

    Number number = 0;
    uint16_t producer = 0;
    mlx5::QueueDoorbell doorbell{};
    Pages ring;

  private:
    RqOptions options_;
};

/// A device with one of everything, and memory for packets.
class Testbed : public testing::Test {
  protected:
    static constexpr size_t kMemory = 1 << 20;
    static constexpr uint32_t kRoom = 2048; ///< of one receive buffer

    explicit Testbed(DeviceConfig config = default_config(), bool with_kernel = false);
    [[nodiscard]] static DeviceConfig default_config();

    /// A place for a packet in registered memory, `at` bytes from its start.
    [[nodiscard]] std::byte* memory_at(size_t at) { return memory.data() + at; }
    std::byte* put(size_t at, const Bytes& bytes);
    [[nodiscard]] static Bytes get(const void* address, size_t bytes);

    /// Polls until the device is idle.
    void run();
    /// Posts a packet to `sq`, at the start of registered memory.
    void post_packet(const Bytes& packet);
    /// Adds a receive buffer of kRoom bytes to the RQ.
    void post_buffer(TestRq& rq);
    void post_buffers(TestRq& rq, size_t count) {
        while (count--)
            post_buffer(rq);
    }
    /// The next received packet's CQE; fails the test if there is none.
    const mlx5::Cqe& expect_packet(TestCq& cq);
    /// The CQE's packet, which is in a buffer from post_buffer().
    [[nodiscard]] Bytes packet_of(const mlx5::Cqe& cqe);
    /// Steers all packets of one domain to this RQ.
    Number steer_all(const TestRq& rq, FlowDomain domain = FlowDomain::bypass);
    Number direct_tir(const TestRq& rq);

    FakeListener listener;
    FakeWire* wire = nullptr;   ///< owned by the device
    FakeWire* kernel = nullptr; ///< likewise; may be null
    std::unique_ptr<Device> device;
    Number pd = 0;
    Pages memory{kMemory};
    uint32_t lkey = 0;
    TestCq tx_cq, rx_cq;
    TestSq sq;
    TestRq rq;
    size_t buffers_posted = 0;
};

} // namespace testbed
