// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/phy.hpp"

#include <algorithm>
#include <numeric>

namespace softhca::core {
namespace {

using Memory = std::array<uint8_t, kPlugBytes>;

constexpr std::string_view kVendor = "softhca", kRevision = "1", kDate = "260101";
constexpr uint8_t kCopperMetres = 1;
/// SFF-8024, table 4-4, extended specification compliance.
constexpr uint8_t kCr4OrCaL = 0x0b; // 100GBASE-CR4, or 25GBASE-CR with RS-FEC
/// Bit rates are told in units of 100 MBd; this says that they are told elsewhere.
constexpr uint8_t kRateElsewhere = 0xff;

void put_text(Memory& memory, size_t at, size_t length, std::string_view text) {
    std::fill_n(memory.begin() + static_cast<ptrdiff_t>(at), length, ' ');
    text.copy(reinterpret_cast<char*>(memory.data()) + at, length);
}

/// The low byte of the sum of [first, at), as both specifications have it.
void put_checksum(Memory& memory, size_t first, size_t at) {
    memory[at] = std::accumulate(memory.begin() + static_cast<ptrdiff_t>(first),
                                 memory.begin() + static_cast<ptrdiff_t>(at), uint8_t{0});
}

uint8_t baud_rate(uint32_t lane_mbps) {
    return lane_mbps > 10000 ? kRateElsewhere : static_cast<uint8_t>(lane_mbps / 100);
}

Memory qsfp(uint32_t speed_mbps, std::string_view serial) {
    Memory memory{};
    memory[0] = memory[128] = 0x11;                  // identifier: QSFP28
    memory[1] = 0x08;                                // SFF-8636 rev 2.8 to 2.10
    memory[2] = 0x04;                                // flat memory: no pages but 00h
    memory[130] = 0x23;                              // connector: none that separates
    memory[131] = speed_mbps == 40000 ? 0x08 : 0x80; // 40GBASE-CR4, or see byte 192
    memory[140] = baud_rate(speed_mbps / 4);
    memory[146] = kCopperMetres;
    memory[147] = 0xa0; // copper cable, not equalized
    put_text(memory, 148, 16, kVendor);
    put_text(memory, 168, 16, speed_mbps == 40000 ? "40G-CR4" : "100G-CR4");
    put_text(memory, 184, 2, kRevision);
    put_checksum(memory, 128, 191);
    memory[192] = speed_mbps == 40000 ? 0 : kCr4OrCaL;
    put_text(memory, 196, 16, serial);
    put_text(memory, 212, 8, kDate);
    put_checksum(memory, 192, 223);
    return memory;
}

Memory sfp(uint32_t speed_mbps, std::string_view serial) {
    Memory memory{};
    memory[0] = 0x03; // identifier: SFP, SFP+ or SFP28
    memory[1] = 0x04; // known by this two-wire interface alone
    memory[2] = 0x23; // connector: none that separates
    memory[8] = 0x04; // passive cable
    memory[12] = baud_rate(speed_mbps);
    memory[18] = kCopperMetres;
    put_text(memory, 20, 16, kVendor);
    memory[36] = speed_mbps == 25000 ? kCr4OrCaL : 0;
    put_text(memory, 40, 16, speed_mbps == 25000 ? "25G-CR" : "10G-CR");
    put_text(memory, 56, 4, kRevision);
    put_checksum(memory, 0, 63);
    memory[66] = speed_mbps == 25000 ? 103 : 0; // in units of 250 MBd
    put_text(memory, 68, 16, serial);
    put_text(memory, 84, 8, kDate);
    put_checksum(memory, 64, 95);
    return memory;
}

} // namespace

bool has_fec(uint32_t speed_mbps, Fec fec) {
    switch (fec) {
    case Fec::off: return true;
    case Fec::base_r: return speed_mbps >= 10000 && speed_mbps <= 50000;
    case Fec::rs: return speed_mbps >= 25000 && speed_mbps != 40000;
    }
    return false;
}

Fec usual_fec(uint32_t speed_mbps) { return has_fec(speed_mbps, Fec::rs) ? Fec::rs : Fec::off; }

PlugKind plug_kind(uint32_t speed_mbps) {
    return speed_mbps > 25000 ? PlugKind::qsfp : PlugKind::sfp;
}

Memory plug_memory(uint32_t speed_mbps, std::string_view serial) {
    return plug_kind(speed_mbps) == PlugKind::qsfp ? qsfp(speed_mbps, serial)
                                                   : sfp(speed_mbps, serial);
}

} // namespace softhca::core
