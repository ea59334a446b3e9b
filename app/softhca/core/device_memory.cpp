// SPDX-License-Identifier: BSD-3-Clause
// Memory keys, and what happens to objects whose memory the program has unmapped.
#include "app/softhca/core/device_state.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace softhca::core {
namespace {

/// Total size of the key's memory or parts.
uint64_t room_of(const MkeyAttr& attr) {
    return std::accumulate(attr.parts.begin(), attr.parts.end(), attr.memory.length(),
                           [](uint64_t sum, const KeyPart& part) { return sum + part.bytes; });
}

} // namespace

Outcome<uint32_t> Device::create_mkey(MkeyAttr attr) {
    const ControlLock lock(*state_);
    Pd* const pd = state_->pds.find(attr.pd);
    if (!pd) return refuse(Status::bad_resource);
    if (attr.length > room_of(attr) || attr.iova + attr.length < attr.iova)
        return refuse(Status::bad_parameter);
    if (attr.parts.size() > size_t{1} << Limits::kLogMaxKeyParts) return refuse(Status::limit);
    const uint32_t lkey = state_->mkeys.insert(std::move(attr));
    if (lkey == 0) return refuse(Status::limit);
    pd->users++;
    return lkey;
}

Outcome<void> Device::destroy_mkey(uint32_t lkey) {
    const ControlLock lock(*state_);
    const Number pd = state_->mkeys.erase(lkey);
    if (pd == 0) return refuse(Status::bad_resource);
    state_->pds.find(pd)->users--;
    return {};
}

Outcome<KeyState> Device::query_mkey(Number index) const {
    const ControlLock lock(*state_);
    const Mkey* const key = state_->mkeys.at_index(index);
    if (!key) return refuse(Status::bad_resource);
    return KeyState{key->own_lkey,    key->pd,          key->is_free(),
                    key->local_write, key->remote_read, key->remote_write};
}

/// What queues know of their buffers is out of date from then on.
bool Device::State::change_key(const KeyChange& change) {
    Pd* const pd = change.pd ? pds.find(*change.pd) : nullptr;
    if (change.pd && !pd) return false;
    const Number former = mkeys.change(change);
    if (former == 0) return false;
    if (pd) {
        pd->users++;
        pds.find(former)->users--;
    }
    control_calls++;
    return true;
}

Outcome<void> Device::write_memory(uint32_t lkey, uint64_t address,
                                   std::span<const std::byte> bytes) {
    const ControlLock lock(*state_);
    const std::optional<Number> pd = state_->mkeys.pd_of(lkey);
    if (!pd) return refuse(Status::bad_resource);
    const std::byte* from = bytes.data();
    const auto put = [&](std::byte* to, uint32_t count) {
        std::memcpy(to, from, count);
        from += count;
        return true;
    };
    bool written = false;
    const void* const missing = run_guarded(*state_, [&] {
        written = state_->mkeys.translate(lkey, *pd, Access::write, address,
                                          static_cast<uint32_t>(bytes.size()), put);
    });
    return written && !missing ? Outcome<void>{} : refuse(Status::bad_parameter);
}

bool Device::State::covers(const void* address) const {
    const auto works_on = [&](const auto& entry) { return entry.second->works_on(address); };
    return std::ranges::any_of(sqs, works_on) || std::ranges::any_of(rqs, works_on) ||
           std::ranges::any_of(cqs, works_on) || mkeys.covers(address);
}

/// A queue without its ring is left alone until it is reset.
template <class Q> bool Device::State::break_queues(std::vector<Q*>& active, const void* address) {
    bool any = false;
    std::erase_if(active, [&](Q* queue) {
        if (!queue->works_on(address)) return false;
        queue->broken = true;
        queue->fail();
        if constexpr (std::is_same_v<Q, Sq>)
            schedule(*queue).stop(*queue);
        else
            std::erase(failed_rqs, queue);
        return any = true;
    });
    return any;
}

bool Device::State::break_cqs(const void* address) {
    bool any = false;
    for (const auto& [number, cq] : cqs) {
        if (!cq->works_on(address)) continue;
        cq_visits.forget(*cq); // whether it has failed before or not: its record is gone
        if (cq->failed()) continue;
        cq->fail();
        any = true;
    }
    return any;
}

bool Device::State::break_virtqs(const void* address) {
    bool any = false;
    for (Virtq* const virtq : active_virtqs) {
        if (virtq->status().state == VirtqState::error || !virtq->works_on(address)) continue;
        virtq->fail(VirtqFault::no_ring);
        any = true;
    }
    return any;
}

void Device::State::lose_memory(const void* address) {
    // All of them: the same page may hold several.
    bool broken = break_cqs(address);
    broken |= break_queues(active_sqs, address);
    broken |= break_queues(active_rcs, address);
    broken |= break_queues(active_rqs, address);
    broken |= break_virtqs(address);
    data_path->lose_memory(broken, doing);
}

} // namespace softhca::core
