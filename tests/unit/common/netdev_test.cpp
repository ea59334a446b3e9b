// SPDX-License-Identifier: BSD-3-Clause
// Finding netdevs and RDMA ports in a sysfs tree made for the test, and reading a real interface.
#include "common/netdev/netdev.hpp"

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <linux/ethtool.h>

namespace fs = std::filesystem;

namespace netdev {
namespace {

/// A sysfs tree in a temporary folder.
class SysfsTree : public testing::Test {
  protected:
    SysfsTree() {
        std::string pattern = (fs::temp_directory_path() / "rawqp-sysfs-XXXXXX").string();
        root = mkdtemp(pattern.data());
    }
    ~SysfsTree() override { fs::remove_all(root); }

    void write(const std::string& path, const std::string& text) {
        fs::create_directories((root / path).parent_path());
        std::ofstream(root / path) << text << '\n';
    }
    /// An RDMA device with `ports` ports on a PCI function.
    void add_device(const std::string& name, const std::string& pci, unsigned ports = 1) {
        fs::create_directories(root / "devices" / pci);
        fs::create_directories(root / "class/infiniband" / name);
        fs::create_directory_symlink(root / "devices" / pci,
                                     root / "class/infiniband" / name / "device");
        for (unsigned port = 1; port <= ports; ++port)
            write("class/infiniband/" + name + "/ports/" + std::to_string(port) + "/state",
                  "4: ACTIVE");
    }
    /// A netdev; with `pci`, on that function as port `dev_port`.
    void add_netdev(const std::string& name, const std::string& pci = "", unsigned dev_port = 0) {
        write("class/net/" + name + "/mtu", "1500");
        if (pci.empty()) return;
        fs::create_directory_symlink(root / "devices" / pci, root / "class/net" / name / "device");
        write("devices/" + pci + "/net/" + name + "/dev_port", std::to_string(dev_port));
    }
    void add_gid(const std::string& device, unsigned port, unsigned index,
                 const std::string& name) {
        write("class/infiniband/" + device + "/ports/" + std::to_string(port) +
                  "/gid_attrs/ndevs/" + std::to_string(index),
              name);
    }
    [[nodiscard]] Sysfs sysfs() const { return Sysfs(root.string()); }

