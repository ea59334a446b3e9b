// SPDX-License-Identifier: BSD-3-Clause
// What is at the port's end of the cable, as far as ethdev covers it: FEC, the module's memory, the
// LED.
#include "tests/functional/ethdev/port.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <numeric>
#include <rte_dev_info.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace test {
namespace {

class Cable : public PortTest {
  protected:
    [[nodiscard]] static uint32_t fec() {
        rte_eth_link link;
        EXPECT_EQ(rte_eth_link_get(kPort, &link), 0); // waits for the link, which is trained again
        uint32_t mode = 0;
        EXPECT_EQ(rte_eth_fec_get(kPort, &mode), 0);
        return mode;
    }
    /// As another program would: ETHTOOL_PHYS_ID's error, or after a second 0 if it may blink.
    [[nodiscard]] static int blink() {
        rte_eth_dev_info info{};
        EXPECT_EQ(rte_eth_dev_info_get(kPort, &info), 0);
        ifreq request{};
        EXPECT_NE(if_indextoname(info.if_index, request.ifr_name), nullptr);
        ethtool_value command{ETHTOOL_PHYS_ID, 1};
        request.ifr_data = reinterpret_cast<char*>(&command);
        const int fd = socket(AF_INET, SOCK_DGRAM, 0);
        const int error = ioctl(fd, SIOCETHTOOL, &request) == 0 ? 0 : errno;
        close(fd);
        return error;
    }
};

TEST_F(Cable, FecModesAreThoseOfTheSpeed) {
    constexpr uint32_t kNone = RTE_ETH_FEC_MODE_CAPA_MASK(NOFEC),
                       kAuto = RTE_ETH_FEC_MODE_CAPA_MASK(AUTO),
                       kRs = RTE_ETH_FEC_MODE_CAPA_MASK(RS),
                       kBaseR = RTE_ETH_FEC_MODE_CAPA_MASK(BASER);
    const int count = rte_eth_fec_get_capability(kPort, nullptr, 0);
    ASSERT_GT(count, 0);
    std::vector<rte_eth_fec_capa> list(static_cast<size_t>(count));
    ASSERT_EQ(rte_eth_fec_get_capability(kPort, list.data(), static_cast<unsigned>(count)), count);
    EXPECT_EQ(list.back().speed, RTE_ETH_SPEED_NUM_100G);
    EXPECT_EQ(list.back().capa, kNone | kAuto | kRs);

    EXPECT_EQ(fec(), kRs) << "what a port of 100 Gbit/s does by itself";
    ASSERT_EQ(rte_eth_fec_set(kPort, kNone), 0);
    EXPECT_EQ(fec(), kNone);
    EXPECT_EQ(rte_eth_fec_set(kPort, kBaseR), -ENOTSUP) << "not at this speed";
    EXPECT_EQ(rte_eth_fec_set(kPort, 0), -EINVAL);
    EXPECT_EQ(rte_eth_fec_set(kPort, 1u << 30), -EINVAL);
    EXPECT_EQ(fec(), kNone);
    ASSERT_EQ(rte_eth_fec_set(kPort, kAuto), 0);
    EXPECT_EQ(fec(), kRs);
}

TEST_F(Cable, TheCableTellsOfItself) {
    rte_eth_dev_module_info info{};
    ASSERT_EQ(rte_eth_dev_get_module_info(kPort, &info), 0);
    EXPECT_EQ(info.type, static_cast<uint32_t>(RTE_ETH_MODULE_SFF_8636));
    ASSERT_GE(info.eeprom_len, 256u);
    std::vector<uint8_t> memory(256);
    rte_dev_eeprom_info request{};
    request.data = memory.data();
    request.length = static_cast<uint32_t>(memory.size());
    ASSERT_EQ(rte_eth_dev_get_module_eeprom(kPort, &request), 0);
    // SFF-8636: checksums over the description of the cable and over its serial number.
    const auto sum = [&](size_t first, size_t end) {
        return static_cast<uint8_t>(std::accumulate(memory.data() + first, memory.data() + end, 0));
    };
    EXPECT_EQ(memory[128], 0x11) << "QSFP28";
    EXPECT_EQ(memory[191], sum(128, 191));
    EXPECT_EQ(memory[223], sum(192, 223));

    std::vector<uint8_t> part(16); // the vendor name
    request.data = part.data();
    request.offset = 148;
    request.length = static_cast<uint32_t>(part.size());
    ASSERT_EQ(rte_eth_dev_get_module_eeprom(kPort, &request), 0);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), memory.begin() + 148));
    EXPECT_EQ(std::string(part.begin(), part.end()), "softhca         ");
    request.offset = info.eeprom_len;
    EXPECT_EQ(rte_eth_dev_get_module_eeprom(kPort, &request), -EINVAL);
}

TEST_F(Cable, TheLedBlinksUntilItIsTurnedOff) {
    ASSERT_EQ(rte_eth_led_on(kPort), 0);
    EXPECT_EQ(rte_eth_led_on(kPort), 0) << "on already";
    // Somebody else may get in between two seconds. The driver then retries every 50 ms, and
    // nothing reports when it succeeds.
    int error = blink();
    for (int patience = 0; patience < 10 && error != EBUSY; ++patience) {
        rte_delay_us_sleep(200'000);
        error = blink();
    }
    EXPECT_EQ(error, EBUSY);
    EXPECT_EQ(rte_eth_led_off(kPort), 0);
    EXPECT_EQ(blink(), 0);
    EXPECT_EQ(rte_eth_led_off(kPort), 0) << "off already";
}

} // namespace
} // namespace test
