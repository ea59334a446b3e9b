// SPDX-License-Identifier: BSD-3-Clause
// Ethernet speeds as RDMA reports them: an IB speed and a width whose product is the port's rate.
#pragma once

#include <cstdint>
#include <fmt/format.h>
#include <string>

namespace softhca {

struct LinkRate {
    uint8_t speed, width; ///< codes of ib_query_port
};

/// As mlx5_ib translates Ethernet speeds.
[[nodiscard]] constexpr LinkRate link_rate(uint32_t mbps) {
    constexpr uint8_t kSdr = 1, kQdr = 4, kEdr = 32, kHdr = 64, kNdr = 128, k1x = 1, k4x = 2;
    switch (mbps) {
    case 1000: return {kSdr, k1x};
    case 10000: return {kQdr, k1x};
    case 25000: return {kEdr, k1x};
    case 40000: return {kQdr, k4x};
    case 50000: return {kHdr, k1x};
    case 200000: return {kHdr, k4x};
    case 400000: return {kNdr, k4x};
    default: return {kEdr, k4x};
    }
}

/// The line of a port's file `rate`: "100 Gb/sec (4X EDR)".
[[nodiscard]] inline std::string rate_text(uint32_t mbps) {
    const LinkRate rate = link_rate(mbps);
    const bool wide = rate.width == 2;
    const char* width = wide ? "4X" : "1X";
    switch (rate.speed) {
    case 1: return fmt::format("{} Gb/sec ({} SDR)", wide ? "10" : "2.5", width);
    case 4: return fmt::format("{} Gb/sec ({} QDR)", wide ? 40 : 10, width);
    case 64: return fmt::format("{} Gb/sec ({} HDR)", wide ? 200 : 50, width);
    case 128: return fmt::format("{} Gb/sec ({} NDR)", wide ? 400 : 100, width);
    default: return fmt::format("{} Gb/sec ({} EDR)", wide ? 100 : 25, width);
    }
}

} // namespace softhca
