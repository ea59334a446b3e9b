// SPDX-License-Identifier: BSD-3-Clause
// What a port is beside its frames: error correction, and the memory of the cable's plug.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace softhca::core {

/// Forward error correction: none, clause 74 (BASE-R), clause 91 (RS).
enum class Fec : uint8_t { off, base_r, rs };
inline constexpr std::array kFecs{Fec::off, Fec::base_r, Fec::rs};

/// What a port of that speed can be set to, and what it does by itself over a copper cable.
[[nodiscard]] bool has_fec(uint32_t speed_mbps, Fec fec);
[[nodiscard]] Fec usual_fec(uint32_t speed_mbps);

/// The form of the plug, which decides how its memory is laid out.
enum class PlugKind : uint8_t { sfp, qsfp };
[[nodiscard]] PlugKind plug_kind(uint32_t speed_mbps);

inline constexpr size_t kPlugBytes = 256;
/// Memory of a passive copper cable of 1 m that suits the speed: SFF-8636 page 00h of a QSFP28
/// plug, or SFF-8472 address A0h of an SFP28 plug (A2h, diagnostics, is not there). The field
/// offsets in phy.cpp are those of SFF-8636 rev 2.10a and SFF-8472 rev 12.4.
[[nodiscard]] std::array<uint8_t, kPlugBytes> plug_memory(uint32_t speed_mbps,
                                                          std::string_view serial);

} // namespace softhca::core
