// SPDX-License-Identifier: BSD-3-Clause
// When mlx5_ib switches a port's local loopback on: as soon as two users could receive from each
// other.
#pragma once

#include "app/softhca/core/device.hpp"

#include <memory>
#include <mutex>

namespace softhca::uverbs {

/// State for one port. Thread-safe. mlx5_core switches the loopback off when it takes over a
/// device. mlx5_ib (mlx5_ib_enable_lb) switches it on while there are two user contexts, each with
/// its own transport domain, or a QP that is to receive its own packets.
class LocalLoopback {
  public:
    enum class Use : uint8_t { context, self_hearing_qp };

    /// A unique transport domain.
    [[nodiscard]] core::Number new_domain();
    void add(Use use, core::Device& device) { change(use, 1, device); }
    void remove(Use use, core::Device& device) { change(use, -1, device); }

  private:
    void change(Use use, int by, core::Device& device);

    std::mutex mutex_;
    int contexts_ = 0, self_hearing_qps_ = 0;
    core::Number last_domain_ = 0xffffff; ///< beyond those that firmware commands create
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