    fs::path root;
};

TEST_F(SysfsTree, NetdevByGidTable) {
    add_device("mlx5_0", "0000:ca:00.0");
    add_netdev("ens1", "0000:ca:00.0");
    add_gid("mlx5_0", 1, 0, "ens1");
    EXPECT_EQ(sysfs().netdev_of("mlx5_0", 1).value(), "ens1");
}

TEST_F(SysfsTree, NetdevOnHardwareBeforeVlan) {
    add_device("mlx5_0", "0000:ca:00.0");
    add_netdev("ens1", "0000:ca:00.0");
    add_netdev("ens1.7");
    add_gid("mlx5_0", 1, 0, "ens1.7");
    add_gid("mlx5_0", 1, 2, "");
    add_gid("mlx5_0", 1, 10, "ens1");
    EXPECT_EQ(sysfs().netdev_of("mlx5_0", 1).value(), "ens1");
}

TEST_F(SysfsTree, NetdevWithoutHardware) {
    add_device("mlx5_0", "0000:ca:00.0");
    add_netdev("tap0");
    add_gid("mlx5_0", 1, 0, "tap0");
    EXPECT_EQ(sysfs().netdev_of("mlx5_0", 1).value(), "tap0");
}

TEST_F(SysfsTree, NetdevByDevPort) {
    add_device("mlx4_0", "0000:05:00.0", 2);
    add_netdev("ens2", "0000:05:00.0", 0);
    add_netdev("ens2d1", "0000:05:00.0", 1);
    EXPECT_EQ(sysfs().netdev_of("mlx4_0", 1).value(), "ens2");
    EXPECT_EQ(sysfs().netdev_of("mlx4_0", 2).value(), "ens2d1");
}

TEST_F(SysfsTree, NetdevElsewhere) {
    add_device("mlx5_0", "0000:ca:00.0");
    add_gid("mlx5_0", 1, 0, "ens1"); // in the GID table, but not in this namespace
    const Result<std::string> found = sysfs().netdev_of("mlx5_0", 1);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, ENOENT);
}

TEST_F(SysfsTree, RdmaPortOfNetdev) {
    add_device("mlx4_0", "0000:05:00.0", 2);
    add_device("mlx5_0", "0000:ca:00.0");
    add_netdev("ens2", "0000:05:00.0", 0);
    add_netdev("ens2d1", "0000:05:00.0", 1);
    add_netdev("ens1", "0000:ca:00.0");
    const Result<RdmaPort> port = sysfs().rdma_port_of("ens2d1");
    ASSERT_TRUE(port);
    EXPECT_EQ(port->device, "mlx4_0");
    EXPECT_EQ(port->port, 2);
    EXPECT_EQ(sysfs().rdma_port_of("ens1").value().device, "mlx5_0");
}

TEST_F(SysfsTree, ErrorsNameTheBrokenLink) {
    add_device("mlx5_0", "0000:ca:00.0");
    add_netdev("eth0");
    const Error no_rdma = sysfs().rdma_port_of("eth0").error();
    EXPECT_EQ(no_rdma.code, ENOENT);
    EXPECT_NE(no_rdma.what.find("eth0 has no RDMA device"), std::string::npos) << no_rdma.what;
    const Error no_netdev = sysfs().rdma_port_of("eth7").error();
    EXPECT_EQ(no_netdev.code, ENODEV);
    EXPECT_NE(no_netdev.what.find("no network interface \"eth7\""), std::string::npos);
    EXPECT_EQ(sysfs().rdma_port_of("../net/eth0").error().code, EINVAL);
    EXPECT_EQ(sysfs().rdma_port_of("").error().code, EINVAL);
    EXPECT_EQ(sysfs().rdma_port_of("a-name-too-long-for-linux").error().code, EINVAL);
}

TEST_F(SysfsTree, DevicesSortedAndBusAddress) {
    add_device("mlx5_10", "0000:cb:00.0");
    add_device("mlx5_0", "0000:ca:00.0");
    EXPECT_EQ(sysfs().rdma_devices(), (std::vector<std::string>{"mlx5_0", "mlx5_10"}));
    EXPECT_EQ(sysfs().bus_address("mlx5_10"), "0000:cb:00.0");
    EXPECT_EQ(sysfs().bus_address("mlx5_9"), "");
    EXPECT_EQ(sysfs().numa_node("mlx5_0"), -1);
    write("devices/0000:ca:00.0/numa_node", "1");
    EXPECT_EQ(sysfs().numa_node("mlx5_0"), 1);
}

TEST_F(SysfsTree, NoRdmaAtAll) {
    EXPECT_TRUE(sysfs().rdma_devices().empty());
    EXPECT_TRUE(sysfs().hw_counter_names("mlx5_0", 1).empty());
}

TEST_F(SysfsTree, HardwareCounters) {
    add_device("mlx5_0", "0000:ca:00.0");
    const std::string folder = "class/infiniband/mlx5_0/ports/1/hw_counters/";
    write(folder + "out_of_buffer", "18446744073709551615");
    write(folder + "lifespan", "10");
    write(folder + "broken", "N/A (no PMA)");
    const std::vector<Counter> counters = sysfs().hw_counters("mlx5_0", 1);
    ASSERT_EQ(counters.size(), 1u) << "no number, and a setting";
    EXPECT_EQ(counters[0].name, "out_of_buffer");
    EXPECT_EQ(counters[0].value, UINT64_MAX);
    EXPECT_EQ(sysfs().hw_counter("mlx5_0", 1, "out_of_buffer").value(), UINT64_MAX);
    EXPECT_EQ(sysfs().hw_counter("mlx5_0", 1, "broken").error().code, ENOENT);
}

TEST(Netdev, Loopback) {
    const Netdev lo("lo");
    EXPECT_EQ(lo.mac().value(), MacAddress{});
    EXPECT_GT(lo.index().value(), 0u);
    EXPECT_GT(lo.mtu().value(), 0u);
    EXPECT_TRUE(lo.counters().value().empty());
    EXPECT_EQ(lo.link().value().speed_mbps, 0u);
}

TEST(Netdev, SpeedsOfLinkModes) {
    std::array<uint32_t, 3> mask{};
    const auto set = [&](unsigned bit) { mask[bit / 32] |= 1u << bit % 32; };
    EXPECT_EQ(speeds_of_modes({}), std::vector<uint32_t>{});
    for (const unsigned bit : {ETHTOOL_LINK_MODE_Autoneg_BIT, ETHTOOL_LINK_MODE_FIBRE_BIT,
                               ETHTOOL_LINK_MODE_FEC_RS_BIT, ETHTOOL_LINK_MODE_10baseT_Half_BIT})
        set(bit); // not speeds, or half duplex
    EXPECT_EQ(speeds_of_modes(mask), std::vector<uint32_t>{});
    for (const unsigned bit :
         {ETHTOOL_LINK_MODE_200000baseDR2_Full_BIT, ETHTOOL_LINK_MODE_25000baseKR_Full_BIT,
          ETHTOOL_LINK_MODE_1000baseKX_Full_BIT, ETHTOOL_LINK_MODE_100000baseSR_Full_BIT,
          ETHTOOL_LINK_MODE_100000baseLR4_ER4_Full_BIT,
          ETHTOOL_LINK_MODE_50000baseLR_ER_FR_Full_BIT, ETHTOOL_LINK_MODE_10000baseLRM_Full_BIT,
          ETHTOOL_LINK_MODE_40000baseSR4_Full_BIT})
        set(bit);
    EXPECT_EQ(speeds_of_modes(mask),
              (std::vector<uint32_t>{1000, 10000, 25000, 40000, 50000, 100000, 200000}));
    EXPECT_EQ(speeds_of_modes(std::span(mask).first(1)), (std::vector<uint32_t>{1000, 40000}));
}

TEST(Netdev, SpeedsByAnyNumberOfLanes) {
    constexpr std::pair<unsigned, uint32_t> kModes[] = {
        {ETHTOOL_LINK_MODE_10000baseKR_Full_BIT, 10000},
        {ETHTOOL_LINK_MODE_20000baseKR2_Full_BIT, 20000},
        {ETHTOOL_LINK_MODE_50000baseCR2_Full_BIT, 50000},
        {ETHTOOL_LINK_MODE_50000baseSR2_Full_BIT, 50000},
        {ETHTOOL_LINK_MODE_56000baseLR4_Full_BIT, 56000},
        {ETHTOOL_LINK_MODE_100000baseKR4_Full_BIT, 100000},
        {ETHTOOL_LINK_MODE_100000baseCR2_Full_BIT, 100000},
        {ETHTOOL_LINK_MODE_200000baseCR4_Full_BIT, 200000},
        {ETHTOOL_LINK_MODE_400000baseSR8_Full_BIT, 400000},
        {ETHTOOL_LINK_MODE_400000baseCR4_Full_BIT, 400000}};
    for (const auto& [bit, mbps] : kModes) {
        std::array<uint32_t, 3> mask{};
        mask[bit / 32] = 1u << bit % 32;
        EXPECT_EQ(speeds_of_modes(mask), std::vector{mbps}) << bit;
    }
}

TEST(Netdev, FecOfLinkModes) {
    std::array<uint32_t, 3> mask{};
    const auto set = [&](unsigned bit) { mask[bit / 32] |= 1u << bit % 32; };
    EXPECT_EQ(fec_of_modes({}), 0u);
    set(ETHTOOL_LINK_MODE_100000baseCR4_Full_BIT);
    EXPECT_EQ(fec_of_modes(mask), 0u);
    set(ETHTOOL_LINK_MODE_FEC_NONE_BIT);
    set(ETHTOOL_LINK_MODE_FEC_RS_BIT);
    EXPECT_EQ(fec_of_modes(mask), uint32_t{ETHTOOL_FEC_OFF | ETHTOOL_FEC_RS});
    set(ETHTOOL_LINK_MODE_FEC_BASER_BIT);
    set(ETHTOOL_LINK_MODE_FEC_LLRS_BIT);
    EXPECT_EQ(fec_of_modes(mask),
              uint32_t{ETHTOOL_FEC_OFF | ETHTOOL_FEC_RS | ETHTOOL_FEC_BASER | ETHTOOL_FEC_LLRS});
}

TEST(Netdev, WhatTheDriverLacksIsRefused) {
    const Error refusal = Netdev("lo").pause().error();
    EXPECT_EQ(refusal.code, EOPNOTSUPP);
    EXPECT_EQ(refusal.what, "lo: cannot get the flow control: Operation not supported: the "
                            "interface's driver or device cannot");
    EXPECT_EQ(Netdev("lo").fec().error().code, EOPNOTSUPP);
    EXPECT_EQ(Netdev("lo").supported_fec().error().code, EOPNOTSUPP);
}

TEST(Netdev, AbsentAndUnknown) {
    EXPECT_FALSE(Netdev().present());
    EXPECT_EQ(Netdev().mac().error().code, ENODEV);
    const Error unknown = Netdev("no-such-if").mtu().error();
    EXPECT_EQ(unknown.code, ENODEV);
    EXPECT_NE(unknown.what.find("no-such-if: cannot get the MTU"), std::string::npos);
}

} // namespace
} // namespace netdev
