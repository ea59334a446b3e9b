// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/phy.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <string>

namespace softhca::core {
namespace {

using Memory = std::array<uint8_t, kPlugBytes>;

constexpr std::string_view kVendor = "softhca", kRevision = "1", kDate = "260101";
constexpr uint8_t kCopperMetres = 1, kCannotSeparate = 0x23; // the connector

// SFF-8024: identifiers, and codes of extended specification compliance.
constexpr uint8_t kSfp = 0x03, kQsfpPlus = 0x0d, kQsfp28OrLater = 0x11;
constexpr uint8_t k25GbaudLanesRs = 0x0b; // 25GBASE-CR, 50GBASE-CR2 or 100GBASE-CR4, with RS-FEC
constexpr uint8_t k50GLanes = 0x40;       // 50GBASE-CR, 100GBASE-CR2 or 200GBASE-CR4
constexpr uint8_t k100GLanes = 0x3f;      // 100GBASE-CR1, 200GBASE-CR2 or 400GBASE-CR4
// Compliance with Ethernet: SFF-8472, byte 6; SFF-8636, byte 131.
constexpr uint8_t k1000BaseCx = 0x04, k40GBaseCr4 = 0x08, kExtended = 0x80;

using enum PlugKind;
/// All can be read by SFF-8636 or SFF-8472, which every driver supports: plugs of copper cables for
/// 200 and 400 Gbit/s come with that as well as with CMIS.
constexpr std::array kPlugs{
    Plug{1000, "1G-CX", sfp, kSfp, k1000BaseCx, 0, 1, 1250},
    Plug{10000, "10G-CR", sfp, kSfp, 0, 0, 1, 10313},
    Plug{25000, "25G-CR", sfp, kSfp, 0, k25GbaudLanesRs, 1, 25781},
    Plug{40000, "40G-CR4", qsfp, kQsfpPlus, k40GBaseCr4, 0, 4, 10313},
    Plug{50000, "50G-CR2", qsfp, kQsfp28OrLater, kExtended, k25GbaudLanesRs, 2, 25781},
    Plug{100000, "100G-CR4", qsfp, kQsfp28OrLater, kExtended, k25GbaudLanesRs, 4, 25781},
    Plug{200000, "200G-CR4", qsfp, kQsfp28OrLater, kExtended, k50GLanes, 4, 26563},
    Plug{400000, "400G-CR4", qsfp, kQsfp28OrLater, kExtended, k100GLanes, 4, 53125},
};

void put_text(Memory& memory, size_t at, size_t length, std::string_view text) {
    std::fill_n(memory.begin() + static_cast<ptrdiff_t>(at), length, ' ');
    text.copy(reinterpret_cast<char*>(memory.data()) + at, length);
}

/// The low byte of the sum of [first, at), as both specifications require.
void put_checksum(Memory& memory, size_t first, size_t at) {
    memory[at] = std::accumulate(memory.begin() + static_cast<ptrdiff_t>(first),
                                 memory.begin() + static_cast<ptrdiff_t>(at), uint8_t{0});
}

uint8_t rounded(uint32_t mbaud, uint32_t unit) {
    return static_cast<uint8_t>((mbaud + unit / 2) / unit);
}

/// A lane's baud rate is given in units of 100 MBd or, where it is too high for that, at
/// `elsewhere` in units of 250 MBd.
void put_baud_rate(Memory& memory, uint32_t mbaud, size_t at, size_t elsewhere) {
    constexpr uint8_t kElsewhere = 0xff;
    const bool fits = mbaud < kElsewhere * 100;
    memory[at] = fits ? rounded(mbaud, 100) : kElsewhere;
    memory[elsewhere] = fits ? uint8_t{0} : rounded(mbaud, 250);
}

Memory qsfp_memory(const Plug& plug, std::string_view serial) {
    Memory memory{};
    memory[0] = memory[128] = plug.identifier;
    memory[1] = 0x08; // SFF-8636 rev 2.8 to 2.10
    memory[2] = 0x04; // flat memory: no pages but 00h
    memory[113] =
        static_cast<uint8_t>(0x0f & ~((1u << plug.lanes) - 1)); // lanes that are not there
    memory[130] = kCannotSeparate;
    memory[131] = plug.compliance;
    put_baud_rate(memory, plug.lane_mbaud, 140, 222);
    memory[146] = kCopperMetres;
    memory[147] = 0xa0; // copper cable, not equalized
    put_text(memory, 148, 16, kVendor);
    put_text(memory, 168, 16, plug.name);
    put_text(memory, 184, 2, kRevision);
    put_checksum(memory, 128, 191);
    memory[192] = plug.extended;
    put_text(memory, 196, 16, serial);
    put_text(memory, 212, 8, kDate);
    put_checksum(memory, 192, 223);
    return memory;
}

Memory sfp_memory(const Plug& plug, std::string_view serial) {
    Memory memory{};
    memory[0] = plug.identifier;
    memory[1] = 0x04; // identified by this two-wire interface alone
    memory[2] = kCannotSeparate;
    memory[6] = plug.compliance;
    memory[8] = 0x04; // passive cable
    put_baud_rate(memory, plug.lane_mbaud, 12, 66);
    memory[18] = kCopperMetres;
    put_text(memory, 20, 16, kVendor);
    memory[36] = plug.extended;
    put_text(memory, 40, 16, plug.name);
    put_text(memory, 56, 4, kRevision);
    put_checksum(memory, 0, 63);
    put_text(memory, 68, 16, serial);
    put_text(memory, 84, 8, kDate);
    put_checksum(memory, 64, 95);
    return memory;
}

} // namespace

bool has_fec(uint32_t speed_mbps, Fec fec) {
    switch (fec) {
    case Fec::off: return speed_mbps < 200000; // lanes of 50 Gbit/s do not work without
    case Fec::base_r: return speed_mbps >= 10000 && speed_mbps <= 50000;
    case Fec::rs: return speed_mbps >= 25000 && speed_mbps != 40000;
    }
    return false;
}

Fec usual_fec(uint32_t speed_mbps) { return has_fec(speed_mbps, Fec::rs) ? Fec::rs : Fec::off; }

const Plug& plug(uint32_t speed_mbps) {
    const auto* const found = std::ranges::lower_bound(kPlugs, speed_mbps, {}, &Plug::speed_mbps);
    return found != kPlugs.end() ? *found : kPlugs.back();
}

Memory plug_memory(const Plug& plug, const std::array<uint8_t, 6>& mac) {
    const std::string serial = fmt::format("{:02x}", fmt::join(mac, ""));
    return plug.kind == PlugKind::qsfp ? qsfp_memory(plug, serial) : sfp_memory(plug, serial);
}

} // namespace softhca::core
