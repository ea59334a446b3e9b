// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/hardware_counters.hpp"

#include "drivers/net/rawqp/ethdev/process_port.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

namespace rawqp {
namespace {

/// Names that net_mlx5 uses, and the kernel's for the same thing.
struct KnownName {
    std::string_view kernel, dpdk;
};
constexpr std::array kKnownNames{
    KnownName{kOutOfBuffer, "rx_out_of_buffer"},
    KnownName{"rx_vport_unicast_packets", "rx_unicast_packets"},
    KnownName{"rx_vport_unicast_bytes", "rx_unicast_bytes"},
    KnownName{"rx_vport_multicast_packets", "rx_multicast_packets"},
    KnownName{"rx_vport_multicast_bytes", "rx_multicast_bytes"},
    KnownName{"rx_vport_broadcast_packets", "rx_broadcast_packets"},
    KnownName{"rx_vport_broadcast_bytes", "rx_broadcast_bytes"},
    KnownName{"tx_vport_unicast_packets", "tx_unicast_packets"},
    KnownName{"tx_vport_unicast_bytes", "tx_unicast_bytes"},
    KnownName{"tx_vport_multicast_packets", "tx_multicast_packets"},
    KnownName{"tx_vport_multicast_bytes", "tx_multicast_bytes"},
    KnownName{"tx_vport_broadcast_packets", "tx_broadcast_packets"},
    KnownName{"tx_vport_broadcast_bytes", "tx_broadcast_bytes"},
    KnownName{"rx_wqe_err", "rx_wqe_errors"},
    KnownName{"rx_packets_phy", "rx_phy_packets"},
    KnownName{"rx_bytes_phy", "rx_phy_bytes"},
    KnownName{"tx_packets_phy", "tx_phy_packets"},
    KnownName{"tx_bytes_phy", "tx_phy_bytes"},
    KnownName{"rx_discards_phy", "rx_phy_discard_packets"},
    KnownName{"tx_discards_phy", "tx_phy_discard_packets"},
    KnownName{"tx_errors_phy", "tx_phy_errors"},
    KnownName{"rx_crc_errors_phy", "rx_phy_crc_errors"},
    KnownName{"rx_in_range_len_errors_phy", "rx_phy_in_range_len_errors"},
    KnownName{"rx_symbol_err_phy", "rx_phy_symbol_errors"},
};

constexpr const char *kOfRdmaPort = "hw_", *kOfNetdev = "netdev_";

/// The name that dashboards look for; else the counter's own name with its source.
std::string dpdk_name(const char* prefix, const std::string& counter) {
    for (const KnownName& known : kKnownNames)
        if (known.kernel == counter) return std::string(known.dpdk);
    return prefix + counter;
}

std::span<CounterBase> bases_of(const PortTotals& totals) {
    CounterBases* const table = __atomic_load_n(&totals.hardware_bases, __ATOMIC_ACQUIRE);
    return table == nullptr ? std::span<CounterBase>{} : std::span(table->entries(), table->size);
}

/// Null: it was never noted. It may be at another place, as other counters may have appeared since,
/// or another process, which does not see the same ones, may have noted it.
CounterBase* find_base(std::span<CounterBase> bases, size_t place, const std::string& name) {
    const auto is_its = [&](const CounterBase& base) {
        return name.compare(0, base.name.size() - 1, base.name.data()) == 0; // cut as names are
    };
    if (place < bases.size() && is_its(bases[place])) return &bases[place];
    const auto found = std::ranges::find_if(bases, is_its);
    return found != bases.end() ? &*found : nullptr;
}

/// Provides a table for `count` counters.
bool make_room(PortTotals& totals, size_t count) {
    const size_t room = bases_of(totals).size();
    if (count <= room) return true;
    const size_t size = std::max(count, 2 * room);
    auto* const table = static_cast<CounterBases*>(rte_zmalloc(
        "rawqp_xstats", sizeof(CounterBases) + size * sizeof(CounterBase), RTE_CACHE_LINE_SIZE));
    if (table == nullptr) return false;
    table->before = totals.hardware_bases;
    table->size = static_cast<uint32_t>(size);
    __atomic_store_n(&totals.hardware_bases, table, __ATOMIC_RELEASE);
    return true;
}

} // namespace

std::vector<std::string> HardwareCounters::names(const ProcessPort& port) {
    const std::lock_guard lock(mutex_);
    look(port);
    return names_;
}

std::vector<uint64_t> HardwareCounters::read(const ProcessPort& port) {
    const std::lock_guard lock(mutex_);
    std::vector<uint64_t> values = raw_values(port);
    const std::span<CounterBase> bases = bases_of(port.shared.totals);
    for (size_t i = 0; i < values.size(); ++i)
        if (const CounterBase* const base = find_base(bases, i, names_[i]))
            values[i] -= std::min(values[i], base->value);
    return values;
}

bool HardwareCounters::reset(const ProcessPort& port) {
    const std::lock_guard lock(mutex_);
    const std::vector<uint64_t> values = raw_values(port);
    // Those of counters that only another process sees stay.
    std::vector<CounterBase> bases;
    std::ranges::copy_if(bases_of(port.shared.totals), std::back_inserter(bases),
                         [](const CounterBase& base) { return base.name[0] != 0; });
    for (size_t i = 0; i < values.size(); ++i) {
        CounterBase* base = find_base(bases, i, names_[i]);
        if (base == nullptr) {
            base = &bases.emplace_back();
            rte_strscpy(base->name.data(), names_[i].c_str(), base->name.size());
        }
        base->value = values[i];
    }
    if (!make_room(port.shared.totals, bases.size())) return false;
    std::ranges::copy(bases, bases_of(port.shared.totals).begin());
    return true;
}

void HardwareCounters::look(const ProcessPort& port) {
    const SharedPort& shared = port.shared;
    rdma_ = port.sysfs.hw_counter_names(shared.device.data(), shared.ib_port);
    names_.clear();
    for (const std::string& name : rdma_)
        names_.push_back(dpdk_name(kOfRdmaPort, name));
    if (Result<std::vector<std::string>> of_netdev = port.netdev.counter_names())
        for (const std::string& name : *of_netdev)
            names_.push_back(dpdk_name(kOfNetdev, name));
    listed_ = true;
}

std::vector<uint64_t> HardwareCounters::raw_values(const ProcessPort& port) {
    const SharedPort& shared = port.shared;
    const std::vector<uint64_t> of_netdev =
        port.netdev.counter_values().value_or(std::vector<uint64_t>{});
    if (!listed_ || rdma_.size() + of_netdev.size() != names_.size()) look(port);

    std::vector<uint64_t> values(names_.size()); // 0: it has disappeared since
    for (size_t i = 0; i < rdma_.size(); ++i) {
        values[i] =
            port.sysfs.hw_counter(shared.device.data(), shared.ib_port, rdma_[i]).value_or(0);
        if (rdma_[i] == kOutOfBuffer)
            values[i] += load_counter(shared.totals.missed); // counted separately
    }
    const size_t known = std::min(of_netdev.size(), values.size() - rdma_.size());
    std::copy_n(of_netdev.begin(), known, values.begin() + static_cast<ptrdiff_t>(rdma_.size()));
    return values;
}

void free_bases(PortTotals& totals) {
    for (CounterBases* table = std::exchange(totals.hardware_bases, nullptr); table != nullptr;)
        rte_free(std::exchange(table, table->before));
}

} // namespace rawqp
