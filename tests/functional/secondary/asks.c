// SPDX-License-Identifier: BSD-3-Clause
// What a secondary process asks of its primary. As primary: port 0 with two queues, and a rule that
// counts what goes to queue 1, where the secondary finds it. As secondary: takes 20 packets there,
// says what it was told, sends 20 from a mempool of its own, and goes on with single ones at each
// SIGUSR1.
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_mbuf.h>
#include <rte_memzone.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PORT = 0, QUEUE = 1, PACKETS = 20 };

static volatile sig_atomic_t asked;
static void ask(int number) { asked = number; }

static struct rte_flow* make_rule(void) {
    const struct rte_flow_attr attr = {.ingress = 1};
    const struct rte_flow_item pattern[] = {{.type = RTE_FLOW_ITEM_TYPE_ETH},
                                            {.type = RTE_FLOW_ITEM_TYPE_END}};
    const struct rte_flow_action_queue queue = {.index = QUEUE};
    const struct rte_flow_action actions[] = {
        {.type = RTE_FLOW_ACTION_TYPE_COUNT},
        {.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue},
        {.type = RTE_FLOW_ACTION_TYPE_END}};
    struct rte_flow_error error;
    return rte_flow_create(PORT, &attr, pattern, actions, &error);
}

static int primary(void) {
    const struct rte_eth_conf conf = {0};
    struct rte_mempool* pool =
        rte_pktmbuf_pool_create("rx", 4095, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    if (pool == NULL || rte_eth_dev_configure(PORT, 2, 2, &conf) != 0) return 2;
    for (uint16_t queue = 0; queue < 2; ++queue)
        if (rte_eth_rx_queue_setup(PORT, queue, 256, 0, NULL, pool) != 0 ||
            rte_eth_tx_queue_setup(PORT, queue, 256, 0, NULL) != 0)
            return 3;
    if (rte_eth_dev_start(PORT) != 0) return 4;
    struct rte_flow* rule = make_rule();
    const struct rte_memzone* zone = rte_memzone_reserve("rule", sizeof rule, SOCKET_ID_ANY, 0);
    if (rule == NULL || zone == NULL) return 5;
    memcpy(zone->addr, &rule, sizeof rule);
    puts("the rule is there");
    fflush(stdout);
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
    struct rte_flow* rule;
    memcpy(&rule, rte_memzone_lookup("rule")->addr, sizeof rule);
    signal(SIGUSR1, ask);
    printf("empty: %d\n", rte_eth_rx_descriptor_status(PORT, QUEUE, 0));
    puts("polling");
    fflush(stdout);
    while (rte_eth_rx_descriptor_status(PORT, QUEUE, PACKETS - 1) != RTE_ETH_RX_DESC_DONE)
        ;
    printf("waiting: %d\n", rte_eth_rx_queue_count(PORT, QUEUE));
    uint16_t got = 0;
    while (got < PACKETS)
        got += rte_eth_rx_burst(PORT, QUEUE, packets + got, PACKETS - got);
    rte_pktmbuf_free_bulk(packets, got);
    tell_count(rule);
    tell_count(rule);
    tell_count((struct rte_flow*)packets); // none of the primary's
    printf("received: %lu", received());
    rte_eth_stats_reset(PORT);
    printf(", after reset: %lu\n", received());
    struct rte_mempool* pool =
        rte_pktmbuf_pool_create("own", 16383, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
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
