// SPDX-License-Identifier: BSD-3-Clause
// usage: ethdev-test [gtest options] EAL-OPTIONS, including a --vdev, which becomes port 0.
#include "tests/functional/ethdev/port.hpp"

#include <cstdio>
#include <rte_eal.h>

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv); // removes its own options
    if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
    if (rte_eal_init(argc, argv) < 0 || !rte_eth_dev_is_valid_port(test::kPort)) {
        std::fprintf(stderr, "EAL did not start, or there is no port %u\n", test::kPort);
        return 2;
    }
    const int status = RUN_ALL_TESTS();
    const int closed = rte_eth_dev_close(test::kPort);
    rte_eal_cleanup();
    return status != 0 ? status : closed;
}
