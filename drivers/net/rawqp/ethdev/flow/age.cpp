// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/age.hpp"

namespace rawqp {

FlowAge::FlowAge(CounterRef counter, const rte_flow_action_age& conf, Time now)
    : counter_(std::move(counter)) {
    begin(conf, now);
}

void FlowAge::begin(const rte_flow_action_age& conf, Time now) {
    timeout_ = Seconds(conf.timeout);
    context_ = conf.context;
    read(now); // what was counted before
    last_hit_ = now;
    next_look_ = now + interval();
    aged_ = false;
}

void FlowAge::watch(FlowCounter& counter) {
    const auto [at, fresh] = watched_.try_emplace(&counter);
    if (!fresh) return;
    if (const auto counts = counter.total()) at->second = counts->packets;
}

void FlowAge::forget(FlowCounter& counter) {
    watched_.erase(&counter);
    if (!shared()) lives_ = false;
}

/// Nothing can be read of rules that are not in the device, but no packet hits them either.
void FlowAge::read(FlowCounter& counter, uint64_t& packets, Time now) {
    const auto counts = counter.total();
    if (!counts || counts->packets == packets) return;
    packets = counts->packets;
    last_hit_ = now;
}

void FlowAge::read(Time now) {
    read(*counter_, packets_, now);
    for (auto& [counter, packets] : watched_)
        read(*counter, packets, now);
}

bool FlowAge::look(Time now) {
    if (now < next_look_) return false;
    read(now);
    next_look_ = now + interval();
    if (!over(now)) next_look_ = std::min(next_look_, last_hit_ + timeout_);
    return over(now) && !std::exchange(aged_, true);
}

void FlowAge::update(const rte_flow_update_age& update, Time now) {
    if (update.timeout_valid != 0) timeout_ = Seconds(update.timeout);
    if (update.touch != 0) {
        last_hit_ = now;
        aged_ = false;
    }
    next_look_ = now;
}

void FlowAge::query(rte_flow_query_age& result, Time now) {
    read(now);
    result = {};
    result.aged = aged_ || over(now) ? 1 : 0;
    result.sec_since_last_hit_valid = 1;
    constexpr int64_t kMost = (1 << 24) - 1;
    const auto since = std::chrono::duration_cast<Seconds>(now - last_hit_).count();
    result.sec_since_last_hit = static_cast<uint32_t>(std::min<int64_t>(since, kMost)) & kMost;
}

FlowAge::~FlowAge() {
    if (list_ != nullptr) list_->ages_[place_] = nullptr;
}

FlowAges::~FlowAges() {
    for (FlowAge* const age : ages_)
        if (age != nullptr) age->list_ = nullptr;
}

bool FlowAges::look(FlowAge::Time now) {
    bool fresh = false;
    std::vector<FlowAge*> all;
    all.swap(ages_);
    ages_.reserve(all.capacity());
    for (FlowAge* const age : all) {
        if (age == nullptr) continue;
        age->list_ = nullptr;
        if (!age->lives_) continue;
        if (age->look(now)) fresh = true;
        keep(*age);
    }
    return fresh && !std::exchange(told_, true);
}

size_t FlowAges::aged(std::span<void*> contexts) {
    told_ = false;
    size_t count = 0;
    for (const FlowAge* const age : ages_) {
        if (age == nullptr || !age->lives_ || !age->aged()) continue;
        if (!contexts.empty()) {
            if (count == contexts.size()) break;
            contexts[count] = age->context();
        }
        ++count;
    }
    return count;
}

} // namespace rawqp
