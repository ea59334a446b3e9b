// SPDX-License-Identifier: BSD-3-Clause
// What the launcher decides and the fronts implement: devices, wires, threads.
#pragma once

#include "app/softhca/fault.hpp"
#include "common/result.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace softhca {

/// One RDMA device with one Ethernet port. Written by the launcher as JSON, read by the fronts.
struct PortConfig {
    std::string device;           ///< RDMA device name: mlx5_0
    std::string pci;              ///< PCI address that it presents: 0000:ca:00.0
    std::array<uint8_t, 6> mac{}; ///< of the netdev
    uint16_t mtu = 1500;          ///< bytes of L3, as a netdev counts it
    uint32_t speed_mbps = 100000; ///< what link queries report
    bool pause = false;           ///< an empty RQ holds the wire instead of dropping
    /// Programs may run firmware commands. Unset: they may if softhca is built with support for it.
    std::optional<bool> devx;
    /// Format of the steering entries that programs write themselves. Unset: 0; in a guest, none.
    std::optional<uint8_t> steering_format;
    bool carrier_always = false; ///< the link is up even with nothing at the cable's other end
    std::string wire =
        "loop"; ///< tap:NAME[:plain] socket:PATH link:NAME pcap:IN[,OUT] pair:NAME loop gen:… sink
    std::string netdev;      ///< name of the kernel netdev alongside the port
    bool netdev_tap = false; ///< true: a real TAP interface; false: emulated for this program only
    std::vector<CommandFault> faults; ///< commands that fail from the start
    int wire_fd = -1;                 ///< already open (TAP), inherited from the launcher
    int netdev_fd = -1;               ///< likewise
};

struct Config {
    std::vector<PortConfig> ports;
    std::optional<unsigned> threads; ///< unset: one for each of `cpus`, at least 1
    std::vector<int> cpus;
    std::string runtime_dir; ///< sysfs tree and control sockets; the launcher removes it
    int verbose = 0;
    bool enforce = false; ///< require CAP_NET_RAW and RLIMIT_MEMLOCK as a kernel does
};

/// Name of the environment variable with the path of the configuration file.
inline constexpr const char* kConfigVariable = "SOFTHCA_CONFIG";

/// A FIFO in the runtime folder that has a writer as long as the launcher lives.
inline constexpr const char* kAliveFile = "alive";

/// Sets one port option by its name on the command line and in files: wire, netdev, mac, mtu,
/// speed, pause, devx, steering_format, carrier, device, pci or fault. Errors name the option, the
/// value and what is allowed.
[[nodiscard]] Result<void> set_port_option(PortConfig& port, std::string_view key,
                                           std::string_view value);
/// Parses "key=value,key=value…". Text after a comma belongs to the preceding value unless it
/// starts with the name of an option: "wire=gen:size=60,count=9,mtu=9000" is two options.
[[nodiscard]] Result<PortConfig> parse_port(std::string_view text);
/// Fills in names, addresses and the default port where none were requested, and refuses
/// conflicting settings (two devices of one name …). To be called once, before anything uses the
/// Config.
[[nodiscard]] Result<void> complete(Config& config);

[[nodiscard]] std::string to_json(const Config& config);
/// Also reads files written by users: every key may be missing, unknown ones are errors.
[[nodiscard]] Result<Config> config_from_json(const std::string& text);
/// Reads the file named by SOFTHCA_CONFIG.
[[nodiscard]] Result<Config> load_config();
[[nodiscard]] Result<Config> load_config_file(const std::string& path);

} // namespace softhca
