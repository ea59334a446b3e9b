// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/virtio/virtq.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

namespace softhca::core {
namespace {

constexpr uint64_t kRingHead = sizeof(virtio::RingHead);

QueueState queue_state(VirtqState state) {
    switch (state) {
    case VirtqState::ready: return QueueState::ready;
    case VirtqState::error: return QueueState::error;
    default: return QueueState::reset;
    }
}

void count(VirtqCounts& counts, VirtqFault fault) {
    switch (fault) {
    case VirtqFault::bad_descriptor: counts.bad_descriptors++; break;
    case VirtqFault::invalid_buffer: counts.invalid_buffers++; break;
    case VirtqFault::chain_too_long: counts.chains_too_long++; break;
    default: counts.other_errors++; break;
    }
}

} // namespace

void Virtq::enter(VirtqState state) {
    state_ = state;
    queue_.state = queue_state(state);
}

void Virtq::fail(VirtqFault fault) {
    if (state_ == VirtqState::error) return;
    enter(VirtqState::error);
    fault_ = fault;
    owes_event_ = false;
    if (counter_) count(counter_->counts, fault);
    if (queue_.listener)
        queue_.listener->on_async(AsyncEvent::virtq_error, queue_.number, queue_.cookie);
}

template <class T> T* Virtq::locate(uint64_t address, Access access) const {
    T* found = nullptr;
    const auto whole = [&](std::byte* piece, uint32_t bytes) {
        if (bytes != sizeof(T) || reinterpret_cast<uintptr_t>(piece) % alignof(T) != 0)
            return false;
        found = reinterpret_cast<T*>(piece);
        return true;
    };
    return mkeys_.translate(attr_.lkey, attr_.pd, access, address, sizeof(T), whole) ? found
                                                                                     : nullptr;
}

bool Virtq::has_chain() {
    const auto* const index =
        locate<uint16_t>(attr_.available + offsetof(virtio::RingHead, index), Access::read);
    if (!index) {
        fail(VirtqFault::no_ring);
        return false;
    }
    const auto posted =
        static_cast<uint16_t>(__atomic_load_n(index, __ATOMIC_ACQUIRE) - next_available_);
    if (posted > attr_.entries) fail(VirtqFault::bad_descriptor);
    return posted != 0 && serves();
}

template <class Use> VirtqFault Virtq::walk(uint16_t head, bool writable, Use&& use) {
    uint16_t at = head;
    // Empty ones cost the driver nothing, so their number has to be bounded, too.
    const uint32_t most = std::min<uint32_t>(attr_.entries, kMaxChainDescriptors);
    for (descriptors_ = 0; descriptors_ < most;) {
        if (at >= attr_.entries) return VirtqFault::bad_descriptor;
        const auto* const posted = locate<virtio::Descriptor>(
            attr_.descriptors + uint64_t{at} * sizeof(virtio::Descriptor), Access::read);
        if (!posted) return VirtqFault::no_ring;
        const virtio::Descriptor descriptor = *posted; // whatever the driver writes meanwhile
        descriptors_++;
        const bool writes = descriptor.flags & virtio::kWrite;
        if (descriptor.flags & virtio::kIndirect || writes != writable)
            return VirtqFault::bad_descriptor;
        if (const VirtqFault fault = use(descriptor.address, descriptor.bytes);
            fault != VirtqFault::none)
            return fault;
        if (!(descriptor.flags & virtio::kNext)) return VirtqFault::none;
        at = descriptor.next;
    }
    return VirtqFault::chain_too_long;
}

bool Virtq::read_head(uint16_t& head) {
    const auto* const entry = locate<uint16_t>(
        attr_.available + kRingHead + sizeof(uint16_t) * slot(next_available_), Access::read);
    if (entry)
        head = *entry;
    else
        fail(VirtqFault::no_ring);
    return entry != nullptr;
}

template <class Use> bool Virtq::walk_next(bool writable, Use&& use) {
    if (!read_head(head_)) return false;
    const VirtqFault fault = walk(head_, writable, use);
    if (fault == VirtqFault::none) return true;
    if (counter_) counter_->counts.received += descriptors_;
    fail(fault);
    return false;
}

bool Virtq::gather(Gather& frame, virtio::NetHeader& header) {
    frame.clear();
    const auto add = [&](uint64_t address, uint32_t bytes) {
        if (uint64_t{bytes} + frame.length() > Limits::kMaxTsoBytes + header_bytes())
            return VirtqFault::chain_too_long;
        bool fits = true;
        const bool mapped = mkeys_.translate(
            attr_.lkey, attr_.pd, Access::read, address, bytes,
            [&](const std::byte* piece, uint32_t part) { return fits = frame.add(piece, part); });
        return mapped  ? VirtqFault::none
               : !fits ? VirtqFault::chain_too_long
                       : VirtqFault::invalid_buffer;
    };
    if (!walk_next(false, add)) return false;
    if (frame.length() <= header_bytes()) {
        fail(VirtqFault::invalid_buffer);
        return false;
    }
    std::array<std::byte, sizeof header> raw{};
    frame.pop_front(raw.data(), header_bytes());
    std::memcpy(&header, raw.data(), sizeof header);
    return true;
}

Virtq::Placed Virtq::scatter(std::span<const iovec> pieces, uint32_t bytes, bool sound) {
    virtio::NetHeader header{};
    header.buffers = 1; // a part that the predecessor's header lacks
    if (sound) header.flags = virtio::kDataValid;
    FlatCursor head(&header);
    PieceCursor data(pieces);
    uint32_t head_left = header_bytes(), left = bytes;
    const auto write = [&](std::byte* to, uint32_t room) {
        const uint32_t first = std::min(head_left, room);
        head.copy(first, to);
        head_left -= first;
        const uint32_t rest = std::min(left, room - first);
        data.copy(rest, to + first);
        left -= rest;
        return true;
    };
    const bool walked = walk_next(true, [&](uint64_t address, uint32_t room) {
        const uint32_t used = std::min(room, head_left + left);
        return mkeys_.translate(attr_.lkey, attr_.pd, Access::write, address, used, write)
                   ? VirtqFault::none
                   : VirtqFault::invalid_buffer;
    });
    if (!walked) return Placed::failed;
    if (head_left + left != 0) return Placed::too_long;
    use_chain(header_bytes() + bytes);
    return serves() ? Placed::whole : Placed::failed;
}

void Virtq::use_chain(uint32_t written) {
    auto* const element = locate<virtio::UsedElement>(
        attr_.used + kRingHead + sizeof(virtio::UsedElement) * slot(next_used_), Access::write);
    auto* const index =
        locate<uint16_t>(attr_.used + offsetof(virtio::RingHead, index), Access::write);
    if (!element || !index) return fail(VirtqFault::no_ring);
    *element = {.head = head_, .bytes = written};
    next_available_++;
    next_used_++;
    __atomic_store_n(index, next_used_, __ATOMIC_RELEASE);
    if (events_ && !std::exchange(owes_event_, true)) owing_.push_back(this);
    if (!counter_) return;
    counter_->counts.received += descriptors_;
    counter_->counts.completed += descriptors_;
}

Rq* Virtq::wants_event() {
    if (!owes_event_) return nullptr;
    // The driver enables events and then checks the used index once more: its flags must be read
    // after what it checks has been written.
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    const auto* const flags =
        locate<uint16_t>(attr_.available + offsetof(virtio::RingHead, flags), Access::read);
    if (flags && !(__atomic_load_n(flags, __ATOMIC_RELAXED) & virtio::kNoInterrupt)) return events_;
    owes_event_ = false;
    return nullptr;
}

bool Virtq::works_on(const void* address) const {
    const auto* const byte = static_cast<const std::byte*>(address);
    const auto lies_in = [&](uint64_t part, uint64_t bytes) {
        bool found = false;
        (void)mkeys_.translate(attr_.lkey, attr_.pd, Access::read, part,
                               static_cast<uint32_t>(bytes),
                               [&](const std::byte* piece, uint32_t length) {
                                   found |= byte >= piece && byte < piece + length;
                                   return true;
                               });
        return found;
    };
    const uint64_t entries = attr_.entries;
    return lies_in(attr_.descriptors, entries * sizeof(virtio::Descriptor)) ||
           lies_in(attr_.available, kRingHead + entries * sizeof(uint16_t)) ||
           lies_in(attr_.used, kRingHead + entries * sizeof(virtio::UsedElement));
}

} // namespace softhca::core
