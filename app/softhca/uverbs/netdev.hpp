// SPDX-License-Identifier: BSD-3-Clause
// The Linux netdev alongside a port, as far as programs reach it by ioctl(2): emulated, or a real
// TAP.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <net/if.h>
#include <optional>
#include <string>

namespace softhca::uverbs {

struct Port;

/// The settings of an emulated netdev.
struct NetdevState {
    std::array<uint8_t, 6> mac{};
    uint16_t mtu = 1500;
    uint16_t flags = 0; ///< IFF_* without IFF_RUNNING
};

/// The state of an emulated netdev is in its sysfs files, so that settings outlast a program, as in
/// a kernel. A real TAP belongs to the kernel; requests about it go there, and those that concern
/// the port come here too. Thread-safe.
class Netdev {
  public:
    Netdev(Port& port, const std::string& tree_root);

    [[nodiscard]] bool is_tap() const;
    [[nodiscard]] unsigned ifindex() const; ///< of an emulated netdev
    [[nodiscard]] std::array<uint8_t, 6> mac();
    [[nodiscard]] uint16_t mtu();
    [[nodiscard]] bool is_up(); ///< IFF_UP: administrative state

    /// Answers a SIOC… request about this netdev: 0, a positive errno, or empty when the kernel
    /// must answer (real TAP). After the kernel has changed a TAP, follow() adopts the change.
    [[nodiscard]] std::optional<int> ioctl(unsigned long request, ifreq& ifr);
    void follow(unsigned long request, const ifreq& ifr);
    /// Adopts what another process has changed of an emulated netdev.
    void reread();

  private:
    using State = NetdevState;
    [[nodiscard]] State& state(); ///< under mutex_
    [[nodiscard]] int answer(unsigned long request, ifreq& ifr);
    void save_mtu(uint16_t mtu);
    [[nodiscard]] int set_mtu(int mtu);
    [[nodiscard]] int set_flags(int flags);
    [[nodiscard]] int set_mac(const sockaddr& address);
    [[nodiscard]] uint16_t flags();

    Port& port_;
    std::string folder_; ///< its files in the tree
    std::mutex mutex_;
    std::optional<State> state_; ///< as read from the files; while the device runs, up to date
};

/// Name of the control socket's request to reread() the netdev of a "device".
inline constexpr const char* kNetdevCommand = "netdev";

/// A request of ioctl(2) in the range of network interfaces (0x89..). Empty: not about a netdev of
/// this front, pass it on. `handed_on` sends it to the kernel.
[[nodiscard]] std::optional<int> netdev_ioctl(unsigned long request, void* argument,
                                              int (*handed_on)(int, unsigned long, void*), int fd);

/// 0 when it is not an emulated netdev.
[[nodiscard]] unsigned emulated_name_to_index(const char* name);
/// Fills `name` (IF_NAMESIZE bytes); false when the index is not one of an emulated netdev.
[[nodiscard]] bool emulated_index_to_name(unsigned index, char* name);

} // namespace softhca::uverbs
