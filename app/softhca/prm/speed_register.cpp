// SPDX-License-Identifier: BSD-3-Clause
// PTYS: the port's speeds. It has its own and all lower ones, of which its driver chooses.
#include "app/softhca/prm/registers.hpp"

#include <array>

namespace softhca::prm {
namespace {

/// A speed's bit in the register (Linux: enum mlx5e_link_mode, enum mlx5e_ext_link_mode). The
/// extended ones are also for ports that are faster than the others cover.
struct Speed {
    uint32_t mbps, plain, extended;
};
constexpr std::array kSpeeds{
    Speed{1000, 1u << 1, 1u << 1},    // 1000BASE-KX
    Speed{10000, 1u << 12, 1u << 4},  // 10GBASE-CR
    Speed{25000, 1u << 27, 1u << 6},  // 25GBASE-CR
    Speed{40000, 1u << 6, 1u << 5},   // 40GBASE-CR4
    Speed{50000, 1u << 30, 1u << 7},  // 50GBASE-CR2
    Speed{100000, 1u << 20, 1u << 9}, // 100GBASE-CR4
    Speed{200000, 0, 1u << 12},       // 200GBASE-CR4
    Speed{400000, 0, 1u << 16},       // 400GBASE-CR4
};

/// Bits of speeds, as PTYS has them.
struct Modes {
    uint32_t plain = 0, extended = 0;
};
template <class Chosen> Modes modes(bool extended, const Chosen& chosen) {
    Modes all;
    for (const Speed& speed : kSpeeds) {
        if (!chosen(speed)) continue;
        all.plain |= speed.plain;
        if (extended) all.extended |= speed.extended;
    }
    return all;
}

} // namespace

FwStatus port_type(Firmware& firmware, bool write, Fields reg) {
    constexpr Field kWanted = PRM(ptys_reg, eth_proto_admin),
                    kWantedExtended = PRM(ptys_reg, ext_eth_proto_admin);
    const bool extended = firmware.speed_mbps > 100000;
    const auto possible = [&](const Speed& speed) { return speed.mbps <= firmware.speed_mbps; };
    if (write) {
        const uint64_t plain = reg.get(kWanted), more = reg.get(kWantedExtended);
        uint32_t fastest = 0;
        for (const Speed& speed : kSpeeds)
            if (possible(speed) && ((speed.plain & plain) || (extended && (speed.extended & more))))
                fastest = speed.mbps;
        if (fastest == 0) return FwStatus::bad_parameter;
        firmware.wanted_speeds = {static_cast<uint32_t>(plain), static_cast<uint32_t>(more)};
        firmware.fixed_speed = reg.get(PRM(ptys_reg, an_disable_admin)) != 0;
        firmware.link_mbps = fastest;
    }
    const Modes all = modes(extended, possible);
    const Modes now =
        modes(extended, [&](const Speed& speed) { return speed.mbps == firmware.link_mbps; });
    const auto [plain, more] = firmware.wanted_speeds;
    const bool up = firmware.device.link_up(), chosen = (plain | more) != 0;
    reg.set(PRM(ptys_reg, an_disable_cap), 1);
    reg.set(PRM(ptys_reg, an_disable_admin), firmware.fixed_speed);
    reg.set(PRM(ptys_reg, eth_proto_capability), all.plain);
    reg.set(kWanted, chosen ? plain & all.plain : all.plain);
    reg.set(PRM(ptys_reg, eth_proto_oper), up ? now.plain : 0);
    reg.set(PRM(ptys_reg, ext_eth_proto_capability), all.extended);
    reg.set(kWantedExtended, chosen ? more & all.extended : all.extended);
    reg.set(PRM(ptys_reg, ext_eth_proto_oper), up ? now.extended : 0);
    return FwStatus::ok;
}

} // namespace softhca::prm
