// SPDX-License-Identifier: BSD-3-Clause
// Large receive offload (RTE_ETH_RX_OFFLOAD_TCP_LRO): the device merges consecutive TCP segments of
// a flow. It is requested in TIRs, and the kernel makes none for hash QPs with it: rules lead to
// TIRs that the process makes itself.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/dpdk.hpp"

#include <array>
#include <optional>

namespace rawqp {

class Devx;

/// What the device can do.
struct LroCap {
    bool size_from_l2 = false;         ///< sizes count from the Ethernet header; else from TCP's
    bool tunnels = false;              ///< its TIRs can look into tunnels, as hash QPs do
    std::array<uint32_t, 4> periods{}; ///< microseconds, rising
};
/// Asks the device; a debug message says why it cannot.
[[nodiscard]] std::optional<LroCap> find_lro(Devx& devx);

/// Longest packet that the device is asked to make.
inline constexpr uint32_t kMaxLroPacket = 255 * 256;

/// How a TIR merges packets.
struct LroTerms {
    uint16_t period = 0; ///< microseconds that a packet may wait for more
    uint8_t units = 0;   ///< most, of 256 bytes, as the device counts
    bool tunnels = false;
};
/// Packets of up to `bytes`, without FCS; `period` selects the longest of the device's periods that
/// is not longer, or its shortest.
[[nodiscard]] LroTerms lro_terms(const LroCap& cap, uint32_t bytes, uint32_t period);

/// ENOTSUP names what in the configuration is incompatible with LRO.
[[nodiscard]] Result<void> check_lro(uint64_t rx_offloads);

} // namespace rawqp
