// SPDX-License-Identifier: BSD-3-Clause
// An RDMA device in memory, with its provider: it answers every verbs call of the control path,
// records the requests, checks that objects are released in order, and fails the n-th call on
// request. Its queues record what is posted; no packets move.
#pragma once

#include "common/verbs/api.hpp"
#include "tests/unit/verbs/steering.hpp"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace verbs_test {

/// The last one created answers: some verbs functions have no argument that identifies the device.
class FakeRdma {
  public:
    FakeRdma();
    ~FakeRdma();
    FakeRdma(const FakeRdma&) = delete;
    FakeRdma& operator=(const FakeRdma&) = delete;

    [[nodiscard]] const verbs::Api& api() const { return api_; }
    /// From now on, it acts as a libmlx5 device with regard to flows.
    void offer_mlx5_flows();
    /// For tests that offer more.
    [[nodiscard]] verbs::Api& api_to_fill() { return api_; }

    /// Call number `nth` from now on (1: the next one) fails with `error`, once.
    void fail_call(int nth, int error);
    /// Calls with this name fail with `error` until it is 0.
    void fail_always(const std::string& name, int error) { failing_[name] = error; }
    /// The next call with this name fails with `error`.
    void fail_next(const std::string& name, int error) { failing_once_[name] = error; }
    /// The name of the call that fail_call made fail; empty: none was reached.
    [[nodiscard]] const std::string& failed() const { return failed_; }
    [[nodiscard]] unsigned calls(const std::string& name) const;
    [[nodiscard]] unsigned calls() const; ///< all but those that release an object

    /// Existing objects of all kinds: their names and counts; "" if there are none.
    [[nodiscard]] std::string alive() const;
    [[nodiscard]] int alive(const std::string& kind) const;

    /// Sets what the driver reads next from the async fd.
    void raise(const ibv_async_event& event);
    [[nodiscard]] unsigned acknowledged() const { return acknowledged_; }

    // The existing objects of these kinds, in order of creation.
    std::vector<std::unique_ptr<Table>> tables;
    std::vector<std::unique_ptr<Qp>> qps;
    std::vector<std::unique_ptr<Flow>> flows;
    std::vector<std::unique_ptr<Counters>> counters;
    std::vector<std::unique_ptr<Matcher>> matchers;
    std::vector<std::unique_ptr<FlowAction>> flow_actions;
    std::vector<std::unique_ptr<DevxObject>> devx_objects;
    [[nodiscard]] std::vector<const Flow*> rules() const;

    // Answers, to be changed before attaching.
    std::vector<std::string> names{"fake_0"};
    ibv_device_attr_ex attributes{};
    ibv_port_attr port{};
    uint16_t priorities = 16; ///< of flows
    bool offers_counters = false;
    bool offers_devx = false;
    unsigned mr_access = 0; ///< ibv_access_flags of the last MR
    /// WQ numbers, and the firmware commands that changed the WQs.
    std::vector<std::pair<uint32_t, std::vector<uint8_t>>> wq_changes;
    /// The answer to commands that query an object, after the status; empty: zeros.
    std::vector<uint8_t> devx_answer;
    /// Refuses a flow with the errno returned; 0 accepts.
    std::function<int(const Flow&)> refuse_flow;

    /// Called after each change of flows (to look at intermediate states).
    std::function<void()> on_change;
    /// Objects released while in use, WQs posted to while not in RDY: must remain empty.
    std::vector<std::string> violations;
    std::vector<const void*> ring_memory; ///< of every CQ ever created from a parent domain
    std::map<uint32_t, uint32_t> rates;   ///< kbit/s by QP number, as set since the QP's reset

  private:
    friend struct FakeVerbs;
    int enter(const std::string& name); ///< 0, or the errno to fail with
    void check(bool right, const char* violation);

    FakeRdma* const outer_; ///< the one that answered before
    verbs::Api api_;
    std::map<std::string, int> alive_;
    std::map<std::string, unsigned> calls_;
    std::map<std::string, int> failing_;
    std::map<std::string, int> failing_once_;
    int countdown_ = 0;
    int countdown_error_ = 0;
    std::string failed_;
    std::vector<std::unique_ptr<ibv_device>> devices_;
    int event_pipe_[2] = {-1, -1};
    std::atomic<unsigned> acknowledged_ = 0;
    uint32_t next_number_ = 1;
};

} // namespace verbs_test
