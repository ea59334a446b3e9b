// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/devx/events.hpp"

#include "app/softhca/epoll.hpp"
#include "common/net/endian.hpp"

#include <array>
#include <cstring>
#include <poll.h>
#include <unistd.h>

namespace softhca::uverbs::devx {
namespace {

using prm::EventData;
using prm::EventType;

constexpr uint32_t kNumberMask = 0xffffff;

uint32_t number_at(const EventData& data, size_t at) {
    return net::load_be<uint32_t>(data.data() + at) & kNumberMask;
}

/// Adds one to its count. A full count stays as it is: a write would block until it is read, which
/// a kernel's events do not do either.
void count_up(int eventfd) {
    pollfd room{.fd = eventfd, .events = POLLOUT, .revents = 0};
    const uint64_t one = 1;
    if (poll_file(room) == 1) (void)!write(eventfd, &one, sizeof one);
}

} // namespace

void EventFiles::subscribe(const EventKey& event, Subscription subscription) {
    const std::lock_guard lock(mutex_);
    std::erase_if(subscriptions_, [](const auto& entry) { return entry.second.file.expired(); });
    subscriptions_.emplace(event, std::move(subscription));
}

void EventFiles::forget(uint64_t object) {
    const std::lock_guard lock(mutex_);
    std::erase_if(subscriptions_, [&](const auto& entry) { return entry.second.object == object; });
}

void EventFiles::deliver(const EventKey& event, uint8_t subtype, const EventData& data) {
    const std::lock_guard lock(mutex_);
    const auto [first, last] = subscriptions_.equal_range(event);
    for (auto entry = first; entry != last; ++entry) {
        const Subscription& subscription = entry->second;
        const auto file = subscription.file.lock();
        if (!file) continue;
        if (subscription.eventfd) {
            count_up(subscription.eventfd.get());
            continue;
        }
        prm::Eqe eqe{};
        eqe.type = static_cast<uint8_t>(event.type);
        eqe.subtype = subtype;
        eqe.data = data;
        std::array<std::byte, sizeof subscription.cookie + sizeof eqe> record;
        std::memcpy(record.data(), &subscription.cookie, sizeof subscription.cookie);
        std::memcpy(record.data() + sizeof subscription.cookie, &eqe, sizeof eqe);
        const auto whole = std::span<const std::byte>(record);
        (void)file->post(file->without_data() ? whole.first(sizeof subscription.cookie) : whole);
    }
}

void EventFiles::push(uint32_t, EventType type, uint8_t subtype, const EventData& data) {
    constexpr size_t kCqnAt = 24;
    deliver({.type = static_cast<uint16_t>(type), .number = number_at(data, kCqnAt)}, subtype,
            data);
}

void EventFiles::push_all(EventType type, uint8_t subtype, const EventData& data) {
    constexpr size_t kQueueTypeAt = 20, kQueueAt = 24, kErrorCqnAt = 0, kObjectTypeAt = 2,
                     kObjectAt = 4;
    EventKey event{.type = static_cast<uint16_t>(type)};
    if (type == EventType::wq_catastrophic) {
        event.queue_type = data[kQueueTypeAt];
        event.number = number_at(data, kQueueAt);
    } else if (type == EventType::object_change) {
        event.queue_type = net::load_be<uint16_t>(data.data() + kObjectTypeAt);
        event.number = number_at(data, kObjectAt);
    } else if (type == EventType::cq_error) {
        event.number = number_at(data, kErrorCqnAt);
    }
    deliver(event, subtype, data);
}

} // namespace softhca::uverbs::devx
