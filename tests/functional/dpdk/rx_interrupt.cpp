// SPDX-License-Identifier: BSD-3-Clause
// A DPDK program that sleeps on an Rx interrupt whenever its queue is empty, as power-saving
// applications do: rx-interrupt EAL-OPTIONS -- PACKETS. Ends when it has received that many, or
// after thirty seconds without a wake-up. Run under softhca by
// tests/functional/test_rx_features.py.
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_mbuf.h>

namespace {

constexpr uint16_t kPort = 0;
constexpr uint16_t kQueue = 0;
constexpr int kPatienceMs = 30'000;

[[noreturn]] void die(const char* what) {
    fprintf(stderr, "%s\n", what);
    exit(EXIT_FAILURE);
}

/// The device is lost: an application must not fall asleep again.
int on_removal(uint16_t port, rte_eth_event_type, void*, void*) {
    printf("removed, armed %d\n", rte_eth_dev_rx_intr_enable(port, kQueue));
    fflush(stdout);
    return 0;
}

void start_port(rte_mempool* pool) {
    rte_eth_conf conf{};
    conf.intr_conf.rxq = 1;
    conf.intr_conf.rmv = 1;
    rte_eth_dev_callback_register(kPort, RTE_ETH_EVENT_INTR_RMV, on_removal, nullptr);
    if (rte_eth_dev_configure(kPort, 1, 1, &conf) != 0) die("cannot configure");
    if (rte_eth_rx_queue_setup(kPort, kQueue, 256, SOCKET_ID_ANY, nullptr, pool) != 0 ||
        rte_eth_tx_queue_setup(kPort, kQueue, 64, SOCKET_ID_ANY, nullptr) != 0)
        die("cannot set the queues up");
    if (rte_eth_dev_start(kPort) != 0) die("cannot start");
}

/// With Rx interrupts, a queue cannot be replaced while the port runs, and an attempt leaves it as
/// it was. Not every driver can stop one (net_mlx5 with its vectors).
void try_another_set_up(rte_mempool* pool) {
    if (rte_eth_dev_rx_queue_stop(kPort, kQueue) != 0) return;
    const int set_up = rte_eth_rx_queue_setup(kPort, kQueue, 256, SOCKET_ID_ANY, nullptr, pool);
    printf("set-up %d start %d\n", set_up, rte_eth_dev_rx_queue_start(kPort, kQueue));
}

uint32_t take_all() {
    uint32_t taken = 0;
    rte_mbuf* mbufs[32];
    while (const uint16_t count = rte_eth_rx_burst(kPort, kQueue, mbufs, 32)) {
        rte_pktmbuf_free_bulk(mbufs, count);
        taken += count;
    }
    return taken;
}

} // namespace

int main(int argc, char** argv) {
    const int used = rte_eal_init(argc, argv);
    if (used < 0 || used + 1 >= argc) die("usage: rx-interrupt EAL-OPTIONS -- PACKETS");
    const auto wanted = static_cast<uint32_t>(strtoul(argv[used + 1], nullptr, 10));
    rte_mempool* pool = rte_pktmbuf_pool_create("rx-interrupt", 1023, 32, 0,
                                                RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    if (pool == nullptr) die("no mempool");
    start_port(pool);
    try_another_set_up(pool);
    if (rte_eth_dev_rx_intr_ctl_q(kPort, kQueue, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD,
                                  nullptr) != 0)
        die("no interrupt to wait for");
    uint64_t clock = 0;
    const int readable = rte_eth_read_clock(kPort, &clock);
    printf("clock %d %" PRIu64 "\n", readable, clock);
    printf("ready\n");
    fflush(stdout);

    uint32_t received = 0;
    uint32_t sleeps = 0;
    while ((received += take_all()) < wanted) {
        if (rte_eth_dev_rx_intr_enable(kPort, kQueue) != 0) die("cannot arm");
        rte_epoll_event event;
        if (rte_epoll_wait(RTE_EPOLL_PER_THREAD, &event, 1, kPatienceMs) != 1) break;
        if (rte_eth_dev_rx_intr_disable(kPort, kQueue) != 0) die("cannot disarm");
        ++sleeps;
    }
    printf("received %u sleeps %u\n", received, sleeps);
    rte_eth_dev_stop(kPort);
    rte_eth_dev_close(kPort);
    rte_eal_cleanup();
    return received == wanted ? EXIT_SUCCESS : EXIT_FAILURE;
}
