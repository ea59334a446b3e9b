// SPDX-License-Identifier: BSD-3-Clause
// Delivers the device's reports to the program's event files.
#pragma once

#include "app/softhca/uverbs/objects.hpp"

#include <memory>

namespace softhca::uverbs {

/// Listens for events of a context's objects. Each has its own EventSource, whose address is the
/// cookie of the device's object. The device calls it from its threads, with the device locked; it
/// takes no lock.
class EventReporter final : public core::Listener {
  public:
    void on_completion(core::Number cqn, uint64_t cookie) override;
    void on_async(core::AsyncEvent event, core::Number number, uint64_t cookie) override;

    /// For the destroy commands, once the object is gone from the device: drops what the program
    /// has not read and returns the number of events it has read.
    [[nodiscard]] static uint32_t settle_async(EventSource& source);
    [[nodiscard]] static uint32_t settle_completions(EventSource& source);
};

/// An asynchronous event file of a context, which may have several. Events of the port and the
/// device go to each of them while it is open; events of an object go to the file that it was
/// created with.
class AsyncFile final : public ContextFile, public core::Listener {
  public:
    AsyncFile(core::Device& device, std::shared_ptr<EventPipe> pipe);
    ~AsyncFile() override;
    AsyncFile(const AsyncFile&) = delete;
    AsyncFile& operator=(const AsyncFile&) = delete;

    [[nodiscard]] const std::shared_ptr<EventPipe>& pipe() const { return pipe_; }

    void on_completion(core::Number, uint64_t) override {}
    void on_async(core::AsyncEvent event, core::Number number, uint64_t cookie) override;

  private:
    core::Device& device_;
    std::shared_ptr<EventPipe> pipe_;
};

} // namespace softhca::uverbs
