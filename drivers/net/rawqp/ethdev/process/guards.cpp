// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/process/guards.hpp"

#include <algorithm>
#include <linux/membarrier.h>
#include <memory>
#include <sys/syscall.h>

namespace rawqp {
namespace {

/// On return every thread of the process has passed a full barrier.
void barrier_for_all_threads() {
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0) return;
    // The kernel lacks it or forbids it: stores leave a CPU's buffer in far less time than this.
    rte_delay_us_sleep(1000);
}

/// A burst's stay in a guard.
class Stay {
  public:
    explicit Stay(uint32_t& inside) : inside_(inside) {
        __atomic_store_n(&inside_, 1, __ATOMIC_RELAXED);
        rte_compiler_barrier(); // for the CPU: barrier_for_all_threads
    }
    ~Stay() { __atomic_store_n(&inside_, 0, __ATOMIC_RELEASE); }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;

  private:
    uint32_t& inside_;
};

/// Any other call's stay.
class Visit {
  public:
    explicit Visit(uint32_t& visitors) : visitors_(visitors) {
        __atomic_add_fetch(&visitors_, 1, __ATOMIC_SEQ_CST);
    }
    ~Visit() { __atomic_sub_fetch(&visitors_, 1, __ATOMIC_RELEASE); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

  private:
    uint32_t& visitors_;
};

template <class Guard> uint16_t burst(void* queue, rte_mbuf** packets, uint16_t count) {
    auto& guard = *static_cast<Guard*>(queue);
    const Stay stay(guard.inside);
    const auto function = guard.entrance();
    return function != nullptr ? function(guard.ring, packets, count) : 0;
}

uint16_t prepare(void* queue, rte_mbuf** packets, uint16_t count) {
    auto& guard = *static_cast<TxGuard*>(queue);
    const Stay stay(guard.inside);
    return guard.is_open() ? guard.format->tx_prepare(guard.ring, packets, count) : 0;
}

compat::QueueCount rx_count(void* queue) {
    auto& guard = *static_cast<RxGuard*>(queue);
    const Visit visit(guard.visitors);
    return guard.is_open() ? guard.format->rx_queue_count(guard.ring) : 0;
}

int rx_status(void* queue, uint16_t offset) {
    auto& guard = *static_cast<RxGuard*>(queue);
    const Visit visit(guard.visitors);
    return guard.is_open() ? guard.format->rx_descriptor_status(guard.ring, offset)
                           : RTE_ETH_RX_DESC_UNAVAIL;
}

int tx_status(void* queue, uint16_t offset) {
    auto& guard = *static_cast<TxGuard*>(queue);
    const Visit visit(guard.visitors);
    return guard.is_open() ? guard.format->tx_descriptor_status(guard.ring, offset)
                           : RTE_ETH_TX_DESC_UNAVAIL;
}

template <class Guards> bool left(const Guards& guards) {
    return std::none_of(guards.begin(), guards.end(),
                        [](const auto& guard) { return !guard.is_open() && guard.occupied(); });
}

} // namespace

PortGuards& PortGuards::of(uint16_t port_id) {
    static std::array<std::unique_ptr<PortGuards>, RTE_MAX_ETHPORTS> all;
    if (!all[port_id]) all[port_id] = std::make_unique<PortGuards>();
    return *all[port_id];
}

void PortGuards::install(rte_eth_dev& dev, const RingFormat& format) {
    (void)syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    for (size_t i = 0; i < rx.size(); ++i) {
        rx[i].format = tx[i].format = &format;
        rx_data[i] = &rx[i];
        tx_data[i] = &tx[i];
    }
    dev.rx_pkt_burst = burst<RxGuard>;
    dev.tx_pkt_burst = burst<TxGuard>;
    dev.tx_pkt_prepare = prepare;
    dev.rx_queue_count = format.rx_queue_count != nullptr ? rx_count : nullptr;
    dev.rx_descriptor_status = format.rx_descriptor_status != nullptr ? rx_status : nullptr;
    dev.tx_descriptor_status = tx_status;
}

// ethdev has the ring's address from the primary's data.
int guarded_tx_done_cleanup(void* ring, uint32_t count) noexcept {
    if (ring == nullptr) return -EIO; // the queue or port is gone
    const auto& base = *static_cast<const TxRing*>(ring);
    TxGuard& guard = PortGuards::of(base.port_id).tx[base.queue_id];
    const Stay stay(guard.inside);
    return guard.is_open() && guard.ring == ring ? guard.format->tx_done_cleanup(ring, count)
                                                 : -EIO;
}

bool PortGuards::wait_until_left(unsigned milliseconds) const {
    barrier_for_all_threads();
    const uint64_t deadline = rte_get_timer_cycles() + rte_get_timer_hz() / 1000 * milliseconds;
    while (!left(rx) || !left(tx)) {
        if (rte_get_timer_cycles() > deadline) return false;
        rte_delay_us_sleep(20);
    }
    return true;
}

} // namespace rawqp
