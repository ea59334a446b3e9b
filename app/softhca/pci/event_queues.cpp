// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/pci/event_queues.hpp"

#include <cstddef>
#include <cstring>

namespace softhca::pci {
namespace {

using prm::Eqe;

constexpr uint32_t kCounterMask = 0xffffff;

} // namespace

uint32_t EventQueues::create(EqAttr attr) {
    const std::lock_guard lock(mutex_);
    for (uint32_t eqn = kFirst; eqn <= kLast; eqn++) {
        if (eqs_.contains(eqn)) continue;
        eqs_[eqn] = Eq{.attr = std::move(attr)};
        return eqn;
    }
    return 0;
}

bool EventQueues::destroy(uint32_t eqn) {
    const std::lock_guard lock(mutex_);
    return eqs_.erase(eqn) != 0;
}

void EventQueues::clear() {
    const std::lock_guard lock(mutex_);
    eqs_.clear();
}

void EventQueues::ring_doorbell(uint32_t uar, uint32_t eqn, uint32_t consumer, bool arm) {
    const std::lock_guard lock(mutex_);
    const auto found = eqs_.find(eqn);
    if (found == eqs_.end() || found->second.attr.uar != uar) return;
    Eq& eq = found->second;
    eq.consumer = consumer & kCounterMask;
    if (!arm) return;
    eq.armed = (eq.producer & kCounterMask) == eq.consumer;
    if (!eq.armed) interrupts_.raise(eq.attr.vector);
}

void EventQueues::write(Eq& eq, EventType type, uint8_t subtype, const EventData& data) {
    const uint32_t entries = 1u << eq.attr.log_entries;
    if (((eq.producer - eq.consumer) & kCounterMask) >= entries) {
        lost_++;
        return;
    }
    Eqe eqe{};
    eqe.type = static_cast<uint8_t>(type);
    eqe.subtype = subtype;
    eqe.data = data;
    eqe.owner = eq.producer >> eq.attr.log_entries & 1;
    std::byte* const to = eq.attr.ring.at(uint64_t{eq.producer & (entries - 1)} * sizeof(Eqe));
    constexpr size_t kBody = sizeof(Eqe) - sizeof(uint64_t);
    uint64_t tail;
    std::memcpy(&tail, reinterpret_cast<const std::byte*>(&eqe) + kBody, sizeof tail);
    std::memcpy(to, &eqe, kBody);
    __atomic_store_n(reinterpret_cast<uint64_t*>(to + kBody), tail, __ATOMIC_RELEASE);
    eq.producer++;
    if (!eq.armed) return;
    eq.armed = false;
    interrupts_.raise(eq.attr.vector);
}

void EventQueues::push(uint32_t eqn, EventType type, uint8_t subtype, const EventData& data) {
    const std::lock_guard lock(mutex_);
    const auto found = eqs_.find(eqn);
    if (found != eqs_.end()) write(found->second, type, subtype, data);
}

void EventQueues::push_all(EventType type, uint8_t subtype, const EventData& data) {
    const std::lock_guard lock(mutex_);
    for (auto& [eqn, eq] : eqs_)
        if (eq.attr.mask >> static_cast<uint8_t>(type) & 1) write(eq, type, subtype, data);
}

bool EventQueues::wanted(EventType type) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [eqn, eq] : eqs_)
        if (eq.attr.mask >> static_cast<uint8_t>(type) & 1) return true;
    return false;
}

uint64_t EventQueues::lost() const {
    const std::lock_guard lock(mutex_);
    return lost_;
}

} // namespace softhca::pci
