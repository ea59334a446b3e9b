// SPDX-License-Identifier: BSD-3-Clause
// Counts what a single WQ drops for lack of receive descriptors.
#pragma once

#include "drivers/net/rawqp/ethdev/devx/devx.hpp"

namespace rawqp {

/// A Q counter of the device, bound to one WQ. The drops of a WQ without one go to the kernel
/// driver's counter for all users of the RDMA port: its `out_of_buffer`.
class QCounter {
  public:
    /// Takes one of the device's 255. Stays empty if the kernel allows no DevX or none is left.
    QCounter(const verbs::Api& api, ibv_context* context);

    [[nodiscard]] explicit operator bool() const { return bool(object_); }
    /// From now on the WQ, which is ready, is counted here. The kernel's driver takes it back each
    /// time it makes the WQ ready. 0 or an errno value. Any thread.
    [[nodiscard]] int bind(ibv_wq* wq) const;
    /// Drops since the last call; 0 as well when the device does not answer. One thread at a time.
    [[nodiscard]] uint32_t take();

  private:
    Devx devx_;
    DevxObject object_;
    uint32_t seen_ = 0; ///< the counter, which wraps around, at the last call
};

} // namespace rawqp
