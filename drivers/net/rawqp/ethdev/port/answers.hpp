// SPDX-License-Identifier: BSD-3-Clause
// Answers what secondary processes ask of the primary.
#pragma once

namespace rawqp {

struct Port;

/// Answers questions about a port while this object lives, on EAL's thread for multi-process
/// messages.
class Answers {
  public:
    /// Without EAL's message channel (--no-shconf, --in-memory) nobody can ask.
    explicit Answers(Port& port);
    /// No question is being answered when it returns.
    ~Answers();
    Answers(const Answers&) = delete;
    Answers& operator=(const Answers&) = delete;

  private:
    const Port& port_;
};

} // namespace rawqp
