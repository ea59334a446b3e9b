// SPDX-License-Identifier: BSD-3-Clause
// The vfio-user protocol: `-device vfio-user-pci` (QEMU 10.1 and later). Published with QEMU as
// docs/interop/vfio-user.rst.
#pragma once

#include "app/softhca/pci/function.hpp"
#include "common/fd.hpp"
#include "common/result.hpp"

#include <array>
#include <mutex>
#include <string>

namespace softhca::pci {

/// The eventfds of the MSI-X vectors. Thread-safe.
class VectorEvents {
  public:
    /// An interrupt that came while the vector had no eventfd is delivered now.
    void assign(uint32_t vector, Fd eventfd);
    void remove(uint32_t vector);
    void signal(uint32_t vector);

  private:
    struct Vector {
        Fd eventfd;
        bool pending = false;
    };
    std::mutex mutex_;
    std::array<Vector, BarLayout::kVectors> vectors_;
};

/// Listens at the path and waits for QEMU to connect. The socket file is there meanwhile. EEXIST:
/// something else than an earlier process's socket is at the path.
[[nodiscard]] Result<Fd> accept_vfio_user(const std::string& path);

/// Serves the function on the connected socket until the client closes it. Invalid requests are
/// refused; the connection ends with an error only when message boundaries are lost.
[[nodiscard]] Result<void> serve_vfio_user(Function& function, Fd socket);

} // namespace softhca::pci
