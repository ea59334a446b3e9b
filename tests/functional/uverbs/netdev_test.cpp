// SPDX-License-Identifier: BSD-3-Clause
// The netdev of the port, emulated or a kernel's: socket ioctls, ethtool, sysfs.
#include "tests/functional/uverbs/verbs.hpp"

#include <climits>
#include <cstdlib>
#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <map>
#include <net/if.h>
#include <net/if_arp.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace test {
namespace {

/// A struct that ends in an array whose length is known only at run time.
template <class T> class WithTail {
  public:
    explicit WithTail(size_t tail_bytes) : words_((sizeof(T) + tail_bytes) / 8 + 1) {}
    T& operator*() { return *reinterpret_cast<T*>(words_.data()); }
    T* operator->() { return &**this; }

  private:
    std::vector<uint64_t> words_;
};

class NetdevTest : public VerbsTest {
  protected:
    void SetUp() override {
        VerbsTest::SetUp();
        netdev = netdev_name();
        socket_fd = socket(AF_INET, SOCK_DGRAM, 0);
        ASSERT_GE(socket_fd, 0);
    }
    void TearDown() override {
        set_mtu(1500);
        close(socket_fd);
        VerbsTest::TearDown();
    }
    [[nodiscard]] int call(unsigned long what) {
        return ioctl(socket_fd, what, &request) ? errno : 0;
    }
    int set_mtu(int mtu) {
        name(netdev.c_str());
        request.ifr_mtu = mtu;
        return call(SIOCSIFMTU);
    }
    void name(const char* interface) {
        request = {};
        std::strcpy(request.ifr_name, interface);
    }
    template <class Command> [[nodiscard]] int ethtool(Command& command) {
        name(netdev.c_str());
        request.ifr_data = reinterpret_cast<char*>(&command);
        return call(SIOCETHTOOL);
    }

