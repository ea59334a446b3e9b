// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/mlx5/tx_send.hpp"

namespace rawqp::mlx5rings {
namespace {

constexpr TxOptions with_times(Inlining inlining, bool multi_packet) {
    TxOptions options{};
    options.multi_segment = options.offloads = options.long_headers = options.metadata =
        options.scheduled = true;
    options.inlining = inlining;
    options.multi_packet = multi_packet;
    return options;
}

} // namespace

Burst<eth_tx_burst_t> tx_scheduled_burst(Inlining inlining, bool multi_packet) {
    switch (inlining) {
    case Inlining::header: return kBurst<with_times(Inlining::header, false)>;
    case Inlining::packet:
        return multi_packet ? kBurst<with_times(Inlining::packet, true)>
                            : kBurst<with_times(Inlining::packet, false)>;
    case Inlining::none: break;
    }
    return multi_packet ? kBurst<with_times(Inlining::none, true)>
                        : kBurst<with_times(Inlining::none, false)>;
}

} // namespace rawqp::mlx5rings
