// SPDX-License-Identifier: BSD-3-Clause
// Delivers firmware events to the programs that have subscribed to them, as the kernel does.
#pragma once

#include "app/softhca/prm/events.hpp"
#include "app/softhca/uverbs/devx/record_file.hpp"

#include <compare>
#include <map>
#include <memory>
#include <mutex>

namespace softhca::uverbs::devx {

/// Where a program receives an event.
struct Subscription {
    uint64_t object = 0; ///< the object concerned (object_id); 0: none
    uint64_t cookie = 0;
    std::weak_ptr<RecordFile> file{};
    Fd eventfd{}; ///< replaces the file, if there is one
};

/// An event: its type (prm::EventType), the kind of queue (prm::kQueueTypeRq, …) or type of general
/// object, and the number of the object; 0: no object.
struct EventKey {
    uint16_t type = 0;
    uint16_t queue_type = 0;
    uint32_t number = 0;
    auto operator<=>(const EventKey&) const = default;
};

/// Thread-safe; device threads push.
class EventFiles final : public prm::EventSink {
  public:
    void subscribe(const EventKey& event, Subscription subscription);
    /// The object is gone.
    void forget(uint64_t object);

    void push(uint32_t eqn, prm::EventType type, uint8_t subtype,
              const prm::EventData& data) override;
    void push_all(prm::EventType type, uint8_t subtype, const prm::EventData& data) override;
    void clear() override {}

  private:
    void deliver(const EventKey& event, uint8_t subtype, const prm::EventData& data);

    std::mutex mutex_;
    std::multimap<EventKey, Subscription> subscriptions_;
};

} // namespace softhca::uverbs::devx
