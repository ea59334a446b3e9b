// SPDX-License-Identifier: BSD-3-Clause
#include "common/netdev/netdev.hpp"

#include <linux/ethtool.h>

namespace netdev {
namespace {

/// Link modes of one speed with consecutive bits. Modes were added over time: those of one speed
/// are all over the mask.
struct ModeRange {
    unsigned first, last;
    uint32_t mbps;
};
constexpr ModeRange mode(unsigned bit, uint32_t mbps) { return {bit, bit, mbps}; }
#define BIT_OF(name) ETHTOOL_LINK_MODE_##name##_Full_BIT

/// Full duplex only; by speed.
constexpr ModeRange kModes[] = {
    mode(BIT_OF(10baseT), 10),
    mode(BIT_OF(100baseT), 100),
    mode(BIT_OF(100baseT1), 100),
    mode(BIT_OF(100baseFX), 100),
    mode(BIT_OF(1000baseT), 1000),
    mode(BIT_OF(1000baseKX), 1000),
    mode(BIT_OF(1000baseX), 1000),
    mode(BIT_OF(1000baseT1), 1000),
    mode(BIT_OF(2500baseX), 2500),
    mode(BIT_OF(2500baseT), 2500),
    mode(BIT_OF(5000baseT), 5000),
    mode(BIT_OF(10000baseT), 10000),
    {BIT_OF(10000baseKX4), BIT_OF(10000baseKR), 10000},
    {BIT_OF(10000baseCR), BIT_OF(10000baseER), 10000},
    {BIT_OF(20000baseMLD2), BIT_OF(20000baseKR2), 20000},
    {BIT_OF(25000baseCR), BIT_OF(25000baseSR), 25000},
    {BIT_OF(40000baseKR4), BIT_OF(40000baseLR4), 40000},
    {BIT_OF(50000baseCR2), BIT_OF(50000baseKR2), 50000},
    mode(BIT_OF(50000baseSR2), 50000),
    {BIT_OF(50000baseKR), BIT_OF(50000baseDR), 50000},
    {BIT_OF(56000baseKR4), BIT_OF(56000baseLR4), 56000},
    {BIT_OF(100000baseKR4), BIT_OF(100000baseLR4_ER4), 100000},
    {BIT_OF(100000baseKR2), BIT_OF(100000baseDR2), 100000},
    {BIT_OF(100000baseKR), BIT_OF(100000baseDR), 100000},
    {BIT_OF(200000baseKR4), BIT_OF(200000baseCR4), 200000},
    {BIT_OF(200000baseKR2), BIT_OF(200000baseCR2), 200000},
    {BIT_OF(400000baseKR8), BIT_OF(400000baseCR8), 400000},
    {BIT_OF(400000baseKR4), BIT_OF(400000baseCR4), 400000},
};
#undef BIT_OF

bool holds(std::span<const uint32_t> mask, const ModeRange& range) {
    for (unsigned bit = range.first; bit <= range.last && bit / 32 < mask.size(); ++bit)
        if ((mask[bit / 32] >> bit % 32 & 1) != 0) return true;
    return false;
}

struct FecBit {
    unsigned mode;
    uint32_t fec;
};
constexpr FecBit kFecs[] = {
    {ETHTOOL_LINK_MODE_FEC_NONE_BIT, ETHTOOL_FEC_OFF},
    {ETHTOOL_LINK_MODE_FEC_BASER_BIT, ETHTOOL_FEC_BASER},
    {ETHTOOL_LINK_MODE_FEC_RS_BIT, ETHTOOL_FEC_RS},
    {ETHTOOL_LINK_MODE_FEC_LLRS_BIT, ETHTOOL_FEC_LLRS},
};

} // namespace

std::vector<uint32_t> speeds_of_modes(std::span<const uint32_t> mask) {
    std::vector<uint32_t> speeds;
    for (const ModeRange& range : kModes)
        if (holds(mask, range) && (speeds.empty() || speeds.back() != range.mbps))
            speeds.push_back(range.mbps);
    return speeds;
}

uint32_t fec_of_modes(std::span<const uint32_t> mask) {
    uint32_t all = 0;
    for (const FecBit& bit : kFecs)
        if (holds(mask, {bit.mode, bit.mode, 0})) all |= bit.fec;
    return all;
}

} // namespace netdev
