// SPDX-License-Identifier: BSD-3-Clause
// Action age: finds, by their counters, rules that no packet has hit for some time.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/ethdev/ref.hpp"
#include "drivers/net/rawqp/ethdev/steering/flow_counter.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <span>
#include <vector>

namespace rawqp {

class FlowAges;

/// The age of one rule, or of several that share it, some of which may have their own counters.
/// Once aged it stays so until it is touched. Control threads only.
class FlowAge {
  public:
    using Clock = std::chrono::steady_clock;
    using Time = Clock::time_point;

    FlowAge(CounterRef counter, const rte_flow_action_age& conf, Time now);
    FlowAge(const FlowAge&) = delete;
    FlowAge& operator=(const FlowAge&) = delete;
    ~FlowAge();

    /// Starts it for another rule that counts there: tables make ages in advance.
    void begin(const rte_flow_action_age& conf, Time now);
    /// The counter of those of its rules that have no other one.
    [[nodiscard]] const CounterRef& counter() const { return counter_; }
    [[nodiscard]] bool shared() const { return counter_->shared(); }
    /// Also watches the counter of a rule, until told to forget it.
    void watch(FlowCounter& counter);
    /// A rule with this counter has left it.
    void forget(FlowCounter& counter);
    [[nodiscard]] bool aged() const { return aged_; }
    /// The context by which the application knows it.
    [[nodiscard]] void* context() const { return context_; }
    void set_context(void* context) { context_ = context; }

    /// Reads the counter if it is due; true if the age has just expired.
    [[nodiscard]] bool look(Time now);
    void update(const rte_flow_update_age& update, Time now);
    void query(rte_flow_query_age& result, Time now);

  private:
    friend class FlowAges;
    using Seconds = std::chrono::seconds;

    /// Time between two reads: rules with long timeouts are many and need not be checked often.
    [[nodiscard]] Seconds interval() const { return std::max(timeout_ / 8, Seconds(1)); }

    [[nodiscard]] bool over(Time now) const { return now >= last_hit_ + timeout_; }
    void read(Time now);
    void read(FlowCounter& counter, uint64_t& packets, Time now);

    CounterRef counter_;
    std::map<FlowCounter*, uint64_t> watched_; ///< besides counter_, with packets at the last read
    Seconds timeout_{};
    void* context_ = nullptr;
    Time last_hit_, next_look_;
    uint64_t packets_ = 0; ///< at the last read
    bool aged_ = false;
    bool lives_ = false;       ///< some rule or indirect action has it
    FlowAges* list_ = nullptr; ///< that has it in this place; null: none
    size_t place_ = 0;
};
using AgeRef = Ref<FlowAge>;

/// The ages of a port, as long as rules or indirect actions use them.
class FlowAges {
  public:
    FlowAges() = default;
    FlowAges(const FlowAges&) = delete;
    FlowAges& operator=(const FlowAges&) = delete;
    ~FlowAges();

    void add(const AgeRef& age) {
        age->lives_ = true;
        if (age->list_ == nullptr) keep(*age);
    }
    /// Makes room for this many more, to be added without allocation.
    void reserve(size_t count) { ages_.reserve(ages_.size() + count); }
    [[nodiscard]] bool empty() const { return ages_.empty(); }
    /// Checks those that are due; true if the application has to be notified, that is, of the first
    /// ones that have aged since it last asked.
    [[nodiscard]] bool look(FlowAge::Time now);
    /// Contexts of those that have aged, as far as there is room; without room, their number.
    [[nodiscard]] size_t aged(std::span<void*> contexts);

  private:
    friend FlowAge;
    void keep(FlowAge& age) {
        age.list_ = this;
        age.place_ = ages_.size();
        ages_.push_back(&age);
    }

    std::vector<FlowAge*> ages_; ///< null: it is gone
    bool told_ = false;
};

} // namespace rawqp
