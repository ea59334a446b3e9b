// SPDX-License-Identifier: BSD-3-Clause
// A secondary process that forwards between ports 0 and 1, by queue 1 of each, until it is killed.
// On SIGUSR1 it says what port 0 answers.
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <signal.h>
#include <stdio.h>

static volatile sig_atomic_t asked;
static void ask(int number) { asked = number; }

static void answer(void) {
    struct rte_eth_stats stats = {0};
    struct rte_eth_link link = {0};
    const int read = rte_eth_stats_get(0, &stats);
    rte_eth_link_get(0, &link);
    printf("stats: %d, received: %lu, link: %s, stop: %d\n", read, (unsigned long)stats.ipackets,
           link.link_status ? "up" : "down", rte_eth_dev_stop(0));
    fflush(stdout);
}

int main(int argc, char** argv) {
    struct rte_mbuf* packets[32];
    if (rte_eal_init(argc, argv) < 0) return 1;
    signal(SIGUSR1, ask);
    puts("forwarding");
    fflush(stdout);
    for (uint16_t port = 0;; port ^= 1) {
        const uint16_t got = rte_eth_rx_burst(port, 1, packets, RTE_DIM(packets));
        const uint16_t sent = rte_eth_tx_burst(port ^ 1, 1, packets, got);
        rte_pktmbuf_free_bulk(packets + sent, got - sent);
        if (asked) answer();
        asked = 0;
    }
}
