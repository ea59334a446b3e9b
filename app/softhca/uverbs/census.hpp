// SPDX-License-Identifier: BSD-3-Clause
// What all processes under this softhca have on its devices. A kernel knows this itself; here each
// process answers for itself through its control socket.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace softhca::uverbs {

class Runtime;
struct Port;

struct PdEntry {
    uint32_t number = 0, users = 0;
};
struct CqEntry {
    uint32_t number = 0, entries = 0, users = 0;
};
struct MrEntry {
    uint32_t key = 0, pd = 0;
    uint64_t length = 0;
};
struct QpEntry {
    uint32_t number = 0, pd = 0;
    uint8_t port = 0;            ///< 0: not set yet
    uint8_t type = 0, state = 0; ///< enum ibv_qp_type, ibv_qp_state
};
/// An open device.
struct ContextEntry {
    uint32_t number = 0;
    std::vector<PdEntry> pds;
    std::vector<CqEntry> cqs;
    std::vector<MrEntry> mrs;
    std::vector<QpEntry> qps;
};
struct PortEntry {
    std::string device;
    bool link_up = false;
    /// By their file names in sysfs: "counters/port_rcv_packets", "statistics/rx_bytes" …
    std::map<std::string, uint64_t> counters;
    std::vector<ContextEntry> contexts;
};
struct ProcessEntry {
    pid_t pid = 0;
    std::vector<PortEntry> ports;
};

/// Name of the control socket's request for a ProcessEntry.
inline constexpr const char* kCensusCommand = "rdma";
/// This process; its devices must be running.
[[nodiscard]] nlohmann::json describe_process(Runtime& runtime);

/// All processes with running devices. Those that do not answer in time are left out.
[[nodiscard]] std::vector<ProcessEntry> take_census(Runtime& runtime);

/// A port as seen by all those processes together.
struct PortView {
    bool running = false; ///< false: no process uses it; counters are empty
    bool link_up = false;
    std::map<std::string, uint64_t> counters;
};
[[nodiscard]] PortView view_port(const std::vector<ProcessEntry>& census, Port& port);

} // namespace softhca::uverbs
