// SPDX-License-Identifier: BSD-3-Clause
// A port's physical side: error correction, and the memory of the cable's plug.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace softhca::core {

/// Forward error correction: none, clause 74 (BASE-R), clause 91 (RS).
enum class Fec : uint8_t { off, base_r, rs };
inline constexpr std::array kFecs{Fec::off, Fec::base_r, Fec::rs};

/// Which modes a port of that speed supports, and which it chooses itself over a copper cable.
[[nodiscard]] bool has_fec(uint32_t speed_mbps, Fec fec);
[[nodiscard]] Fec usual_fec(uint32_t speed_mbps);

/// The form factor of a plug, which determines the layout of its memory.
enum class PlugKind : uint8_t { sfp, qsfp };

/// A passive copper cable of 1 m that suits a speed: what its plugs report, and its number of
/// lanes.
struct Plug {
    uint32_t speed_mbps;
    std::string_view name; ///< part number
    PlugKind kind;
    uint8_t identifier; ///< SFF-8024, table 4-1
    uint8_t compliance; ///< with standards of Ethernet, a bit mask: depends on `kind`
    uint8_t extended;   ///< SFF-8024, table 4-4; 0: the mask has all
    uint8_t lanes;
    uint32_t lane_mbaud; ///< nominal
};
/// There is one for each configurable port speed; other speeds get that of the next higher one.
[[nodiscard]] const Plug& plug(uint32_t speed_mbps);

inline constexpr size_t kPlugBytes = 256;
/// The memory of a plug: SFF-8636 page 00h for QSFP, or SFF-8472 address A0h for SFP (A2h,
/// diagnostics, is absent). The field offsets in phy.cpp are those of SFF-8636 rev 2.10a and
/// SFF-8472 rev 12.4. `mac`: the port's own address, which is unique and so serves as the serial
/// number.
[[nodiscard]] std::array<uint8_t, kPlugBytes> plug_memory(const Plug& plug,
                                                          const std::array<uint8_t, 6>& mac);

} // namespace softhca::core
