// SPDX-License-Identifier: BSD-3-Clause
// A secondary process that tries to set port 0, which is stopped, up as if it were the primary.
#include "ports.h"

int main(int argc, char** argv) {
    if (rte_eal_init(argc, argv) < 0) return 1;
    const struct rte_eth_conf conf = {0};
    struct rte_mempool* const pool = make_pool("own", 1023);
    struct rte_ether_addr address = {{2, 0, 0, 0, 0, 0x77}};
    printf("queues: %d %d", rte_eth_rx_queue_setup(0, 0, 256, SOCKET_ID_ANY, NULL, pool),
           rte_eth_tx_queue_setup(0, 0, 256, SOCKET_ID_ANY, NULL));
    printf(", address: %d", rte_eth_dev_mac_addr_remove(0, &address));
    printf(", port: %d\n", rte_eth_dev_configure(0, 1, 1, &conf));
    say("over");
    for (;;)
        pause();
}
