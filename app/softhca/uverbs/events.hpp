// SPDX-License-Identifier: BSD-3-Clause
// From the device's reports to the program's event files.
#pragma once

#include "app/softhca/uverbs/objects.hpp"

#include <atomic>
#include <memory>

namespace softhca::uverbs {

/// Hears the device for one context. The device calls it from its threads, with the device locked;
/// it takes no lock. The cookie of the device objects is the address of their EventSource.
class EventReporter final : public core::Listener {
  public:
    void on_completion(core::Number cqn, uint64_t cookie) override;
    void on_async(core::AsyncEvent event, core::Number number, uint64_t cookie) override;

    /// Where asynchronous events go, once: before that they are lost, as with no reader.
    void set_async_pipe(std::shared_ptr<EventPipe> pipe);
    [[nodiscard]] bool has_async_pipe() const { return async_pipe_ != nullptr; }

    /// For the destroy commands, after the object is off the device: drops what the program has not
    /// read and returns how many events it has.
    [[nodiscard]] uint32_t settle_async(EventSource& source);
    [[nodiscard]] static uint32_t settle_completions(EventSource& source);

  private:
    std::shared_ptr<EventPipe> async_pipe_;
    std::atomic<EventPipe*> async_target_{nullptr}; ///< for the device threads
};

} // namespace softhca::uverbs