    std::string netdev;
    int socket_fd = -1;
    ifreq request{};
};

TEST_F(NetdevTest, IndexAndName) {
    const unsigned index = if_nametoindex(netdev.c_str());
    ASSERT_NE(index, 0u);
    char back[IF_NAMESIZE] = {};
    ASSERT_EQ(if_indextoname(index, back), back);
    EXPECT_EQ(back, netdev);
    name(netdev.c_str());
    ASSERT_EQ(call(SIOCGIFINDEX), 0);
    EXPECT_EQ(static_cast<unsigned>(request.ifr_ifindex), index);
    request = {};
    request.ifr_ifindex = static_cast<int>(index);
    ASSERT_EQ(call(SIOCGIFNAME), 0);
    EXPECT_EQ(request.ifr_name, netdev);
    EXPECT_EQ(if_nametoindex("nosuch1"), 0u);
}

TEST_F(NetdevTest, OtherInterfacesAreTheKernels) {
    EXPECT_EQ(if_nametoindex("lo"), 1u);
    name("lo");
    ASSERT_EQ(call(SIOCGIFINDEX), 0);
    EXPECT_EQ(request.ifr_ifindex, 1);
    name("nosuch0");
    EXPECT_EQ(call(SIOCGIFMTU), ENODEV);
}

TEST_F(NetdevTest, AddressIsThatOfSysfs) {
    name(netdev.c_str());
    ASSERT_EQ(call(SIOCGIFHWADDR), 0);
    std::array<uint8_t, 6> mac{};
    std::memcpy(mac.data(), request.ifr_hwaddr.sa_data, mac.size());
    EXPECT_EQ(request.ifr_hwaddr.sa_family, ARPHRD_ETHER);
    EXPECT_EQ(mac[0] & 1, 0) << "multicast";
    std::string text;
    for (const uint8_t byte : mac)
        text += fmt::format("{}{:02x}", text.empty() ? "" : ":", byte);
    EXPECT_EQ(first_line("/sys/class/net/" + netdev + "/address"), text);
}

TEST_F(NetdevTest, MtuReachesThePort) {
    EXPECT_EQ(set_mtu(67), EINVAL);
    EXPECT_EQ(set_mtu(9979), EINVAL);
    ASSERT_EQ(set_mtu(9000), 0);
    name(netdev.c_str());
    ASSERT_EQ(call(SIOCGIFMTU), 0);
    EXPECT_EQ(request.ifr_mtu, 9000);
    EXPECT_EQ(first_line("/sys/class/net/" + netdev + "/mtu"), "9000");
    ibv_port_attr port{};
    ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
    EXPECT_EQ(port.active_mtu, IBV_MTU_4096);
}

/// Linux: iboe_get_mtu(). The headers of RoCE may have 96 bytes.
TEST_F(NetdevTest, RoceWouldHaveRoomForItsHeaders) {
    const std::map<int, int> cases = {{4192, IBV_MTU_4096}, {4191, IBV_MTU_2048},
                                      {608, IBV_MTU_512},   {607, IBV_MTU_256},
                                      {352, IBV_MTU_256},   {351, 0}};
    for (const auto& [mtu, expected] : cases) {
        ASSERT_EQ(set_mtu(mtu), 0);
        ibv_port_attr port{};
        ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
        EXPECT_EQ(port.active_mtu, expected) << mtu;
    }
}

TEST_F(NetdevTest, FramesBeyondTheMtuAreDropped) {
    Endpoint endpoint(context.get(), pd.get());
    endpoint.start();
    const FlowHandle flow = FlowBuilder().add(eth_spec()).create(endpoint.qp.get());
    const Frame large = UdpFrame{.size = 1519}.bytes(), largest = UdpFrame{.size = 1518}.bytes();
    ASSERT_EQ(endpoint.send(large), IBV_WC_SUCCESS);
    ASSERT_EQ(endpoint.send(largest), IBV_WC_SUCCESS);
    EXPECT_EQ(endpoint.receive(), largest);
    ASSERT_EQ(set_mtu(1600), 0);
    ASSERT_EQ(endpoint.send(large), IBV_WC_SUCCESS);
    EXPECT_EQ(endpoint.receive(), large);
}

TEST_F(NetdevTest, FlagsTellTheLink) {
    name(netdev.c_str());
    ASSERT_EQ(call(SIOCGIFFLAGS), 0);
    EXPECT_EQ(request.ifr_flags & (IFF_UP | IFF_RUNNING), IFF_UP | IFF_RUNNING);
    request.ifr_flags = IFF_PROMISC; // without IFF_UP
    ASSERT_EQ(call(SIOCSIFFLAGS), 0);
    ASSERT_EQ(call(SIOCGIFFLAGS), 0);
    EXPECT_EQ(request.ifr_flags & (IFF_UP | IFF_RUNNING | IFF_PROMISC), IFF_PROMISC);
    const std::string link = "/sys/class/net/" + netdev + "/operstate";
    const std::string port = "/sys/class/infiniband/mlx5_0/ports/1/state";
    EXPECT_EQ(first_line(link), "down");
    EXPECT_EQ(first_line(port), "1: DOWN");
    request.ifr_flags = IFF_UP;
    ASSERT_EQ(call(SIOCSIFFLAGS), 0);
    EXPECT_TRUE(wait_until([&] { return first_line(link) == "up"; })) << first_line(link);
    EXPECT_TRUE(wait_until([&] { return first_line(port) == "4: ACTIVE"; })) << first_line(port);
}

TEST_F(NetdevTest, LinkSettings) {
    ethtool_cmd old{};
    old.cmd = ETHTOOL_GSET;
    ASSERT_EQ(ethtool(old), 0);
    EXPECT_EQ(ethtool_cmd_speed(&old), 100000u);

    WithTail<ethtool_link_settings> link(3 * 127 * sizeof(uint32_t));
    link->cmd = ETHTOOL_GLINKSETTINGS;
    ASSERT_EQ(ethtool(*link), 0);
    const int words = -link->link_mode_masks_nwords;
    ASSERT_GT(words, 0) << "the first call asks for the number of words";
    link->cmd = ETHTOOL_GLINKSETTINGS;
    link->link_mode_masks_nwords = static_cast<int8_t>(words);
    ASSERT_EQ(ethtool(*link), 0);
    EXPECT_EQ(link->speed, 100000u);
    EXPECT_EQ(link->duplex, DUPLEX_FULL);
    EXPECT_EQ(link->link_mode_masks_nwords, words);

    ethtool_value up{};
    up.cmd = ETHTOOL_GLINK;
    ASSERT_EQ(ethtool(up), 0);
    EXPECT_EQ(up.data, 1u);
}

TEST_F(NetdevTest, ThePlugIsThatOfACopperCable) {
    ethtool_modinfo info{};
    info.cmd = ETHTOOL_GMODULEINFO;
    ASSERT_EQ(ethtool(info), 0);
    EXPECT_EQ(info.type, unsigned{ETH_MODULE_SFF_8636});
    constexpr uint32_t kBytes = 256;
    WithTail<ethtool_eeprom> memory(kBytes);
    memory->cmd = ETHTOOL_GMODULEEEPROM;
    memory->len = kBytes;
    ASSERT_EQ(ethtool(*memory), 0);
    const auto text = [&](size_t at) {
        return std::string(reinterpret_cast<const char*>(memory->data) + at, 16);
    };
    EXPECT_EQ(text(168), fmt::format("{:16}", "100G-CR4"));
    name(netdev.c_str());
    ASSERT_EQ(call(SIOCGIFHWADDR), 0);
    std::string serial;
    for (size_t i = 0; i < 6; i++)
        serial += fmt::format("{:02x}", static_cast<uint8_t>(request.ifr_hwaddr.sa_data[i]));
    EXPECT_EQ(text(196), fmt::format("{:16}", serial));
}

TEST_F(NetdevTest, CountersByName) {
    WithTail<ethtool_sset_info> sizes(sizeof(uint32_t));
    sizes->cmd = ETHTOOL_GSSET_INFO;
    sizes->sset_mask = 1u << ETH_SS_STATS;
    ASSERT_EQ(ethtool(*sizes), 0);
    const uint32_t count = sizes->data[0];
    ASSERT_GT(count, 0u);
    WithTail<ethtool_gstrings> names(count * ETH_GSTRING_LEN);
    names->cmd = ETHTOOL_GSTRINGS;
    names->string_set = ETH_SS_STATS;
    names->len = count;
    ASSERT_EQ(ethtool(*names), 0);
    const auto value = [&](const char* wanted) -> uint64_t {
        WithTail<ethtool_stats> values(count * sizeof(uint64_t));
        values->cmd = ETHTOOL_GSTATS;
        values->n_stats = count;
        EXPECT_EQ(ethtool(*values), 0);
        for (uint32_t i = 0; i < count; i++)
            if (std::strcmp(reinterpret_cast<char*>(names->data) + i * ETH_GSTRING_LEN, wanted) ==
                0)
                return values->data[i];
        ADD_FAILURE() << "no counter " << wanted;
        return 0;
    };
    const uint64_t before = value("tx_packets_phy");
    // Other tests have also sent tags.
    const uint64_t untagged_before = value("tx_prio0_packets");
    const uint64_t bytes_before = value("tx_prio0_bytes");
    Endpoint endpoint(context.get(), pd.get());
    endpoint.start();
    const Frame frame = UdpFrame{}.bytes();
    ASSERT_EQ(endpoint.send(frame), IBV_WC_SUCCESS);
    EXPECT_EQ(value("tx_packets_phy"), before + 1);
    EXPECT_EQ(value("tx_prio0_packets"), untagged_before + 1);
    EXPECT_EQ(value("tx_prio0_bytes"), bytes_before + frame.size());
    EXPECT_TRUE(wait_until([&] { // the cable returns it
        uint64_t of_all_sizes = 0;
        for (const char* size :
             {"64", "65_to_127", "128_to_255", "256_to_511", "512_to_1023", "1024_to_1518",
              "1519_to_2047", "2048_to_4095", "4096_to_8191", "8192_to_10239"})
            of_all_sizes += value(("rx_" + std::string(size) + "_bytes_phy").c_str());
        return of_all_sizes != 0 && of_all_sizes == value("rx_packets_phy");
    }));
    const uint64_t downs = value("link_down_events_phy");
    name(netdev.c_str());
    for (const int flags : {0, int{IFF_UP}}) {
        request.ifr_flags = static_cast<short>(flags);
        ASSERT_EQ(call(SIOCSIFFLAGS), 0);
    }
    EXPECT_EQ(value("link_down_events_phy"), downs + 1);
}

/// No kernel sends through the emulated netdev: it shows the port's counters.
TEST_F(NetdevTest, SysfsCountsThePortsPackets) {
    const auto count = [&](const char* name) {
        return std::stoull(first_line("/sys/class/net/" + netdev + "/statistics/" + name));
    };
    const uint64_t sent = count("tx_packets"), multicast = count("multicast");
    Endpoint endpoint(context.get(), pd.get());
    endpoint.start();
    const FlowHandle flow = FlowBuilder().add(eth_spec()).create(endpoint.qp.get());
    const UdpFrame to_one, to_some{.dst_mac = {1, 0, 0x5e, 0, 0, 1}},
        to_all{.dst_mac = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
    for (const UdpFrame& frame : {to_one, to_some, to_all}) {
        ASSERT_EQ(endpoint.send(frame.bytes()), IBV_WC_SUCCESS);
        EXPECT_EQ(endpoint.receive(), frame.bytes());
    }
    EXPECT_EQ(count("tx_packets"), sent + 3);
    EXPECT_EQ(count("multicast"), multicast + 1);
}

TEST_F(NetdevTest, BadRequestsDoNoHarm) {
    name(netdev.c_str());
    request.ifr_data = reinterpret_cast<char*>(0x1000);
    EXPECT_EQ(call(SIOCETHTOOL), EFAULT);
    uint32_t unknown = 0x7fff;
    EXPECT_EQ(ethtool(unknown), EOPNOTSUPP);
    name(netdev.c_str());
    EXPECT_EQ(call(SIOCGIFADDR), EADDRNOTAVAIL);
    name(netdev.c_str());
    request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
    request.ifr_hwaddr.sa_data[0] = 1; // multicast
    EXPECT_EQ(call(SIOCSIFHWADDR), EADDRNOTAVAIL);
}

TEST_F(NetdevTest, SysfsShowsTheDeviceAsAKernelWould) {
    const auto resolve = [](const std::string& path) {
        char resolved[PATH_MAX] = {};
        EXPECT_NE(realpath(path.c_str(), resolved), nullptr) << path;
        return std::string(resolved);
    };
    const std::string pci = resolve("/sys/class/infiniband/mlx5_0/device");
    EXPECT_TRUE(pci.starts_with("/sys/devices/pci")) << pci;
    EXPECT_EQ(first_line(pci + "/vendor"), "0x15b3");
    EXPECT_EQ(resolve("/sys/class/net/" + netdev + "/device/"), pci);
    EXPECT_EQ(first_line("/sys//class/infiniband/mlx5_0/node_type"), "1: CA");
    EXPECT_EQ(access("/sys/class/net/lo/mtu", R_OK), 0) << "the machine's own interfaces stay";
}

} // namespace
} // namespace test
