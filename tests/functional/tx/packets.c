// SPDX-License-Identifier: BSD-3-Clause
// Sends packets in bursts of up to 7. Each line of the given file describes one: flags, header lengths, segment
// size, VLAN tags, the number of bytes in each mbuf, and the contents in hexadecimal.
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PORT = 0, BURST = 7, RX_MBUFS = 64 };

static uint8_t digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

static void fill(struct rte_mempool* pool, struct rte_mbuf** head, const char* lengths, const char* hex) {
    struct rte_mbuf* last = NULL;
    for (char* end; *lengths != 0; lengths = *end != 0 ? end + 1 : end) {
        const unsigned bytes = strtoul(lengths, &end, 10);
        struct rte_mbuf* const segment = rte_pktmbuf_alloc(pool);
        uint8_t* to = (uint8_t*)rte_pktmbuf_append(segment, bytes);
        for (unsigned i = 0; i < bytes; ++i, hex += 2)
            to[i] = digit(hex[0]) << 4 | digit(hex[1]);
        if (last == NULL) *head = segment;
        else rte_pktmbuf_chain(*head, segment);
        last = segment;
    }
}

static void send_all(struct rte_mbuf** packets, uint16_t count) {
    for (uint16_t sent = 0; sent < count;)
        sent += rte_eth_tx_burst(PORT, 0, packets + sent, count - sent);
}

int main(int argc, char** argv) {
    const int used = rte_eal_init(argc, argv);
    if (used < 0) return 1;
    struct rte_mempool* const pool = rte_pktmbuf_pool_create("tx", 8191, 0, 0, 4096, SOCKET_ID_ANY);
    struct rte_eth_dev_info info;
    rte_eth_dev_info_get(PORT, &info);
    struct rte_eth_conf conf = {0};
    conf.rxmode.mtu = 9600;
    conf.rxmode.offloads = RTE_ETH_RX_OFFLOAD_SCATTER;
    conf.txmode.offloads = info.tx_offload_capa & ~(RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE | RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP);
    if (pool == NULL || rte_eth_dev_configure(PORT, 1, 1, &conf) != 0 ||
        rte_eth_rx_queue_setup(PORT, 0, RX_MBUFS, SOCKET_ID_ANY, NULL, pool) != 0 ||
        rte_eth_tx_queue_setup(PORT, 0, 256, SOCKET_ID_ANY, NULL) != 0 || rte_eth_dev_start(PORT) != 0)
        return 2;
    FILE* const file = fopen(argv[used + 1], "r");
    static char lengths[4096], hex[200000];
    unsigned long flags;
    unsigned l2, l3, l4, outer_l2, outer_l3, size, tag, outer_tag, number = 0;
    struct rte_mbuf* packets[BURST];
    uint16_t waiting = 0;
    while (fscanf(file, "%lx %u %u %u %u %u %u %u %u %4095s %199999s", &flags, &l2, &l3, &l4, &outer_l2, &outer_l3,
                  &size, &tag, &outer_tag, lengths, hex) == 11) {
        struct rte_mbuf* packet = NULL;
        fill(pool, &packet, lengths, hex);
        packet->ol_flags |= flags;
        packet->l2_len = l2, packet->l3_len = l3, packet->l4_len = l4;
        packet->outer_l2_len = outer_l2, packet->outer_l3_len = outer_l3;
        packet->tso_segsz = size, packet->vlan_tci = tag, packet->vlan_tci_outer = outer_tag;
        if (rte_eth_tx_prepare(PORT, 0, &packet, 1) != 1)
            printf("refused %u: %s\n", number, rte_strerror(rte_errno));
        ++number;
        packets[waiting++] = packet;
        if (waiting < 1 + number % BURST) continue;
        send_all(packets, waiting);
        waiting = 0;
    }
    send_all(packets, waiting);
    for (unsigned i = 0; i < 100 && rte_mempool_in_use_count(pool) > RX_MBUFS; ++i) {
        rte_eth_tx_done_cleanup(PORT, 0, 0);
        rte_delay_ms(50);
    }
    printf("sent %u, mbufs kept %d\n", number, (int)rte_mempool_in_use_count(pool) - RX_MBUFS);
    fflush(stdout);
    for (;;)
        pause();
}
