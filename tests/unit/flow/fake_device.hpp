// SPDX-License-Identifier: BSD-3-Clause
// What steering needs: an open RDMA device with a protection domain and receive queues.
#pragma once

#include "drivers/net/rawqp/ethdev/steering/rss.hpp"
#include "drivers/net/rawqp/ethdev/steering/rx_queue_set.hpp"
#include "drivers/net/rawqp/ethdev/steering/steering.hpp"
#include "tests/unit/verbs/fake_rdma.hpp"

#include <cerrno>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace rawqp::test {

using Bytes = std::vector<uint8_t>;

/// "20 00 0a": bytes from hex digits, ignoring blanks.
inline Bytes hex(const std::string& text) {
    Bytes bytes;
    std::string digits;
    for (const char c : text)
        if (c != ' ' && c != '\n') digits += c;
    for (size_t i = 0; i + 1 < digits.size(); i += 2)
        bytes.push_back(static_cast<uint8_t>(std::stoul(digits.substr(i, 2), nullptr, 16)));
    return bytes;
}

/// The receive queues of a port; the test decides how many are set up.
class FakeRxQueues final : public RxQueueSet {
  public:
    [[nodiscard]] uint16_t count() const override { return configured; }
    [[nodiscard]] ibv_wq* wq(uint16_t queue) const override {
        return queue < wqs_.size() ? &wqs_[queue] : nullptr;
    }
    [[nodiscard]] size_t table_entries() const override { return kRetaMax; }
    void name_tunnels(uint16_t queue, uint32_t type) override { tunnels[queue] = type; }
    std::map<uint16_t, uint32_t> tunnels;
    void use_metadata() override { metadata = true; }
    bool metadata = false;
    void use_marks() override { marks = true; }

    /// Nothing may steer to the previous ones any more.
    void set_up(ibv_context* context, uint16_t count) {
        wqs_.assign(count, {});
        for (uint16_t i = 0; i < count; ++i) {
            wqs_[i].context = context;
            wqs_[i].wq_num = i;
        }
    }

    uint16_t configured = 0;
    bool marks = false;

  private:
    mutable std::vector<ibv_wq> wqs_;
};

class FakeDevice : public verbs_test::FakeRdma {
  public:
    explicit FakeDevice(uint16_t queues) {
        rx_queues.configured = queues;
        set_up_rx_queues(queues);
    }
    ~FakeDevice() {
        api().dealloc_pd(pd_);
        api().close_device(context_);
    }
    FakeDevice(const FakeDevice&) = delete;
    FakeDevice& operator=(const FakeDevice&) = delete;

    [[nodiscard]] ibv_context* context() const { return context_; }
    [[nodiscard]] ibv_pd* pd() const { return pd_; }
    void set_up_rx_queues(uint16_t count) { rx_queues.set_up(context_, count); }

    FakeRxQueues rx_queues;

  private:
    ibv_context* context_ = api().open_device(nullptr);
    ibv_pd* pd_ = api().alloc_pd(context_);
};

inline std::unique_ptr<Steering> make_steering(const FakeDevice& device, RssQps& qps,
                                               FlowEngine engine = FlowEngine::automatic) {
    return std::move(*Steering::make(device.api(), qps, 1, engine));
}

/// Installs a request while each of the device's calls fails in turn, until none does; after each
/// failure `check` examines what is left. Returns how many calls failed.
template <class Check>
int install_through_failures(FakeDevice& device, Steering& steering, const SteeringRequest& request,
                             Check check) {
    for (int nth = 1;; ++nth) {
        device.fail_call(nth, ENOMEM);
        const auto rule = steering.install(request);
        if (rule) return nth - 1;
        EXPECT_EQ(rule.error().code, ENOMEM);
        check();
    }
}

} // namespace rawqp::test
