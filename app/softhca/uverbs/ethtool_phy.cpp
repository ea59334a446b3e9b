// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/ethtool_phy.hpp"

#include "app/softhca/uverbs/paths.hpp"
#include "app/softhca/uverbs/runtime.hpp"
#include "app/softhca/uverbs/small_file.hpp"
#include "app/softhca/uverbs/user_memory.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <ctime>
#include <fstream>
#include <optional>
#include <string>

namespace softhca::uverbs {
namespace {

/// The bit of ethtool_fecparam for a mode.
uint32_t fec_bit(core::Fec fec) {
    switch (fec) {
    case core::Fec::off: return ETHTOOL_FEC_OFF;
    case core::Fec::base_r: return ETHTOOL_FEC_BASER;
    case core::Fec::rs: return ETHTOOL_FEC_RS;
    }
    return 0;
}

/// The file with the setting, for later programs, too. Next to the device files, but not visible
/// there.
std::string file_of(const Port& port, const char* setting) {
    return fmt::format("{}/{}-{}", runtime_folder(), setting, port.config.netdev);
}
void set(const Port& port, const char* setting, uint32_t number) {
    std::ofstream(file_of(port, setting)) << number << '\n';
}
/// Empty: nothing was set.
std::string what_was_set(const Port& port, const char* setting) {
    return read_line(file_of(port, setting));
}

std::optional<core::Fec> set_fec_of(const Port& port) {
    const std::string text = what_was_set(port, "fec");
    for (const core::Fec fec : core::kFecs)
        if (text == std::to_string(fec_bit(fec))) return fec;
    return {};
}

core::Fec fec_of(const Port& port, std::optional<core::Fec> set) {
    return set.value_or(core::usual_fec(port.config.speed_mbps));
}

/// A port retrains its link when its error correction changes.
void toggle_link(Port& port) {
    core::Device* const device = port.device.load();
    if (!device || !port.netdev.is_up()) return;
    device->set_link(false);
    device->set_link(true);
}

struct Module {
    uint32_t type;
    uint32_t bytes;
};
Module module_of(const Port& port) {
    return core::plug(port.config.speed_mbps).kind == core::PlugKind::qsfp
               ? Module{ETH_MODULE_SFF_8636, ETH_MODULE_SFF_8636_LEN}
               : Module{ETH_MODULE_SFF_8472, ETH_MODULE_SFF_8472_LEN};
}

} // namespace

int fec_link_mode(core::Fec fec) {
    switch (fec) {
    case core::Fec::off: return ETHTOOL_LINK_MODE_FEC_NONE_BIT;
    case core::Fec::base_r: return ETHTOOL_LINK_MODE_FEC_BASER_BIT;
    case core::Fec::rs: return ETHTOOL_LINK_MODE_FEC_RS_BIT;
    }
    return ETHTOOL_LINK_MODE_FEC_NONE_BIT;
}

core::Fec active_fec(const Port& port) { return fec_of(port, set_fec_of(port)); }

bool active_pause(const Port& port) {
    const std::string text = what_was_set(port, "pause");
    return text.empty() ? port.config.pause : text == "1";
}

int get_pause(const Port& port, ethtool_pauseparam& out) {
    out = {};
    out.cmd = ETHTOOL_GPAUSEPARAM;
    out.rx_pause = out.tx_pause = active_pause(port);
    return 0;
}

int set_pause(Port& port, const ethtool_pauseparam& in) {
    if (in.autoneg) return EINVAL; // as mlx5e: there is nobody to negotiate with
    // A full cable always makes its sender wait.
    if (!in.rx_pause != !in.tx_pause) return EOPNOTSUPP;
    const bool on = in.tx_pause != 0;
    set(port, "pause", on);
    if (core::Device* const device = port.device.load()) device->set_pause(on);
    return 0;
}

int get_fec(const Port& port, ethtool_fecparam& out) {
    const std::optional<core::Fec> set = set_fec_of(port);
    out = {};
    out.cmd = ETHTOOL_GFECPARAM;
    out.fec = set ? fec_bit(*set) : uint32_t{ETHTOOL_FEC_AUTO};
    out.active_fec = port.link_up() ? fec_bit(fec_of(port, set)) : uint32_t{ETHTOOL_FEC_AUTO};
    return 0;
}

int set_fec(Port& port, const ethtool_fecparam& in) {
    if (in.fec == 0 || in.fec & ETHTOOL_FEC_NONE) return EINVAL; // the kernel's own check
    if (std::popcount(in.fec) > 1) return EOPNOTSUPP;
    const auto* const wanted = std::ranges::find_if(core::kFecs, [&](core::Fec fec) {
        return in.fec == fec_bit(fec) && core::has_fec(port.config.speed_mbps, fec);
    });
    if (wanted == core::kFecs.end() && in.fec != ETHTOOL_FEC_AUTO) return EOPNOTSUPP;
    set(port, "fec", in.fec);
    toggle_link(port);
    return 0;
}

int get_module_info(const Port& port, ethtool_modinfo& out) {
    const Module module = module_of(port);
    out = {};
    out.cmd = ETHTOOL_GMODULEINFO;
    out.type = module.type;
    out.eeprom_len = module.bytes;
    return 0;
}

int get_module_eeprom(const Port& port, ethtool_eeprom& out) {
    const uint32_t bytes = module_of(port).bytes;
    if (out.len == 0 || out.offset > bytes || out.len > bytes - out.offset) return EINVAL;
    if (!is_mapped(out.data, out.len, true)) return EFAULT;
    const auto memory = core::plug_memory(core::plug(port.config.speed_mbps), port.config.mac);
    for (uint32_t i = 0; i < out.len; i++) {
        const uint32_t at = out.offset + i;
        out.data[i] = at < memory.size() ? memory[at] : 0; // no diagnostics there
    }
    return 0;
}

int identify(const ethtool_value& in) {
    static std::atomic<bool> busy{false};
    if (busy.exchange(true)) return EBUSY;
    constexpr time_t kForEver = 365 * 86400;
    const timespec time{.tv_sec = in.data != 0 ? time_t{in.data} : kForEver, .tv_nsec = 0};
    nanosleep(&time, nullptr); // a signal ends it early
    busy = false;
    return 0;
}

} // namespace softhca::uverbs
