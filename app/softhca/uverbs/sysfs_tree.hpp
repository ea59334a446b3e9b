// SPDX-License-Identifier: BSD-3-Clause
// The files below /sys and /dev through which programs find the devices.
#pragma once

#include "app/softhca/config.hpp"
#include "common/result.hpp"

#include <string>
#include <sys/types.h>

namespace softhca::uverbs {

/// Builds `<runtime_dir>/root` with the sys/ and dev/ files of all ports, as a kernel with
/// mlx5_core and mlx5_ib presents them. The launcher calls it once, before the program starts; the
/// tree appears complete and atomically, or not at all. The front substitutes its files for the
/// real ones.
[[nodiscard]] Result<void> build_tree(const Config& config);

/// Where build_tree puts the tree.
[[nodiscard]] std::string tree_root(const std::string& runtime_dir);

/// Folder of a port's PCI device, for example /sys/devices/pci0000:ca/0000:ca:00.0.
[[nodiscard]] std::string pci_folder(const PortConfig& port);

/// Number of the character device /dev/infiniband/uverbsN, by which libibverbs tells devices apart.
[[nodiscard]] dev_t uverbs_device(size_t index);

/// Interface index of the emulated netdev of port number `port`: far above what a kernel assigns,
/// so that no request of a program hits a real interface by accident.
[[nodiscard]] constexpr unsigned emulated_ifindex(size_t port) {
    return 2'000'000'000u + static_cast<unsigned>(port);
}

/// EUI-64 of a MAC address, as mlx5 makes node GUIDs: aabb:ccff:fedd:eeff.
[[nodiscard]] std::array<uint8_t, 8> guid_bytes(const std::array<uint8_t, 6>& mac);
[[nodiscard]] std::string guid_text(const std::array<uint8_t, 6>& mac);
[[nodiscard]] std::string firmware_version();
[[nodiscard]] std::string mac_text(const std::array<uint8_t, 6>& mac);

} // namespace softhca::uverbs
