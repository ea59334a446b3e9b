// SPDX-License-Identifier: BSD-3-Clause
// When mlx5_ib switches a port's local loopback on: as soon as there are two to hear each other.
#pragma once

#include "app/softhca/core/device.hpp"

#include <memory>
#include <mutex>

namespace softhca::uverbs {

/// Of one port. Thread-safe. mlx5_core switches the loopback off when it takes over a device, and
/// mlx5_ib (mlx5_ib_enable_lb) on while there are two user contexts, each with a transport domain
/// of its own, or a QP that is to hear itself.
class LocalLoopback {
  public:
    enum class Use : uint8_t { context, self_hearing_qp };

    /// A transport domain that nobody else has.
    [[nodiscard]] core::Number new_domain();
    void add(Use use, core::Device& device) { change(use, 1, device); }
    void remove(Use use, core::Device& device) { change(use, -1, device); }

  private:
    void change(Use use, int by, core::Device& device);

    std::mutex mutex_;
    int contexts_ = 0, self_hearing_qps_ = 0;
    core::Number last_domain_ = 0xffffff; ///< beyond those that firmware commands make
};

/// One use of a port's loopback, while it lives.
class LoopbackUse {
  public:
    LoopbackUse(LocalLoopback& loopback, LocalLoopback::Use use, core::Device& device)
        : loopback_(loopback), use_(use), device_(device) {
        loopback_.add(use_, device_);
    }
    ~LoopbackUse() { loopback_.remove(use_, device_); }
    LoopbackUse(const LoopbackUse&) = delete;
    LoopbackUse& operator=(const LoopbackUse&) = delete;

  private:
    LocalLoopback& loopback_;
    LocalLoopback::Use use_;
    core::Device& device_;
};

} // namespace softhca::uverbs
