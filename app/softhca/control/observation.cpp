// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/control/observation.hpp"

#include "app/softhca/clock.hpp"
#include "app/softhca/core/describe.hpp"

#include <nlohmann/json.hpp>
#include <utility>

namespace softhca::control {
namespace {

using core::Passage;
using nlohmann::json;

json to_json(const Passage& passage, int64_t to_real_time) {
    json steps = json::array();
    for (const Passage::Step& step : passage.steps)
        steps.push_back({{"where", step.where}, {"text", step.text}});
    const bool received = passage.direction == Passage::Direction::received;
    return {{"device", *passage.device},
            {"direction", received ? "received" : "sent"},
            {"time", int64_t(passage.time) + to_real_time},
            {"queue", passage.queue},
            {"frame", core::hex(passage.frame)},
            {"steps", std::move(steps)},
            {"verdict", passage.verdict}};
}

} // namespace

Observation::Observation(std::vector<core::Device*> devices, const ObservationOptions& options)
    : devices_(std::move(devices)), options_(options),
      to_real_time_(int64_t(clock_ns(CLOCK_REALTIME)) - int64_t(clock_ns())) {
    for (core::Device* const device : devices_)
        device->add_observer(*this);
}

Observation::~Observation() {
    for (core::Device* const device : devices_)
        device->remove_observer(*this);
}

void Observation::on_packet(const Passage& passage) {
    const std::lock_guard lock(mutex_);
    if (options_.count != 0 && seen_ == options_.count) return;
    seen_++;
    if (kept_.size() == kMostKept || kept_bytes_ + passage.frame.size() > kMostBytes) {
        lost_++;
        return;
    }
    kept_bytes_ += passage.frame.size();
    kept_.push_back(passage);
}

json Observation::take() {
    std::vector<Passage> taken;
    json answer = {{"packets", json::array()}};
    {
        const std::lock_guard lock(mutex_);
        for (; !kept_.empty() && taken.size() < kAnswered; kept_.pop_front()) {
            kept_bytes_ -= kept_.front().frame.size();
            taken.push_back(std::move(kept_.front()));
        }
        answer["lost"] = std::exchange(lost_, 0);
        answer["done"] = options_.count != 0 && seen_ == options_.count && kept_.empty();
    }
    for (const Passage& passage : taken)
        answer["packets"].push_back(to_json(passage, to_real_time_));
    return answer;
}

} // namespace softhca::control
