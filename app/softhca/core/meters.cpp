// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/meters.hpp"

#include "app/softhca/core/device_state.hpp"

#include <algorithm>

namespace softhca::core {

// ---------------------------------------------------------------- the pairs

Outcome<Number> Meters::create(const MetersAttr& attr, uint64_t now) {
    const auto fits = [](const BucketAttr& bucket) {
        return std::max(bucket.rate_exponent, bucket.size_exponent) <= MeterAttr::kMaxExponent;
    };
    if (attr.pairs == 0 || attr.pairs > Limits::kMaxMeterPairsAtOnce ||
        !std::ranges::all_of(attr.meters, [&](const MeterAttr& meter) {
            return fits(meter.committed) && fits(meter.excess);
        }))
        return refuse(Status::bad_parameter);
    if (attr.pairs > Limits::kMaxMeterPairs - pairs_.size()) return refuse(Status::limit);
    const auto [first, range] = pairs_.add(attr.pairs);
    for (Number number = first; MeterPair & pair : range) {
        pair.number = number++;
        pair.pd = attr.pd;
        for (size_t i = 0; i < pair.meters.size(); i++)
            pair.meters[i].set(attr.meters[i], now);
    }
    return first;
}

Outcome<void> Meters::destroy(Number first) {
    const auto* const range = pairs_.find_range(first);
    if (!range) return refuse(Status::bad_resource);
    if (std::ranges::any_of(*range, [](const MeterPair& pair) { return pair.users != 0; }))
        return refuse(Status::busy);
    pairs_.erase(first);
    return {};
}

// ---------------------------------------------------------------- control calls

Outcome<Number> Device::create_meters(const MetersAttr& attr) {
    const ControlLock lock(*state_);
    return state_->create_in_pd(attr.pd,
                                [&] { return state_->meters.create(attr, state_->port.now()); });
}

Outcome<void> Device::destroy_meters(Number first) {
    const ControlLock lock(*state_);
    return state_->destroy_in_pd(state_->meters, first);
}

Outcome<std::array<Meter, 2>> Device::query_meters(Number number) {
    const ControlLock lock(*state_);
    const MeterPair* const pair = state_->meters.find(number);
    if (!pair) return refuse(Status::bad_resource);
    return pair->meters;
}

} // namespace softhca::core
