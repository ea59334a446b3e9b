// SPDX-License-Identifier: BSD-3-Clause
// The guards between the application of a secondary process and rings that may vanish.
#include "drivers/net/rawqp/ethdev/process/guards.hpp"
#include "tests/unit/eal.hpp"

#include <atomic>
#include <thread>

namespace rawqp::test {
namespace {

/// A ring whose bursts last until they are allowed to end.
struct SlowRing {
    std::atomic<bool> inside = false, may_end = false;
    static uint16_t burst(void* ring, rte_mbuf**, uint16_t count) {
        auto& self = *static_cast<SlowRing*>(ring);
        self.inside = true;
        while (!self.may_end)
            std::this_thread::yield();
        return count;
    }
};

class GuardsTest : public test_eal::EalTest {
  protected:
    static constexpr uint16_t kPort = 3;
    GuardsTest() { guards.install(dev, format); }
    uint16_t receive() { return dev.rx_pkt_burst(guards.rx_data[0], nullptr, 7); }

    rte_eth_dev dev{};
    RingFormat format{};
    PortGuards& guards = PortGuards::of(kPort);
    SlowRing ring;
};

TEST_F(GuardsTest, PassBurstsOnWhileOpen) {
    ring.may_end = true;
    EXPECT_EQ(receive(), 0u);
    EXPECT_FALSE(ring.inside);
    guards.rx[0].open(&ring, SlowRing::burst, 1);
    EXPECT_EQ(receive(), 7u);
    guards.rx[0].close();
    EXPECT_TRUE(guards.wait_until_left(0));
    EXPECT_EQ(receive(), 0u);
}

TEST_F(GuardsTest, KnowWhenTheLastBurstHasLeft) {
    guards.rx[0].open(&ring, SlowRing::burst, 1);
    std::thread lcore([&] { receive(); });
    while (!ring.inside)
        std::this_thread::yield();
    EXPECT_TRUE(guards.wait_until_left(0)) << "whoever is in an open one may stay";
    guards.rx[0].close();
    EXPECT_FALSE(guards.wait_until_left(5));
    ring.may_end = true;
    EXPECT_TRUE(guards.wait_until_left(10'000));
    lcore.join();
}

/// A cleanup uses the ring like a burst.
TEST_F(GuardsTest, KnowOfACleanUp) {
    static constexpr uint16_t kQueue = 2;
    TxRing tx{};
    tx.port_id = kPort;
    tx.queue_id = kQueue;
    format.tx_done_cleanup = [](void*, uint32_t count) {
        EXPECT_TRUE(PortGuards::of(kPort).tx[kQueue].occupied());
        return static_cast<int>(count);
    };
    EXPECT_EQ(guarded_tx_done_cleanup(nullptr, 5), -EIO) << "of a queue that is gone";
    EXPECT_EQ(guarded_tx_done_cleanup(&tx, 5), -EIO) << "closed";
    guards.tx[kQueue].open(&tx, SlowRing::burst, 1);
    EXPECT_EQ(guarded_tx_done_cleanup(&tx, 5), 5);
    TxRing former = tx;
    EXPECT_EQ(guarded_tx_done_cleanup(&former, 5), -EIO) << "another ring has its place";
    EXPECT_FALSE(guards.tx[kQueue].occupied());
    guards.tx[kQueue].close();
}

} // namespace
} // namespace rawqp::test
