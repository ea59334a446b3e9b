// SPDX-License-Identifier: BSD-3-Clause
// The driver's device arguments; driver/devargs.cpp parses and checks them.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"

#include <cstdint>
#include <string>

namespace rawqp {

/// How the device is asked for rules: see steering/engine.hpp.
enum class FlowEngine : uint8_t { automatic, verbs, mlx5 };

/// Whether Rx CQEs may be compressed; automatic: those of striding queues.
enum class CqeCompression : uint8_t { automatic, off, on };

/// A key that differs from the name of its member is in the comment; the guide explains them all.
struct Devargs {
    std::string device; ///< RDMA device name; empty when iface is given
    uint8_t port = 0;   ///< RDMA port, 1-based; 0: the only or first one
    std::string iface;
    std::string datapath = "auto";
    FlowEngine flow_engine = FlowEngine::automatic;
    bool port_guard = false; ///< rules reserve the kernel's TCP and UDP ports that they take
    CqeCompression cqe_comp = CqeCompression::automatic; ///< where the format and the device can
    bool real_time = false;                   ///< rx_timestamp=real: nanoseconds rather than ticks
    uint16_t lro_period = 0;                  ///< lro_timeout_usec
    bool multi_packet_rx = false;             ///< mprq_en: striding receive queues
    StridingSpec striding{.copy_bytes = 128}; ///< mprq_log_stride_num, _size, mprq_max_memcpy_len
    bool tx_multi_packet = true;              ///< txq_mpw
    uint16_t tx_inline_bytes = 0;             ///< txq_inline
    bool tx_blue_flame = false;               ///< txq_doorbell
    InlineMode tx_min_inline = InlineMode::automatic; ///< txq_inline_min
};

} // namespace rawqp
