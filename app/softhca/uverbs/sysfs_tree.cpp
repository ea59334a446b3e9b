// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/sysfs_tree.hpp"

#include "app/softhca/identity.hpp"
#include "app/softhca/link_rate.hpp"

#include <filesystem>
#include <fstream>
#include <sys/sysmacros.h>
#include <system_error>

namespace softhca::uverbs {
namespace {

namespace fs = std::filesystem;

/// Writes files and links below one folder; remembers the first failure.
class TreeWriter {
  public:
    explicit TreeWriter(fs::path base) : base_(std::move(base)) {}

    void file(const std::string& path, const std::string& line) {
        const fs::path full = prepare(path);
        errno = 0;
        std::ofstream out(full);
        out << line << '\n';
        if (!out.flush()) note(full, {errno != 0 ? errno : EIO, std::generic_category()});
    }
    /// `target` starts with '/' and is relative to the tree; the link is made relative, and ends
    /// with the target's name, as in sysfs: some programs read the name there.
    void link(const std::string& path, const std::string& target) {
        const fs::path whole = target;
        const fs::path home = whole.parent_path().lexically_relative(fs::path(path).parent_path());
        symlink(home / whole.filename(), prepare(path));
    }
    /// `target` is on the real file system.
    void link_outside(const std::string& path, const std::string& target) {
        symlink(target, prepare(path));
    }
    void folder(const std::string& path) { (void)prepare(path + "/."); }

    [[nodiscard]] const std::string& failure() const { return failure_; }

  private:
    fs::path prepare(const std::string& path) {
        fs::path full = base_ / fs::path(path).relative_path();
        std::error_code error;
        fs::create_directories(full.parent_path(), error);
        if (error) note(full, error);
        return full;
    }
    void symlink(const fs::path& target, const fs::path& full) {
        std::error_code error;
        fs::create_symlink(target, full, error);
        if (error) note(full, error);
    }
    void note(const fs::path& path, const std::error_code& error) {
        if (failure_.empty()) failure_ = fmt::format("{}: {}", path.string(), error.message());
    }

