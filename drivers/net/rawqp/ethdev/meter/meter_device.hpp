// SPDX-License-Identifier: BSD-3-Clause
// The meters of a device (ASO objects, through DevX): taking, returning and changing them.
#pragma once

#include "drivers/net/rawqp/ethdev/devx/devx.hpp"
#include "drivers/net/rawqp/ethdev/devx/meter.hpp"
#include "drivers/net/rawqp/ethdev/meter/error.hpp"
#include "drivers/net/rawqp/rings/mlx5/aso_queue.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace rawqp {

/// One meter: every object has two.
struct MeterSlot {
    uint32_t object = 0;
    uint8_t place = 0;
};

/// Control threads only. Nothing is requested of the device before the first call.
class MeterDevice {
  public:
    /// What the arguments name outlives this object.
    MeterDevice(const verbs::Api& api, Devx& devx, ibv_context* context, ibv_pd* pd,
                uint8_t ib_port)
        : api_(api), devx_(devx), context_(context), pd_(pd), ib_port_(ib_port) {}

    /// How many there can be. ENOTSUP: none.
    [[nodiscard]] MeterResult<uint32_t> most();
    /// Takes a free one; objects are made as many at a time as the device wants.
    [[nodiscard]] MeterResult<MeterSlot> take();
    void give_back(const MeterSlot& slot) { free_.push_back(slot); }
    /// Its buckets are full afterwards.
    [[nodiscard]] MeterResult<void> write(const MeterSlot& slot,
                                          const mlx5::MeterParams& parameters);

  private:
    /// Powers of two.
    struct Limits {
        uint8_t at_once, in_all;
    };
    [[nodiscard]] MeterResult<Limits> limits();
    [[nodiscard]] MeterResult<void> make_objects();

    const verbs::Api& api_;
    Devx& devx_;
    ibv_context* context_;
    ibv_pd* pd_;
    uint8_t ib_port_;
    std::optional<Limits> limits_;
    std::unique_ptr<mlx5rings::AsoQueue> queue_; ///< null: not needed so far, or broken
    std::vector<DevxObject> objects_;            ///< each for as many as are made at once
    std::vector<MeterSlot> free_;
};

} // namespace rawqp
