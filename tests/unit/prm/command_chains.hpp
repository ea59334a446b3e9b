// SPDX-License-Identifier: BSD-3-Clause
// Chains of requests that succeed on a new device. Together they have every command.
#pragma once

#include "tests/unit/prm/transports.hpp"

#include <span>

namespace prm_test {

struct Exchange {
    Request request;
    Answer answer;

    [[nodiscard]] uint16_t opcode() const { return net::load_be<uint16_t>(request.in.data()); }
};

/// Sends requests, and remembers them with their answers.
class Conversation {
  public:
    explicit Conversation(Transport& transport) : transport_(transport) {}

    const Answer& ask(const Request& request) {
        exchanges_.push_back({request, transport_.run(request)});
        return exchanges_.back().answer;
    }
    /// For requests that create an object: returns its number.
    Number make(const Request& request) { return ask(request).number(); }

    [[nodiscard]] Transport& transport() { return transport_; }
    [[nodiscard]] const std::vector<Exchange>& exchanges() const { return exchanges_; }

  private:
    Transport& transport_;
    std::vector<Exchange> exchanges_;
};

struct CommandChain {
    const char* name;
    void (*run)(Conversation&);
};

/// Those that a process and a guest have.
[[nodiscard]] std::span<const CommandChain> command_chains();
/// What only a guest's driver does: it lends pages and has event queues and UARs of its own. Those
/// of a process are the kernel's.
void run_guest_chain(Conversation& talk);

/// What has been sent when a GuestTransport is there, so that a process's objects get the same
/// numbers.
void start_process(Conversation& talk);

} // namespace prm_test
