// SPDX-License-Identifier: BSD-3-Clause
// How the primary processes of these tests set their ports up: two queues in each direction, and a
// rule that steers all packets to queue 1, which a secondary process uses.
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_mbuf.h>
#include <rte_memzone.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { QUEUE = 1 };

static struct rte_flow* lead_to_queue(uint16_t port) {
    const struct rte_flow_attr attr = {.ingress = 1};
    const struct rte_flow_item pattern[] = {{.type = RTE_FLOW_ITEM_TYPE_ETH},
                                            {.type = RTE_FLOW_ITEM_TYPE_END}};
    const struct rte_flow_action_queue queue = {.index = QUEUE};
    const struct rte_flow_action actions[] = {{.type = RTE_FLOW_ACTION_TYPE_COUNT},
                                              {.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue},
                                              {.type = RTE_FLOW_ACTION_TYPE_END}};
    struct rte_flow_error error;
    return rte_flow_create(port, &attr, pattern, actions, &error);
}

// Returns the rule, or null on failure. Rx queue 0 splits packets as `split` says, if there is one.
static struct rte_flow* start_port(uint16_t port, struct rte_mempool* pool,
                                   const struct rte_eth_rxconf* split) {
    struct rte_eth_conf conf = {0};
    if (split != NULL) conf.rxmode.offloads = split->offloads;
    if (rte_eth_dev_configure(port, 2, 2, &conf) != 0) return NULL;
    for (uint16_t queue = 0; queue < 2; ++queue) {
        const struct rte_eth_rxconf* const own = queue == 0 ? split : NULL;
        if (rte_eth_rx_queue_setup(port, queue, 256, SOCKET_ID_ANY, own, own ? NULL : pool) != 0 ||
            rte_eth_tx_queue_setup(port, queue, 256, SOCKET_ID_ANY, NULL) != 0)
            return NULL;
    }
    return rte_eth_dev_start(port) == 0 ? lead_to_queue(port) : NULL;
}

static struct rte_mempool* make_pool(const char* name, unsigned count) {
    return rte_pktmbuf_pool_create(name, count, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
}

static void say(const char* text) {
    puts(text);
    fflush(stdout);
}

// Leaves the address of a rule to secondary processes. False on failure.
static inline bool leave_rule(struct rte_flow* rule) {
    const struct rte_memzone* zone = rte_memzone_reserve("rule", sizeof rule, SOCKET_ID_ANY, 0);
    if (rule == NULL || zone == NULL) return false;
    memcpy(zone->addr, &rule, sizeof rule);
    return true;
}

static inline struct rte_flow* rule_of_primary(void) {
    struct rte_flow* rule;
    memcpy(&rule, rte_memzone_lookup("rule")->addr, sizeof rule);
    return rule;
}
