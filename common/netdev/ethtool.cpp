// SPDX-License-Identifier: BSD-3-Clause
// What ethtool reports and sets, through its ioctl: what drivers that offer RDMA implement and a
// program can get without privileges.
#include "common/netdev/ethtool.hpp"

#include "common/netdev/netdev.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace netdev {

Result<LinkSettings> Netdev::link_settings() const {
    constexpr const char* kWhat = "get the link settings";
    // The first call asks how many words the link mode masks have: the kernel answers with the
    // negative count. Only the second call, which names that count, returns the settings.
    ethtool_link_settings probe{};
    probe.cmd = ETHTOOL_GLINKSETTINGS;
    if (Result<void> done = ethtool(&probe, kWhat); !done)
        return tl::unexpected(std::move(done.error()));
    const auto words = static_cast<size_t>(std::max(-probe.link_mode_masks_nwords, 0));
    LinkSettings settings(3 * words * sizeof(uint32_t)); // supported, advertised, the partner's
    settings->cmd = ETHTOOL_GLINKSETTINGS;
    settings->link_mode_masks_nwords = static_cast<__s8>(words);
    if (Result<void> done = ethtool(settings.get(), kWhat); !done)
        return tl::unexpected(std::move(done.error()));
    return settings;
}

Result<std::vector<uint32_t>> Netdev::supported_modes() const {
    Result<LinkSettings> settings = link_settings();
    if (!settings) return tl::unexpected(std::move(settings.error()));
    const auto words = static_cast<size_t>(std::max<int>((*settings)->link_mode_masks_nwords, 0));
    std::vector<uint32_t> supported(words);
    std::memcpy(supported.data(), settings->tail(), words * sizeof(uint32_t));
    return supported;
}

Result<std::vector<uint32_t>> Netdev::supported_speeds() const {
    const Result<std::vector<uint32_t>> modes = supported_modes();
    if (!modes) return tl::unexpected(modes.error());
    return speeds_of_modes(*modes);
}

Result<size_t> Netdev::counter_count() const {
    ethtool_drvinfo driver{};
    driver.cmd = ETHTOOL_GDRVINFO;
    if (Result<void> done = ethtool(&driver, "get the driver's name"); !done) {
        if (done.error().code == EOPNOTSUPP) return 0;
        return tl::unexpected(std::move(done.error()));
    }
    return driver.n_stats;
}

Result<std::vector<std::string>> Netdev::counter_names() const {
    const Result<size_t> count = counter_count();
    if (!count) return tl::unexpected(count.error());
    std::vector<std::string> all;
    if (*count == 0) return all;
    Variable<ethtool_gstrings> names(*count * ETH_GSTRING_LEN);
    names->cmd = ETHTOOL_GSTRINGS;
    names->string_set = ETH_SS_STATS;
    names->len = static_cast<uint32_t>(*count);
    if (Result<void> done = ethtool(names.get(), "get the names of the counters"); !done)
        return tl::unexpected(std::move(done.error()));
    // The set may have changed since it was counted.
    for (size_t i = 0; i < std::min<size_t>(*count, names->len); ++i) {
        const auto* name = reinterpret_cast<const char*>(names.tail()) + i * ETH_GSTRING_LEN;
        all.emplace_back(name, strnlen(name, ETH_GSTRING_LEN));
    }
    return all;
}

Result<std::vector<uint64_t>> Netdev::counter_values() const {
    const Result<size_t> count = counter_count();
    if (!count) return tl::unexpected(count.error());
    std::vector<uint64_t> all;
    if (*count == 0) return all;
    Variable<ethtool_stats> values(*count * sizeof(uint64_t));
    values->cmd = ETHTOOL_GSTATS;
    values->n_stats = static_cast<uint32_t>(*count);
    if (Result<void> done = ethtool(values.get(), "get the counters"); !done)
        return tl::unexpected(std::move(done.error()));
    all.resize(std::min<size_t>(*count, values->n_stats));
    std::memcpy(all.data(), values.tail(), all.size() * sizeof(uint64_t));
    return all;
}

Result<std::vector<Counter>> Netdev::counters() const {
    const Result<std::vector<std::string>> names = counter_names();
    if (!names) return tl::unexpected(names.error());
    const Result<std::vector<uint64_t>> values = counter_values();
    if (!values) return tl::unexpected(values.error());
    std::vector<Counter> counters(std::min(names->size(), values->size()));
    for (size_t i = 0; i < counters.size(); ++i)
        counters[i] = {(*names)[i], (*values)[i]};
    return counters;
}

Result<Pause> Netdev::pause() const {
    ethtool_pauseparam told{};
    told.cmd = ETHTOOL_GPAUSEPARAM;
    return ethtool(&told, "get the flow control").map([&] {
        return Pause{told.rx_pause != 0, told.tx_pause != 0, told.autoneg != 0};
    });
}

Result<void> Netdev::set_pause(Pause pause) const {
    ethtool_pauseparam wanted{};
    wanted.cmd = ETHTOOL_SPAUSEPARAM;
    wanted.rx_pause = pause.rx;
    wanted.tx_pause = pause.tx;
    wanted.autoneg = pause.autoneg;
    const std::string what =
        fmt::format("set the flow control to rx {}, tx {}{}", pause.rx ? "on" : "off",
                    pause.tx ? "on" : "off", pause.autoneg ? ", negotiated" : "");
    return ethtool(&wanted, what.c_str());
}

Result<FecSetting> Netdev::fec() const {
    ethtool_fecparam told{};
    told.cmd = ETHTOOL_GFECPARAM;
    return ethtool(&told, "get the FEC mode").map([&] {
        return FecSetting{told.fec, told.active_fec};
    });
}

Result<void> Netdev::set_fec(uint32_t modes) const {
    ethtool_fecparam wanted{};
    wanted.cmd = ETHTOOL_SFECPARAM;
    wanted.fec = modes;
    return ethtool(&wanted, "set the FEC mode");
}

Result<uint32_t> Netdev::supported_fec() const {
    const Result<std::vector<uint32_t>> modes = supported_modes();
    if (!modes) return tl::unexpected(modes.error());
    return fec_of_modes(*modes);
}

Result<ModuleInfo> Netdev::module_info() const {
    ethtool_modinfo told{};
    told.cmd = ETHTOOL_GMODULEINFO;
    return ethtool(&told, "ask for the plug-in module").map([&] {
        return ModuleInfo{told.type, told.eeprom_len};
    });
}

Result<void> Netdev::read_module(uint32_t offset, std::span<uint8_t> bytes) const {
    Variable<ethtool_eeprom> memory(bytes.size());
    memory->cmd = ETHTOOL_GMODULEEEPROM;
    memory->offset = offset;
    memory->len = static_cast<uint32_t>(bytes.size());
    return ethtool(memory.get(), "read the memory of the plug-in module").map([&] {
        std::memcpy(bytes.data(), memory.tail(), bytes.size());
    });
}

Result<void> Netdev::identify(unsigned seconds) const {
    ethtool_value wanted{ETHTOOL_PHYS_ID, seconds};
    return ethtool(&wanted, "have the LED blink");
}

} // namespace netdev
