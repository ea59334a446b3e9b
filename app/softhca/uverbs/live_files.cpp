// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/live_files.hpp"

#include "app/softhca/uverbs/runtime.hpp"
#include "app/softhca/uverbs/small_file.hpp"

#include <cerrno>
#include <string>
#include <string_view>

namespace softhca::uverbs {
namespace {

template <uint64_t core::PortCounters::*kCounter> std::string counter(const Port& port) {
    const core::Device* const device = port.device.load();
    return std::to_string(device ? device->counters().*kCounter : 0);
}

std::string rdma_state(const Port& port) { return port.link_up() ? "4: ACTIVE" : "1: DOWN"; }
std::string rdma_phys_state(const Port& port) {
    return port.link_up() ? "5: LinkUp" : "3: Disabled";
}
std::string operstate(const Port& port) { return port.link_up() ? "up" : "down"; }
std::string carrier(const Port& port) { return port.link_up() ? "1" : "0"; }

struct LiveFile {
    std::string_view ending;
    std::string (*content)(const Port&);
    bool of_netdev; ///< of the emulated netdev; else of the RDMA device
};
constexpr LiveFile kLiveFiles[] = {
    {"/ports/1/state", rdma_state, false},
    {"/ports/1/phys_state", rdma_phys_state, false},
    {"/hw_counters/out_of_buffer", counter<&core::PortCounters::drop_out_of_buffer>, false},
    {"/operstate", operstate, true},
    {"/carrier", carrier, true},
    {"/statistics/rx_packets", counter<&core::PortCounters::wire_rx_packets>, true},
    {"/statistics/rx_bytes", counter<&core::PortCounters::wire_rx_bytes>, true},
    {"/statistics/rx_dropped", counter<&core::PortCounters::drop_out_of_buffer>, true},
    {"/statistics/tx_packets", counter<&core::PortCounters::wire_tx_packets>, true},
    {"/statistics/tx_bytes", counter<&core::PortCounters::wire_tx_bytes>, true},
};

/// True when one part of the path is `part`.
bool has_part(std::string_view path, const std::string& part) {
    return !part.empty() && path.find("/" + part + "/") != std::string_view::npos;
}

void refresh(Runtime& runtime, const LiveFile& live, std::string_view name, const char* file) {
    for (const auto& port : runtime.ports()) {
        if (live.of_netdev && port->netdev.is_tap()) continue; // the kernel's own file
        if (!has_part(name, live.of_netdev ? port->config.netdev : port->config.device)) continue;
        write_line(file, live.content(*port));
        return;
    }
}

} // namespace

void refresh_live_file(const char* name, const char* file) {
    Runtime* runtime = Runtime::running();
    if (!runtime) return;
    const int saved = errno;
    for (const LiveFile& live : kLiveFiles)
        if (std::string_view(name).ends_with(live.ending)) refresh(*runtime, live, name, file);
    errno = saved;
}

} // namespace softhca::uverbs
