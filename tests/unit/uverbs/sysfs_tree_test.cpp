// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/sysfs_tree.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace softhca::uverbs {
namespace {

namespace fs = std::filesystem;

class BuildTree : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "sysfs-tree-XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        config.runtime_dir = folder = name;
        for (int i = 0; i < 2; i++) {
            PortConfig port;
            port.device = fmt::format("mlx5_{}", i);
            port.pci = fmt::format("0000:ca:00.{}", i);
            port.mac = {2, 0x15, 0xb3, 0, 0, static_cast<uint8_t>(i)};
            port.netdev = fmt::format("soft{}", i);
            port.mtu = 9000;
            config.ports.push_back(port);
        }
    }
    void TearDown() override { fs::remove_all(folder); }
    [[nodiscard]] fs::path root() const { return tree_root(config.runtime_dir); }
    [[nodiscard]] std::string line(const std::string& path) const {
        std::ifstream file(root() / fs::path(path).relative_path());
        std::string text;
        std::getline(file, text);
        return text;
    }

    Config config;
    std::string folder;
};

TEST_F(BuildTree, EveryWayToADeviceLeadsToTheSameFiles) {
    ASSERT_TRUE(build_tree(config));
    EXPECT_EQ(line("/sys/class/infiniband_verbs/abi_version"), "6");
    EXPECT_EQ(line("/sys/class/infiniband_verbs/uverbs1/ibdev"), "mlx5_1");
    EXPECT_EQ(line("/sys/class/infiniband_verbs/uverbs1/uevent"), "MAJOR=231");
    EXPECT_EQ(line("/sys/class/infiniband/mlx5_1/node_guid"), "0015:b3ff:fe00:0001");
    for (const char* way :
         {"/sys/bus/pci/devices/0000:ca:00.1", "/sys/class/infiniband/mlx5_1/device",
          "/sys/class/infiniband_verbs/uverbs1/device", "/sys/class/net/soft1/device"}) {
        EXPECT_EQ(line(std::string(way) + "/vendor"), "0x15b3") << way;
        EXPECT_EQ(line(std::string(way) + "/net/soft1/mtu"), "9000") << way;
        EXPECT_EQ(line(std::string(way) + "/infiniband/mlx5_1/node_type"), "1: CA") << way;
    }
    EXPECT_EQ(fs::read_symlink(root() / "dev/infiniband/uverbs0"), "/dev/null");
}

TEST_F(BuildTree, WhatADeviceIsFollowsItsSteeringFormat) {
    config.ports[1].steering_format = 1;
    ASSERT_TRUE(build_tree(config));
    const std::string first = "/sys/bus/pci/devices/0000:ca:00.0/";
    const std::string second = "/sys/bus/pci/devices/0000:ca:00.1/";
    EXPECT_EQ(line(first + "device"), "0x1017");
    EXPECT_EQ(line(second + "device"), "0x101d");
    EXPECT_EQ(line(second + "modalias").substr(0, 22), "pci:v000015B3d0000101D");
    EXPECT_EQ(line(second + "infiniband/mlx5_1/hca_type"), "MT4125");
    EXPECT_EQ(line(second + "roce_enable"), "0");
}

TEST_F(BuildTree, TheRateIsToldAsTheKernelSpellsIt) {
    config.ports[0].speed_mbps = 1000; // no IB rate is that low
    config.ports[1].speed_mbps = 50000;
    ASSERT_TRUE(build_tree(config));
    EXPECT_EQ(line("/sys/class/infiniband/mlx5_0/ports/1/rate"), "2.5 Gb/sec (1X SDR)");
    EXPECT_EQ(line("/sys/class/infiniband/mlx5_1/ports/1/rate"), "50 Gb/sec (1X HDR)");
}

TEST_F(BuildTree, LinksStayInsideTheTree) {
    ASSERT_TRUE(build_tree(config));
    for (const auto& entry : fs::recursive_directory_iterator(root())) {
        if (!entry.is_symlink() || fs::read_symlink(entry.path()) == "/dev/null") continue;
        EXPECT_TRUE(fs::read_symlink(entry.path()).is_relative()) << entry.path();
        EXPECT_TRUE(
            fs::canonical(entry.path()).string().starts_with(fs::canonical(root()).string()));
    }
}

TEST_F(BuildTree, ATapShowsTheKernelsOwnFiles) {
    config.ports[0].netdev_tap = true;
    config.ports[0].netdev = "lo"; // stands in for a TAP: it is always there
    ASSERT_TRUE(build_tree(config));
    EXPECT_EQ(line("/sys/class/infiniband/mlx5_0/device/net/lo/address"), "00:00:00:00:00:00");
    EXPECT_EQ(line("/sys/class/net/lo/device/vendor"), "0x15b3");
}

TEST_F(BuildTree, RebuiltFromScratch) {
    ASSERT_TRUE(build_tree(config));
    config.ports.pop_back();
    ASSERT_TRUE(build_tree(config));
    EXPECT_FALSE(fs::exists(root() / "sys/class/infiniband/mlx5_1"));
    EXPECT_FALSE(fs::exists(root().string() + ".new"));
}

TEST_F(BuildTree, AFolderThatCannotBeIsAClearError) {
    config.runtime_dir = folder + "/file";
    std::ofstream(config.runtime_dir).put('x');
    const auto built = build_tree(config);
    ASSERT_FALSE(built);
    EXPECT_NE(built.error().what.find(config.runtime_dir), std::string::npos) << built.error().what;
}

} // namespace
} // namespace softhca::uverbs
