// SPDX-License-Identifier: BSD-3-Clause
// The Linux network interface of an RDMA port: finding one from the other through sysfs, and what
// the kernel reports and accepts about it through ioctl.
#pragma once

#include "common/result.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct ifreq;

namespace netdev {

using MacAddress = std::array<uint8_t, 6>;

struct Link {
    bool up = false;         ///< administratively up and with a carrier
    uint32_t speed_mbps = 0; ///< 0: unknown
    bool full_duplex = true;
    bool autoneg = false;
};

/// Mbit/s of the full-duplex modes in a link mode mask of ethtool (ETHTOOL_LINK_MODE_*_BIT), each
/// once, ascending.
[[nodiscard]] std::vector<uint32_t> speeds_of_modes(std::span<const uint32_t> mask);

/// ETHTOOL_FEC_* of the error correction in such a mask, except AUTO, which is not a link mode.
[[nodiscard]] uint32_t fec_of_modes(std::span<const uint32_t> mask);

/// Flow control by pause frames (802.3x).
struct Pause {
    bool rx = false; ///< received ones are obeyed
    bool tx = false; ///< they are sent when receive buffers run out
    bool autoneg = false;
    bool operator==(const Pause&) const = default;
};

/// Forward error correction, as ETHTOOL_FEC_*.
struct FecSetting {
    uint32_t configured = 0;
    uint32_t active = 0; ///< while the link is up
};

/// Plug-in module or cable.
struct ModuleInfo {
    uint32_t type = 0;  ///< ETH_MODULE_SFF_*: how its memory is laid out
    uint32_t bytes = 0; ///< of memory that can be read
};

/// One counter of the hardware.
struct Counter {
    std::string name;
    uint64_t value = 0;
};

class ControlSocket;
class LinkSettings;

/// An interface by name, in the network namespace where this object was made: it holds a socket
/// there, which copies share, so that a call is one or two system calls. Errors carry the errno of
/// the kernel. Thread-safe.
class Netdev {
  public:
    Netdev() = default; ///< no interface; every call fails with ENODEV
    explicit Netdev(std::string name);

    [[nodiscard]] bool present() const { return !name_.empty(); }
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] Result<unsigned> index() const;

    [[nodiscard]] Result<MacAddress> mac() const;
    /// Bytes of L3, as Linux counts an MTU.
    [[nodiscard]] Result<uint32_t> mtu() const;
    [[nodiscard]] Result<void> set_mtu(uint32_t mtu) const; ///< needs CAP_NET_ADMIN
    /// IFF_* of <net/if.h>.
    [[nodiscard]] Result<unsigned> flags() const;
    [[nodiscard]] Result<void> set_up(bool up) const; ///< needs CAP_NET_ADMIN
    [[nodiscard]] Result<Link> link() const;
    /// Mbit/s that the device can do, whatever the link's present speed; empty: unknown.
    [[nodiscard]] Result<std::vector<uint32_t>> supported_speeds() const;
    [[nodiscard]] Result<Pause> pause() const;
    [[nodiscard]] Result<void> set_pause(Pause pause) const; ///< needs CAP_NET_ADMIN
    [[nodiscard]] Result<FecSetting> fec() const;
    /// ETHTOOL_FEC_*; drivers may refuse more than one.
    [[nodiscard]] Result<void> set_fec(uint32_t modes) const; ///< needs CAP_NET_ADMIN
    /// As fec_of_modes; 0: nothing is reported.
    [[nodiscard]] Result<uint32_t> supported_fec() const;
    [[nodiscard]] Result<ModuleInfo> module_info() const; ///< this and the next: CAP_NET_ADMIN
    [[nodiscard]] Result<void> read_module(uint32_t offset, std::span<uint8_t> bytes) const;
    /// Makes the LED blink for `seconds`, at least 1, and returns afterwards. Needs CAP_NET_ADMIN.
    [[nodiscard]] Result<void> identify(unsigned seconds) const;
    /// Counters of the interface's driver (`ethtool -S`), in its own order; empty when it has none.
    /// Changed settings of the interface may add or remove some.
    [[nodiscard]] Result<std::vector<std::string>> counter_names() const;
    [[nodiscard]] Result<std::vector<uint64_t>> counter_values() const;
    [[nodiscard]] Result<std::vector<Counter>> counters() const; ///< both

  private:
    Result<void> request(unsigned long code, ifreq& request, const char* what) const;
    Result<void> ethtool(void* command, const char* what) const;
    [[nodiscard]] Result<LinkSettings> link_settings() const;
    [[nodiscard]] Result<size_t> counter_count() const;
    [[nodiscard]] Result<std::vector<uint32_t>> supported_modes() const;

    std::string name_;
    std::shared_ptr<const ControlSocket> socket_; ///< null: no interface
};

struct RdmaPort {
    std::string device;
    uint8_t port = 1;
};

/// What sysfs says; `root` is "/sys" outside of tests.
class Sysfs {
  public:
    explicit Sysfs(std::string root = "/sys") : root_(std::move(root)) {}
    [[nodiscard]] const std::string& root() const { return root_; }

    /// RDMA devices that the kernel knows, sorted; libibverbs may lack a provider for some.
    [[nodiscard]] std::vector<std::string> rdma_devices() const;
    /// Interface of an RDMA port. ENOENT: there is none here (it may be in another namespace).
    [[nodiscard]] Result<std::string> netdev_of(const std::string& device, uint8_t port) const;
    /// RDMA port of an interface. ENODEV: no such interface; ENOENT: it has no RDMA device.
    [[nodiscard]] Result<RdmaPort> rdma_port_of(const std::string& netdev) const;
    /// Bus address of the RDMA device ("0000:ca:00.0"); empty when it has none.
    [[nodiscard]] std::string bus_address(const std::string& device) const;
    /// NUMA node of the RDMA device; -1: unknown or any.
    [[nodiscard]] int numa_node(const std::string& device) const;
    /// Hardware counters of an RDMA port (`hw_counters`), sorted; empty when it has none.
    [[nodiscard]] std::vector<std::string> hw_counter_names(const std::string& device,
                                                            uint8_t port) const;
    [[nodiscard]] std::vector<Counter> hw_counters(const std::string& device, uint8_t port) const;
    /// One of them; ENOENT when the device does not have it.
    [[nodiscard]] Result<uint64_t> hw_counter(const std::string& device, uint8_t port,
                                              const std::string& name) const;

  private:
    [[nodiscard]] std::string port_path(const std::string& device, uint8_t port) const;

    std::string root_;
};

} // namespace netdev
