// SPDX-License-Identifier: BSD-3-Clause
// What the mapped rings need to know of the device as a whole. Control path.
#pragma once

#include "common/verbs/api.hpp"

#include <string>

namespace rawqp::mlx5rings {

/// Why these rings cannot drive the device, in a clause; empty: they can.
[[nodiscard]] std::string reject(const verbs::Api& api, ibv_context* context);

/// What send WQEs may or must look like.
struct TxAbilities {
    /// They must carry the Ethernet header inline: the ConnectX-4 family steers and tags by it.
    /// Later devices read it from memory. True for unknown devices, as every device accepts it.
    bool needs_inline_header = true;
    bool multi_packet = false; ///< eMPW: one WQE for several packets
    bool vxlan = false;        ///< finds the headers inside a VXLAN tunnel
};
[[nodiscard]] TxAbilities tx_abilities(const verbs::Api& api, ibv_context* context,
                                       uint32_t vendor_part_id);

/// RingFormat::rx_hash_qp: on devices that look into tunnels, CQEs describe what those carry.
[[nodiscard]] ibv_qp* rx_hash_qp(const verbs::Api& api, ibv_context* context,
                                 ibv_qp_init_attr_ex& attributes);

} // namespace rawqp::mlx5rings
