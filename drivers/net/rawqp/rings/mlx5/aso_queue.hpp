// SPDX-License-Identifier: BSD-3-Clause
// A send queue for WQEs that change ASO objects of the device.
#pragma once

#include "common/mlx5/aso.hpp"
#include "common/result.hpp"
#include "common/verbs/handles.hpp"
#include "drivers/net/rawqp/rings/mlx5/cq.hpp"

#include <memory>

namespace rawqp::mlx5rings {

/// One request at a time, each awaited. Control threads only. Outlives neither PD nor context.
class AsoQueue {
  public:
    /// The PD is the one that the objects name. Errors say which step failed, with verbs' errno.
    [[nodiscard]] static Result<std::unique_ptr<AsoQueue>>
    make(const verbs::Api& api, ibv_context* context, ibv_pd* pd, uint8_t ib_port);

    /// Gives one of the two meters of an object these parameters and full buckets.
    [[nodiscard]] Result<void> write(uint32_t object, unsigned place,
                                     const mlx5::MeterParams& parameters);

  private:
    AsoQueue() = default;
    [[nodiscard]] Result<void> map(const verbs::Api& api);
    [[nodiscard]] Result<void> make_ready(const verbs::Api& api, uint8_t ib_port) const;
    struct Wqe;
    void post(const Wqe& wqe);
    [[nodiscard]] Result<void> wait(uint32_t object);

    verbs::CqEx cq_;
    verbs::Qp qp_;
    Cq completions_;
    uint8_t* wqes_ = nullptr;
    uint32_t wqebb_mask_ = 0;
    uint32_t producer_ = 0; ///< in WQEBBs, counts without end; 16 bits reach the device
    mlx5::QueueDoorbell* record_ = nullptr;
    uint8_t* register_ = nullptr;
    uint32_t register_size_ = 0;   ///< of one of its two buffers; 0: there is one
    uint32_t register_offset_ = 0; ///< of the buffer to write next
};

} // namespace rawqp::mlx5rings
