// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/ethtool.hpp"

#include "app/softhca/identity.hpp"
#include "app/softhca/uverbs/ethtool_counters.hpp"
#include "app/softhca/uverbs/ethtool_phy.hpp"
#include "app/softhca/uverbs/runtime.hpp"
#include "app/softhca/uverbs/user_memory.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <linux/ethtool.h>
#include <linux/net_tstamp.h>

namespace softhca::uverbs {
namespace {

template <class T> T* checked(void* command, bool write) {
    return is_mapped(command, sizeof(T), write) ? static_cast<T*>(command) : nullptr;
}

/// The link mode bit of a speed, if the 32 bits of the old interface have one.
uint32_t legacy_mode(uint32_t mbps) {
    switch (mbps) {
    case 1000: return SUPPORTED_1000baseKX_Full;
    case 10000: return SUPPORTED_10000baseKR_Full;
    case 40000: return SUPPORTED_40000baseCR4_Full;
    default: return 0;
    }
}

struct LinkMode {
    uint32_t mbps;
    int bit;
};
constexpr std::array kLinkModes{
    LinkMode{1000, ETHTOOL_LINK_MODE_1000baseKX_Full_BIT},
    LinkMode{10000, ETHTOOL_LINK_MODE_10000baseKR_Full_BIT},
    LinkMode{25000, ETHTOOL_LINK_MODE_25000baseCR_Full_BIT},
    LinkMode{40000, ETHTOOL_LINK_MODE_40000baseCR4_Full_BIT},
    LinkMode{50000, ETHTOOL_LINK_MODE_50000baseCR2_Full_BIT},
    LinkMode{100000, ETHTOOL_LINK_MODE_100000baseCR4_Full_BIT},
    LinkMode{200000, ETHTOOL_LINK_MODE_200000baseCR4_Full_BIT},
    LinkMode{400000, ETHTOOL_LINK_MODE_400000baseCR4_Full_BIT},
};

int get_settings(const Port& port, ethtool_cmd& out) {
    const uint32_t mode = legacy_mode(port.config.speed_mbps);
    out = {};
    out.cmd = ETHTOOL_GSET;
    out.supported = out.advertising = mode;
    ethtool_cmd_speed_set(&out, port.link_up() ? port.config.speed_mbps
                                               : static_cast<uint32_t>(SPEED_UNKNOWN));
    out.duplex = port.link_up() ? DUPLEX_FULL : DUPLEX_UNKNOWN;
    out.port = PORT_DA;
    out.autoneg = AUTONEG_ENABLE;
    return 0;
}

int get_link_settings(const Port& port, ethtool_link_settings& out) {
    constexpr int8_t kWords = (__ETHTOOL_LINK_MODE_MASK_NBITS + 31) / 32;
    const int8_t asked = out.link_mode_masks_nwords;
    out = {};
    out.cmd = ETHTOOL_GLINKSETTINGS;
    if (asked != kWords) { // the handshake of this command: return the number of words
        out.link_mode_masks_nwords = -kWords;
        return 0;
    }
    constexpr size_t kMaskBytes = 3 * kWords * sizeof(uint32_t);
    uint32_t* const masks = out.link_mode_masks; // supported, advertising, of the partner
    const auto set = [&](int mask, int bit) {
        masks[mask * kWords + bit / 32] |= 1u << (bit % 32);
    };
    if (!is_mapped(masks, kMaskBytes, true)) return EFAULT;
    std::memset(masks, 0, kMaskBytes);
    // A port also supports lower speeds.
    for (const LinkMode& mode : kLinkModes)
        for (int mask = 0; mask < 2 && mode.mbps <= port.config.speed_mbps; mask++)
            set(mask, mode.bit);
    for (const core::Fec fec : core::kFecs)
        if (core::has_fec(port.config.speed_mbps, fec)) set(0, fec_link_mode(fec));
    set(1, fec_link_mode(active_fec(port)));
    out.link_mode_masks_nwords = kWords;
    out.speed = port.link_up() ? port.config.speed_mbps : static_cast<uint32_t>(SPEED_UNKNOWN);
    out.duplex = port.link_up() ? DUPLEX_FULL : DUPLEX_UNKNOWN;
    out.port = PORT_DA;
    out.autoneg = AUTONEG_ENABLE;
    return 0;
}

int get_driver(const Port& port, ethtool_drvinfo& out) {
    out = {};
    out.cmd = ETHTOOL_GDRVINFO;
    std::strncpy(out.driver, "mlx5_core", sizeof out.driver - 1);
    std::strncpy(out.version, "softhca", sizeof out.version - 1);
    std::strncpy(out.bus_info, port.config.pci.c_str(), sizeof out.bus_info - 1);
    const auto firmware =
        fmt::format("{}.{}.{:04}", kFirmwareMajor, kFirmwareMinor, kFirmwareSubminor);
    std::strncpy(out.fw_version, firmware.c_str(), sizeof out.fw_version - 1);
    out.n_stats = kEthtoolCounters;
    return 0;
}

int get_counter_names(ethtool_gstrings& out) {
    if (out.string_set != ETH_SS_STATS) return EOPNOTSUPP;
    if (!is_mapped(out.data, kEthtoolCounters * ETH_GSTRING_LEN, true)) return EFAULT;
    out.len = kEthtoolCounters;
    std::memset(out.data, 0, kEthtoolCounters * ETH_GSTRING_LEN);
    char* to = reinterpret_cast<char*>(out.data);
    for (const NamedCounter& counter : ethtool_counters({}, {})) {
        counter.name.copy(to, ETH_GSTRING_LEN - 1);
        to += ETH_GSTRING_LEN;
    }
    return 0;
}

int get_counters(const Port& port, ethtool_stats& out) {
    if (!is_mapped(out.data, kEthtoolCounters * sizeof(uint64_t), true)) return EFAULT;
    const core::Device* device = port.device.load();
    const auto now = device ? ethtool_counters(device->counters(), device->frame_counters())
                            : ethtool_counters({}, {});
    out.n_stats = kEthtoolCounters;
    std::ranges::transform(now, out.data, &NamedCounter::value);
    return 0;
}

int get_set_sizes(ethtool_sset_info& out) {
    const uint64_t asked = out.sset_mask;
    out.reserved = 0;
    out.sset_mask = asked & (1u << ETH_SS_STATS);
    if (!out.sset_mask) return 0;
    if (!is_mapped(out.data, sizeof(uint32_t), true)) return EFAULT;
    out.data[0] = kEthtoolCounters;
    return 0;
}

int get_timestamping(ethtool_ts_info& out) {
    out = {};
    out.cmd = ETHTOOL_GET_TS_INFO;
    out.so_timestamping = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
    out.phc_index = -1; // no PTP clock
    return 0;
}

int get_channels(ethtool_channels& out) {
    out = {};
    out.cmd = ETHTOOL_GCHANNELS;
    out.max_combined = out.combined_count = 1;
    return 0;
}

template <class T, class Answer> int answer_with(void* command, Answer&& answer) {
    T* out = checked<T>(command, true);
    return out ? answer(*out) : EFAULT;
}

} // namespace

std::optional<int> ethtool(Port& port, void* command) {
    const auto* number = checked<uint32_t>(command, false);
    if (!number) return EFAULT;
    switch (*number) {
    case ETHTOOL_GSET:
        return answer_with<ethtool_cmd>(command,
                                        [&](auto& out) { return get_settings(port, out); });
    case ETHTOOL_GLINKSETTINGS:
        return answer_with<ethtool_link_settings>(
            command, [&](auto& out) { return get_link_settings(port, out); });
    case ETHTOOL_GDRVINFO:
        return answer_with<ethtool_drvinfo>(command,
                                            [&](auto& out) { return get_driver(port, out); });
    case ETHTOOL_GSTRINGS: return answer_with<ethtool_gstrings>(command, get_counter_names);
    case ETHTOOL_GSTATS:
        return answer_with<ethtool_stats>(command,
                                          [&](auto& out) { return get_counters(port, out); });
    case ETHTOOL_GSSET_INFO: return answer_with<ethtool_sset_info>(command, get_set_sizes);
    case ETHTOOL_GPAUSEPARAM:
        return answer_with<ethtool_pauseparam>(command,
                                               [&](auto& out) { return get_pause(port, out); });
    case ETHTOOL_SPAUSEPARAM:
        return answer_with<ethtool_pauseparam>(command,
                                               [&](auto& in) { return set_pause(port, in); });
    case ETHTOOL_GFECPARAM:
        return answer_with<ethtool_fecparam>(command,
                                             [&](auto& out) { return get_fec(port, out); });
    case ETHTOOL_SFECPARAM:
        return answer_with<ethtool_fecparam>(command, [&](auto& in) { return set_fec(port, in); });
    case ETHTOOL_GMODULEINFO:
        return answer_with<ethtool_modinfo>(command,
                                            [&](auto& out) { return get_module_info(port, out); });
    case ETHTOOL_GMODULEEEPROM:
        return answer_with<ethtool_eeprom>(command,
                                           [&](auto& out) { return get_module_eeprom(port, out); });
    case ETHTOOL_PHYS_ID: return answer_with<ethtool_value>(command, identify);
    case ETHTOOL_GLINK:
        return answer_with<ethtool_value>(command, [&](auto& out) {
            out.data = port.link_up();
            return 0;
        });
    default: break;
    }
    if (port.netdev.is_tap()) return std::nullopt;
    switch (*number) {
    case ETHTOOL_GET_TS_INFO: return answer_with<ethtool_ts_info>(command, get_timestamping);
    case ETHTOOL_GCHANNELS: return answer_with<ethtool_channels>(command, get_channels);
    default: return EOPNOTSUPP;
    }
}

} // namespace softhca::uverbs