    fs::path base_;
    std::string failure_;
};

void write_pci(TreeWriter& tree, const PortConfig& port) {
    const std::string pci = pci_folder(port);
    const uint16_t id = pci_device(port.steering_format.value_or(0));
    tree.file(pci + "/vendor", fmt::format("{:#06x}", kPciVendor));
    tree.file(pci + "/device", fmt::format("{:#06x}", id));
    tree.file(pci + "/subsystem_vendor", fmt::format("{:#06x}", kPciVendor));
    tree.file(pci + "/subsystem_device", fmt::format("{:#06x}", kPciSubsystem));
    tree.file(pci + "/class", "0x020000");
    tree.file(pci + "/revision", "0x00");
    tree.file(pci + "/irq", "0");
    tree.file(pci + "/max_vfs", "0");
    tree.file(pci + "/sriov_totalvfs", "0");
    tree.file(pci + "/sriov_numvfs", "0");
    // As MLNX_OFED's driver reports it. The upstream driver uses devlink, where DPDK looks first.
    tree.file(pci + "/roce_enable", "0");
    tree.file(pci + "/numa_node", "-1");
    tree.file(pci + "/modalias",
              fmt::format("pci:v000015B3d{:08X}sv000015B3sd{:08X}bc02sc00i00", id, kPciSubsystem));
    tree.file(pci + "/uevent", fmt::format("DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=15B3:{:04X}\n"
                                           "PCI_SUBSYS_ID=15B3:{:04X}\nPCI_SLOT_NAME={}",
                                           id, kPciSubsystem, port.pci));
    std::string bars;
    for (int bar = 0; bar < 7; bar++)
        bars += "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
    bars.pop_back();
    tree.file(pci + "/resource", bars);
    tree.folder("/sys/bus/pci/drivers/mlx5_core");
    tree.link(pci + "/driver", "/sys/bus/pci/drivers/mlx5_core");
    tree.link(pci + "/subsystem", "/sys/bus/pci");
    tree.link("/sys/bus/pci/drivers/mlx5_core/" + port.pci, pci);
    tree.link("/sys/bus/pci/devices/" + port.pci, pci);
}

void write_counters(TreeWriter& tree, const std::string& port_folder) {
    for (const char* name : {"VL15_dropped",
                             "excessive_buffer_overrun_errors",
                             "link_downed",
                             "link_error_recovery",
                             "local_link_integrity_errors",
                             "multicast_rcv_packets",
                             "multicast_xmit_packets",
                             "port_rcv_constraint_errors",
                             "port_rcv_data",
                             "port_rcv_errors",
                             "port_rcv_packets",
                             "port_rcv_remote_physical_errors",
                             "port_rcv_switch_relay_errors",
                             "port_xmit_constraint_errors",
                             "port_xmit_data",
                             "port_xmit_discards",
                             "port_xmit_packets",
                             "port_xmit_wait",
                             "symbol_error",
                             "unicast_rcv_packets",
                             "unicast_xmit_packets"})
        tree.file(fmt::format("{}/counters/{}", port_folder, name), "0");
    for (const char* name :
         {"out_of_buffer", "rx_atomic_requests", "rx_read_requests", "rx_write_requests"})
        tree.file(fmt::format("{}/hw_counters/{}", port_folder, name), "0");
    tree.file(port_folder + "/hw_counters/lifespan", "12"); // ms that a kernel keeps them
}

void write_rdma_port(TreeWriter& tree, const PortConfig& port, const std::string& folder) {
    tree.file(folder + "/state", "4: ACTIVE");
    tree.file(folder + "/phys_state", "5: LinkUp");
    tree.file(folder + "/link_layer", "Ethernet");
    tree.file(folder + "/rate", rate_text(port.speed_mbps));
    tree.file(folder + "/lid", "0x0");
    tree.file(folder + "/lid_mask_count", "0");
    tree.file(folder + "/sm_lid", "0x0");
    tree.file(folder + "/sm_sl", "0");
    tree.file(folder + "/cap_mask", "0x00000000");
    tree.file(folder + "/pkeys/0", "0xffff");
    // A port without RoCE has no GIDs, and a kernel's folder is then empty. But ibstat gives up on
    // a device where it cannot read the first one: it gets what a kernel shows for an unused entry.
    tree.file(folder + "/gids/0", "0000:0000:0000:0000:0000:0000:0000:0000");
    tree.folder(folder + "/gid_attrs/ndevs");
    tree.folder(folder + "/gid_attrs/types");
    write_counters(tree, folder);
}

void write_rdma(TreeWriter& tree, const PortConfig& port) {
    const std::string pci = pci_folder(port);
    const std::string device = pci + "/infiniband/" + port.device;
    tree.file(device + "/node_type", "1: CA");
    tree.file(device + "/node_guid", guid_text(port.mac));
    tree.file(device + "/sys_image_guid", guid_text(port.mac));
    tree.file(device + "/node_desc", "softhca");
    tree.file(device + "/fw_ver", firmware_version());
    tree.file(device + "/fw_pages", "0");
    tree.file(device + "/reg_pages", "0");
    tree.file(device + "/hca_type",
              fmt::format("MT{}", pci_device(port.steering_format.value_or(0))));
    tree.file(device + "/hw_rev", "0");
    tree.file(device + "/board_id", kBoardId);
    tree.file(device + "/uevent", "NAME=" + port.device);
    write_rdma_port(tree, port, device + "/ports/1");
    tree.link(device + "/device", pci);
    tree.link(device + "/subsystem", "/sys/class/infiniband");
    tree.link("/sys/class/infiniband/" + port.device, device);
}

void write_uverbs(TreeWriter& tree, const PortConfig& port, size_t index) {
    const std::string pci = pci_folder(port);
    const std::string name = fmt::format("uverbs{}", index);
    const std::string uverbs = pci + "/infiniband_verbs/" + name;
    const dev_t number = uverbs_device(index);
    tree.file(uverbs + "/dev", fmt::format("{}:{}", major(number), minor(number)));
    tree.file(uverbs + "/uevent", fmt::format("MAJOR={}\nMINOR={}\nDEVNAME=infiniband/{}",
                                              major(number), minor(number), name));
    tree.file(uverbs + "/ibdev", port.device);
    tree.file(uverbs + "/abi_version", "1"); // MLX5_IB_UVERBS_ABI_VERSION
    tree.link(uverbs + "/device", pci);
    tree.link(uverbs + "/subsystem", "/sys/class/infiniband_verbs");
    tree.link("/sys/class/infiniband_verbs/" + name, uverbs);
    tree.link_outside("/dev/infiniband/" + name, "/dev/null"); // stat(2) says uverbs_device()
}

void write_emulated_netdev(TreeWriter& tree, const PortConfig& port, size_t index) {
    const std::string net = pci_folder(port) + "/net/" + port.netdev;
    tree.file(net + "/ifindex", std::to_string(emulated_ifindex(index)));
    tree.file(net + "/iflink", std::to_string(emulated_ifindex(index)));
    tree.file(net + "/address", mac_text(port.mac));
    tree.file(net + "/addr_len", "6");
    tree.file(net + "/broadcast", "ff:ff:ff:ff:ff:ff");
    tree.file(net + "/mtu", std::to_string(port.mtu));
    tree.file(net + "/flags", "0x1003"); // UP BROADCAST MULTICAST
    tree.file(net + "/operstate", "up");
    tree.file(net + "/carrier", "1");
    tree.file(net + "/speed", std::to_string(port.speed_mbps));
    tree.file(net + "/duplex", "full");
    tree.file(net + "/type", "1");
    tree.file(net + "/tx_queue_len", "1000");
    for (const char* counter : {"rx_packets", "rx_bytes", "rx_dropped", "rx_errors", "tx_packets",
                                "tx_bytes", "tx_dropped", "tx_errors", "multicast"})
        tree.file(fmt::format("{}/statistics/{}", net, counter), "0");
}

/// A real TAP: the kernel's own files, through links, plus the ones that a TAP lacks.
void write_tap_netdev(TreeWriter& tree, const PortConfig& port) {
    const std::string net = pci_folder(port) + "/net/" + port.netdev;
    for (const char* name :
         {"ifindex", "iflink", "address", "addr_len", "broadcast", "mtu", "flags", "operstate",
          "carrier", "duplex", "type", "tx_queue_len", "statistics", "queues", "uevent"})
        tree.link_outside(fmt::format("{}/{}", net, name),
                          fmt::format("/sys/class/net/{}/{}", port.netdev, name));
    tree.file(net + "/speed", std::to_string(port.speed_mbps));
    // For programs that resolve the kernel's own link /sys/class/net/NAME themselves.
    tree.link("/sys/devices/virtual/net/" + port.netdev + "/device", pci_folder(port));
}

void write_netdev(TreeWriter& tree, const PortConfig& port, size_t index) {
    if (port.netdev.empty()) return;
    const std::string net = pci_folder(port) + "/net/" + port.netdev;
    if (port.netdev_tap)
        write_tap_netdev(tree, port);
    else
        write_emulated_netdev(tree, port, index);
    tree.file(net + "/dev_port", "0");
    tree.file(net + "/dev_id", "0x0");
    tree.link(net + "/device", pci_folder(port));
    tree.link(net + "/subsystem", "/sys/class/net");
    tree.link("/sys/class/net/" + port.netdev, net);
}

} // namespace

std::string tree_root(const std::string& runtime_dir) { return runtime_dir + "/root"; }

dev_t uverbs_device(size_t index) {
    constexpr unsigned kMajor = 231, kFirstMinor = 192; // as ib_uverbs has them
    return makedev(kMajor, kFirstMinor + static_cast<unsigned>(index));
}

std::string pci_folder(const PortConfig& port) {
    return fmt::format("/sys/devices/pci{}/{}", port.pci.substr(0, port.pci.rfind(':')), port.pci);
}

std::array<uint8_t, 8> guid_bytes(const std::array<uint8_t, 6>& mac) {
    return {static_cast<uint8_t>(mac[0] ^ 2), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
}

std::string guid_text(const std::array<uint8_t, 6>& mac) {
    const auto guid = guid_bytes(mac);
    return fmt::format("{:02x}{:02x}:{:02x}{:02x}:{:02x}{:02x}:{:02x}{:02x}", guid[0], guid[1],
                       guid[2], guid[3], guid[4], guid[5], guid[6], guid[7]);
}

std::string firmware_version() {
    return fmt::format("{}.{}.{:04}", kFirmwareMajor, kFirmwareMinor, kFirmwareSubminor);
}

std::string mac_text(const std::array<uint8_t, 6>& mac) {
    return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac[0], mac[1], mac[2], mac[3],
                       mac[4], mac[5]);
}

Result<void> build_tree(const Config& config) {
    const std::string root = tree_root(config.runtime_dir);
    const std::string draft = root + ".new";
    std::error_code error;
    fs::remove_all(draft, error);

    TreeWriter tree(draft);
    tree.file("/sys/class/infiniband_verbs/abi_version", "6"); // IB_USER_VERBS_ABI_VERSION
    // As where ib_umad is loaded and finds no InfiniBand port: libibumad looks for it.
    tree.file("/sys/class/infiniband_mad/abi_version", "5"); // IB_USER_MAD_ABI_VERSION
    for (size_t i = 0; i < config.ports.size(); i++) {
        write_pci(tree, config.ports[i]);
        write_rdma(tree, config.ports[i]);
        write_uverbs(tree, config.ports[i], i);
        write_netdev(tree, config.ports[i], i);
    }
    if (!tree.failure().empty())
        return fail(EIO, "cannot write the device files: {} (is {} writable, with room left?)",
                    tree.failure(), config.runtime_dir);
    fs::remove_all(root, error);
    fs::rename(draft, root, error);
    if (error)
        return fail(error.value(), "cannot put the device files in place: {}: {}", root,
                    error.message());
    return {};
}

} // namespace softhca::uverbs
