// SPDX-License-Identifier: BSD-3-Clause
// QEMU's multi-process protocol: `-device x-pci-proxy-dev,fd=N` (QEMU 5.2 and later).
#pragma once

#include "app/softhca/pci/function.hpp"
#include "common/fd.hpp"
#include "common/result.hpp"

#include <string>

namespace softhca::pci {

/// The protocol carries no MSI-X messages; they are sent as memory writes through QEMU's -qtest
/// socket. Connected on the first interrupt: QEMU opens the socket while it starts.
class QtestInterrupts {
  public:
    explicit QtestInterrupts(std::string path) : path_(std::move(path)) {}
    /// Called with the lock of Interrupts held, from any thread. Does not block.
    void deliver(uint64_t address, uint32_t data);

  private:
    std::string path_;
    Fd socket_;
    bool complained_ = false;
};

/// Serves the function on the connected socket until QEMU closes it. Errors are those of the
/// protocol: a guest cannot cause any.
[[nodiscard]] Result<void> serve_mpqemu(Function& function, Fd socket);

} // namespace softhca::pci
