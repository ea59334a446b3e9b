// SPDX-License-Identifier: BSD-3-Clause
// What a secondary process asks of its primary. The primary starts port 0 and leaves the address of
// its rule in a memzone. The secondary receives 20 packets on that port, prints the answers to its
// questions, and sends 20 packets from a mempool of its own, then one more at each SIGUSR1.
#include "ports.h"

#include <rte_errno.h>
#include <rte_interrupts.h>
#include <rte_mtr.h>
#include <signal.h>

enum { PORT = 0, PACKETS = 20 };

static volatile sig_atomic_t asked;
static void ask(int number) { asked = number; }

static int primary(void) {
    struct rte_mempool* const pool = make_pool("rx", 4095);
    union rte_eth_rxseg segments[] = {{.split = {.mp = pool, .length = 64}},
                                      {.split = {.mp = pool, .length = 1600, .offset = 128}}};
    const struct rte_eth_rxconf split = {.rx_seg = segments,
                                         .rx_nseg = 2,
                                         .offloads = RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT |
                                                     RTE_ETH_RX_OFFLOAD_SCATTER};
    struct rte_flow* const rule = pool != NULL ? start_port(PORT, pool, &split) : NULL;
    memset(segments, 0, sizeof segments); // the driver may use them during the call only
    if (!leave_rule(rule)) return 2;
    say("the rule is there");
    for (;;)
        pause();
}

static void tell_count(struct rte_flow* rule) {
    const struct rte_flow_action count[] = {{.type = RTE_FLOW_ACTION_TYPE_COUNT},
                                            {.type = RTE_FLOW_ACTION_TYPE_END}};
    struct rte_flow_query_count data = {.reset = 1};
    struct rte_flow_error error;
    const int result = rte_flow_query(PORT, rule, count, &data, &error);
    printf("query: %d, hits: %lu\n", result, (unsigned long)data.hits);
}

static void tell_clock(void) {
    uint64_t time = 0;
    const int result = rte_eth_read_clock(PORT, &time);
    printf("clock: %d, %lu\n", result, (unsigned long)time);
}

static void tell_split(void) {
    struct rte_eth_rxq_info info;
    printf("queue 0: %d", rte_eth_rx_queue_info_get(PORT, 0, &info));
    for (uint16_t i = 0; i < info.conf.rx_nseg; ++i) {
        const struct rte_eth_rxseg_split* const segment = &info.conf.rx_seg[i].split;
        printf(", %u bytes at %u of %s", segment->length, segment->offset, segment->mp->name);
    }
    printf("\n");
}

/// Only the primary can map memory.
static void tell_mapping(void* memory) {
    struct rte_eth_dev_info info;
    const int known = rte_eth_dev_info_get(PORT, &info);
    const int result = rte_dev_dma_map(info.device, memory, 0, 4096);
    printf("map: %d, %d, %s\n", known, result, rte_strerror(rte_errno));
}

/// Calls that only the primary may make: each fails and leaves the rules as they are.
static void tell_refused(void) {
    struct rte_flow_error error;
    struct rte_flow_op_result done;
    struct rte_mtr_capabilities meters;
    struct rte_mtr_error meter_error;
    struct timespec time;
    printf("refused: %d %d %d %d", rte_flow_flush(PORT, &error), rte_flow_isolate(PORT, 1, &error),
           rte_flow_push(PORT, 0, &error), rte_flow_pull(PORT, 0, &done, 1, &error));
    printf(" %d", rte_mtr_capabilities_get(PORT, &meters, &meter_error));
    printf(" %d %d\n", rte_eth_timesync_enable(PORT), rte_eth_timesync_read_time(PORT, &time));
}

static unsigned long received(void) {
    struct rte_eth_stats stats;
    return rte_eth_stats_get(PORT, &stats) == 0 ? (unsigned long)stats.ipackets : ~0ul;
}

static uint16_t send_one(struct rte_mempool* pool) {
    struct rte_mbuf* packet = rte_pktmbuf_alloc(pool);
    uint8_t* frame = (uint8_t*)rte_pktmbuf_append(packet, 60);
    memset(frame, 0, 60);
    frame[0] = 0x02;
    frame[6] = 0x02;
    frame[7] = 0x01;
    const uint16_t sent = rte_eth_tx_burst(PORT, QUEUE, &packet, 1);
    if (sent == 0) rte_pktmbuf_free(packet);
    return sent;
}

static int secondary(void) {
    struct rte_mbuf* packets[PACKETS];
    struct rte_flow* const rule = rule_of_primary();
    signal(SIGUSR1, ask);
    printf("empty: %d\n", rte_eth_rx_descriptor_status(PORT, QUEUE, 0));
    tell_clock();
    printf("interrupt: %d, %d\n", rte_eth_dev_rx_intr_enable(PORT, QUEUE),
           rte_eth_dev_rx_intr_ctl_q(PORT, QUEUE, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD, NULL));
    tell_refused();
    tell_split();
    say("polling");
    while (rte_eth_rx_descriptor_status(PORT, QUEUE, PACKETS - 1) != RTE_ETH_RX_DESC_DONE)
        ;
    printf("waiting: %d\n", rte_eth_rx_queue_count(PORT, QUEUE));
    uint16_t got = 0;
    while (got < PACKETS)
        got += rte_eth_rx_burst(PORT, QUEUE, packets + got, PACKETS - got);
    rte_pktmbuf_free_bulk(packets, got);
    tell_count(rule);
    tell_count(rule);
    tell_count((struct rte_flow*)packets); // not a rule of the primary
    tell_mapping(rte_memzone_lookup("rule")->addr);
    printf("received: %lu", received());
    rte_eth_stats_reset(PORT);
    printf(", after reset: %lu\n", received());
    struct rte_mempool* const pool = make_pool("own", 16383);
    uint16_t sent = 0;
    for (int i = 0; i < PACKETS; ++i)
        sent += send_one(pool);
    printf("sent: %u\n", sent);
    fflush(stdout);
    for (;;) {
        if (!asked) continue;
        asked = 0;
        printf("one more: %u\n", send_one(pool));
        fflush(stdout);
    }
}

int main(int argc, char** argv) {
    if (rte_eal_init(argc, argv) < 0) return 1;
    return rte_eal_process_type() == RTE_PROC_PRIMARY ? primary() : secondary();
}
