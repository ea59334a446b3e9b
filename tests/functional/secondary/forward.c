// SPDX-License-Identifier: BSD-3-Clause
// The primary starts ports 0 and 1. The secondary forwards packets between them, through queue 1 of
// each, until it is killed. Signals to the secondary:
// - SIGUSR1: prints the results of some calls for the ports.
// - SIGUSR2: closes port 1 and sends the packets of port 0 back there, until the next SIGUSR2.
// - SIGWINCH: the same, but port 1 stays open.
// - SIGHUP: keeps EAL's interrupt thread busy until the next SIGHUP, and goes on forwarding.
// - SIGALRM: dumps port 1 to a stream that accepts nothing until the next SIGALRM.
#define _GNU_SOURCE
#include "ports.h"

#include <rte_alarm.h>
#include <signal.h>

static volatile sig_atomic_t asked;
static void ask(int number) { asked = number; }
static volatile sig_atomic_t busy;
static void toggle_busy(int number) {
    (void)number;
    busy = !busy;
}
static volatile sig_atomic_t dump_is_held;
static void toggle_dump(int number) {
    dump_is_held = !dump_is_held;
    if (dump_is_held) ask(number);
}

static int primary(void) {
    struct rte_mempool* const pool = make_pool("rx", 4095);
    if (pool == NULL || start_port(0, pool, NULL) == NULL || start_port(1, pool, NULL) == NULL)
        return 2;
    say("the ports are there");
    for (;;)
        pause();
}

static ssize_t take_dump(void* cookie, const char* text, size_t size) {
    (void)cookie, (void)text;
    if (dump_is_held) say("dumping");
    while (dump_is_held)
        rte_delay_us_sleep(1000);
    return (ssize_t)size;
}

static void dump(void) {
    FILE* const file = fopencookie(NULL, "w", (cookie_io_functions_t){.write = take_dump});
    setvbuf(file, NULL, _IONBF, 0);
    printf("dump: %d\n", rte_eth_dev_priv_dump(1, file));
    fclose(file);
    fflush(stdout);
}

static void answer(void) {
    struct rte_eth_stats stats = {0};
    struct rte_eth_link link = {0};
    uint64_t clock; // which the primary has to be asked for
    const int read = rte_eth_stats_get(0, &stats);
    rte_eth_link_get(0, &link);
    const int told = rte_eth_read_clock(0, &clock), stopped = rte_eth_dev_stop(0);
    printf("ports: %u, stats: %d, received: %lu, link: %s, clock: %d, stop: %d, removed: %d\n",
           rte_eth_dev_count_avail(), read, (unsigned long)stats.ipackets,
           link.link_status ? "up" : "down", told, stopped, rte_eth_dev_is_removed(0));
    if (rte_eth_dev_is_removed(1))
        printf("port 1 is removed, clean-up: %d\n", rte_eth_tx_done_cleanup(1, QUEUE, 0));
    fflush(stdout);
}

static void be_busy(void* unused) {
    (void)unused;
    if (busy) say("busy");
    while (busy)
        rte_delay_us_sleep(1000);
    (void)rte_eal_alarm_set(1000, be_busy, NULL);
}

static void forward(void) {
    struct rte_mbuf* packets[32];
    uint16_t ports = 2;
    for (uint16_t port = 0;; port = (port + 1) % ports) {
        const uint16_t other = ports - 1 - port;
        const uint16_t got = rte_eth_rx_burst(port, QUEUE, packets, RTE_DIM(packets));
        const uint16_t sent = rte_eth_tx_burst(other, QUEUE, packets, got);
        rte_pktmbuf_free_bulk(packets + sent, got - sent);
        const int question = asked;
        if (question == 0) continue;
        asked = 0;
        if (question == SIGUSR1) {
            answer();
        } else if (question == SIGALRM) {
            dump();
        } else if (question == SIGWINCH) {
            say("port 0 alone");
            ports = 1;
        } else {
            if (ports == 2)
                printf("close: %d\n", rte_eth_dev_close(1));
            else
                printf("both ports\n");
            fflush(stdout);
            ports = 3 - ports;
        }
    }
}

int main(int argc, char** argv) {
    if (rte_eal_init(argc, argv) < 0) return 1;
    if (rte_eal_process_type() == RTE_PROC_PRIMARY) return primary();
    signal(SIGUSR1, ask);
    signal(SIGUSR2, ask);
    signal(SIGWINCH, ask);
    signal(SIGALRM, toggle_dump);
    signal(SIGHUP, toggle_busy);
    if (rte_eal_alarm_set(1000, be_busy, NULL) != 0) return 3;
    say("forwarding");
    forward();
}
