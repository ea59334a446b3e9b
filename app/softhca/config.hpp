// SPDX-License-Identifier: BSD-3-Clause
// What the launcher decides and the fronts carry out: devices, wires, threads.
#pragma once

#include "common/result.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace softhca {

/// One RDMA device with one Ethernet port. Written by the launcher as JSON, read by the fronts.
struct PortConfig {
    std::string device;            ///< RDMA device name: mlx5_0
    std::string pci;               ///< PCI address it pretends to have: 0000:ca:00.0
    std::array<uint8_t, 6> mac{};  ///< of the netdev
    uint16_t mtu = 1500;           ///< bytes of L3, as a netdev counts it
    uint32_t speed_mbps = 100000;  ///< what link queries report
    bool pause = false;            ///< an empty RQ holds the wire instead of dropping
    std::string wire = "loop";     ///< tap:NAME socket:PATH link:NAME pcap:IN[,OUT] pair:NAME loop gen:… sink
    std::string netdev;            ///< name of the kernel netdev beside the port
    bool netdev_tap = false;       ///< true: a real TAP interface; false: emulated for this program only
    int wire_fd = -1;              ///< already open (TAP), inherited from the launcher
    int netdev_fd = -1;            ///< likewise
};

struct Config {
    std::vector<PortConfig> ports;
    unsigned threads = 1;
    std::vector<int> cpus;
    std::string runtime_dir; ///< sysfs tree and control sockets; the launcher removes it
    int verbose = 0;
};

/// Name of the environment variable with the path of the configuration file.
inline constexpr const char* kConfigVariable = "SOFTHCA_CONFIG";

[[nodiscard]] std::string to_json(const Config& config);
[[nodiscard]] Result<Config> config_from_json(const std::string& text);
/// Reads the file named by SOFTHCA_CONFIG.
[[nodiscard]] Result<Config> load_config();

} // namespace softhca
