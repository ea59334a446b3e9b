// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/mlx5/tx_send.hpp"

namespace rawqp::mlx5rings {

Burst<eth_tx_burst_t> tx_scheduled_burst(Inlining inlining, bool multi_packet) {
    constexpr TxOptions kOptions{.multi_segment = true,
                                 .offloads = true,
                                 .long_headers = true,
                                 .metadata = true,
                                 .scheduled = true};
    return burst_with<kOptions>(inlining, multi_packet);
}

} // namespace rawqp::mlx5rings
