// SPDX-License-Identifier: BSD-3-Clause
// PPLM: the port's forward error correction (FEC).
#include "app/softhca/core/phy.hpp"
#include "app/softhca/prm/registers.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace softhca::prm {
namespace {

/// Where the register has the modes of a link, as masks.
struct Link {
    uint32_t speed_mbps;
    Field supported;
    Field wanted; ///< 0: the port chooses
};
constexpr std::array kLinks{
    Link{10000, PRM(pplm_reg, fec_override_cap_10g_40g), PRM(pplm_reg, fec_override_admin_10g_40g)},
    Link{25000, PRM(pplm_reg, fec_override_cap_25g), PRM(pplm_reg, fec_override_admin_25g)},
    Link{40000, PRM(pplm_reg, fec_override_cap_10g_40g), PRM(pplm_reg, fec_override_admin_10g_40g)},
    Link{50000, PRM(pplm_reg, fec_override_cap_50g), PRM(pplm_reg, fec_override_admin_50g)},
    Link{100000, PRM(pplm_reg, fec_override_cap_100g), PRM(pplm_reg, fec_override_admin_100g)},
    Link{200000, PRM(pplm_reg, fec_override_cap_200g_4x),
         PRM(pplm_reg, fec_override_admin_200g_4x)},
    // The header has no field for four lanes.
    Link{400000, PRM(pplm_reg, fec_override_cap_400g_8x),
         PRM(pplm_reg, fec_override_admin_400g_8x)}};
constexpr const Link& kLast25GLanes = kLinks[4];

bool has_fast_lanes(uint32_t speed_mbps) { return speed_mbps > kLast25GLanes.speed_mbps; }

/// A mode's bit. On lanes of 50 Gbit/s, RS is another code, RS(544,514). Source: Linux, enum
/// mlx5e_fec_type.
uint32_t bit_of(core::Fec fec, uint32_t speed_mbps) {
    switch (fec) {
    case core::Fec::off: return 0;
    case core::Fec::base_r: return 1;
    case core::Fec::rs: return has_fast_lanes(speed_mbps) ? 7 : 2;
    }
    return 0;
}

uint64_t mask_of(core::Fec fec, uint32_t speed_mbps) {
    return uint64_t{1} << bit_of(fec, speed_mbps);
}

/// The mode that was written, if the port supports it. For lanes of 50 Gbit/s Linux 6.1 writes a
/// mask as for all others, and later versions the number of its bit (mlx5e_fec_admin_field()).
std::optional<core::Fec> mode_of(uint64_t wanted, uint32_t speed_mbps) {
    for (const core::Fec fec : core::kFecs) {
        const bool is_number = has_fast_lanes(speed_mbps) && wanted == bit_of(fec, speed_mbps);
        if (core::has_fec(speed_mbps, fec) && (is_number || wanted == mask_of(fec, speed_mbps)))
            return fec;
    }
    return {};
}

} // namespace

FwStatus port_fec(Firmware& firmware, bool write, Fields reg) {
    const uint32_t speed = firmware.link_mbps;
    const auto* const link = std::ranges::find(kLinks, speed, &Link::speed_mbps);
    const bool has_choice = link != kLinks.end();
    if (write) {
        const uint64_t wanted = has_choice ? reg.get(link->wanted) : 0;
        if (wanted != 0 && !mode_of(wanted, speed)) return FwStatus::bad_parameter;
        firmware.wanted_fec = wanted;
    }
    const core::Fec active = mode_of(firmware.wanted_fec, speed).value_or(core::usual_fec(speed));
    reg.set(PRM(pplm_reg, fec_mode_active), firmware.device.link_up() ? mask_of(active, speed) : 0);
    if (!has_choice) return FwStatus::ok;
    uint64_t modes = 0;
    for (const core::Fec fec : core::kFecs)
        if (core::has_fec(speed, fec)) modes |= mask_of(fec, speed);
    reg.set(link->supported, modes);
    reg.set(link->wanted, mode_of(firmware.wanted_fec, speed) ? firmware.wanted_fec : 0);
    // Linux lets a user choose RS where any link supports the code for slower lanes.
    if (has_fast_lanes(speed))
        reg.set(kLast25GLanes.supported, mask_of(core::Fec::rs, kLast25GLanes.speed_mbps));
    return FwStatus::ok;
}

} // namespace softhca::prm
