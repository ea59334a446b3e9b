// SPDX-License-Identifier: BSD-3-Clause
// Adding and removing observers. The data path keeps nothing between two rounds, so another one can
// take its place.
#include "app/softhca/core/device_state.hpp"

namespace softhca::core {

void Device::add_observer(Observer& observer) {
    const ControlLock lock(*state_);
    const bool first = !state_->recorder;
    if (first) state_->recorder = std::make_unique<Recorder>(state_->config.name, state_->port);
    state_->recorder->add(observer);
    if (first) state_->data_path = state_->make_data_path();
}

void Device::remove_observer(Observer& observer) {
    const ControlLock lock(*state_);
    if (!state_->recorder || state_->recorder->remove(observer)) return;
    state_->recorder.reset();
    state_->data_path = state_->make_data_path();
}

} // namespace softhca::core
