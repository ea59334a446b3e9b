// SPDX-License-Identifier: BSD-3-Clause
// What the checks are about, and what they have learned on the way.
#pragma once

#include "common/diagnosis/host.hpp"
#include "common/verbs/handles.hpp"

#include <optional>
#include <string>
#include <vector>

namespace diagnosis {

/// The objects that the checks of a device make on it, each for the later ones. Destroyed in
/// reverse order.
struct Trial {
    verbs::Context context;
    ibv_device_attr_ex attributes{};
    verbs::Pd pd;
    verbs::Cq cq;
    verbs::Wq wq;
    verbs::RwqIndTable table;
    verbs::Qp hash_qp;
};

struct Case {
    Host host;

    // Given by the caller; all may be left empty.
    std::string device; ///< RDMA device; else that of `iface`, else the first one
    std::string iface;
    uint8_t port = 1;          ///< of the RDMA device, from 1
    std::string program;       ///< the DPDK program that will use the device
    std::string plugin;        ///< the driver's file; empty: that in `plugin_folder`
    std::string plugin_folder; ///< where the DPDK in use looks for drivers; empty: unknown
    std::string devargs;       ///< device arguments to check
    verbs::LibraryNames libraries;

    /// Ports of running DPDK programs: "0000:ca:00.0 (pid 7)".
    std::vector<std::string> dpdk_ports;

    // Learned by the checks; a caller that already knows may fill it in.
    std::optional<verbs::Api> api;
    std::string node;   ///< "/dev/infiniband/uverbs0"
    int open_error = 0; ///< errno from opening the node
    std::string netdev;
    Trial trial;

    /// A folder of sysfs that says more about the device: "/sys/class/infiniband/mlx5_0/WHAT".
    [[nodiscard]] std::string of_device(std::string_view what) const {
        return fmt::format("/sys/class/infiniband/{}/{}", device, what);
    }
    [[nodiscard]] bool known_to_kernel() const {
        return !device.empty() && host.exists("/sys/class/infiniband/" + device);
    }
    /// Names in libibverbs' list; empty without a library.
    [[nodiscard]] std::vector<std::string> usable_devices() const;
};

} // namespace diagnosis
