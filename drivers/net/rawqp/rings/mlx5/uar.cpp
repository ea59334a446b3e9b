// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/mlx5/uar.hpp"

namespace rawqp::mlx5rings {

constinit RegisterTable tx_registers{};
constinit RegisterTable cq_registers{};

} // namespace rawqp::mlx5rings
