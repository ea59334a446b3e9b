// SPDX-License-Identifier: BSD-3-Clause
#include "tests/functional/ethdev/traffic.hpp"

#include <cstring>
#include <utility>

namespace test {

Traffic::Traffic(rte_mempool* pool, Frame content)
    : pool_(pool), content_(std::move(content)), thread_([this] {
          while (!done_) {
              receive();
              send();
              ++rounds_;
          }
          EXPECT_TRUE(wait(10000,
                           [this] {
                               receive();
                               return on_the_way_ == 0;
                           }))
              << on_the_way_ << " frames did not come back";
      }) {}

Traffic::~Traffic() {
    done_ = true;
    thread_.join();
}

void Traffic::take_from(rte_mempool* pool, uint64_t count) {
    pool_ = pool;
    const uint64_t rounds = rounds_ + 2, received = received_ + count;
    EXPECT_TRUE(wait(10000, [&] { return rounds_ >= rounds && received_ >= received; }));
}

void Traffic::receive() {
    rte_mbuf* packets[32];
    const uint16_t got = rte_eth_rx_burst(kPort, 0, packets, 32);
    for (uint16_t i = 0; i < got; ++i) {
        const bool same =
            packets[i]->data_len == content_.size() &&
            std::memcmp(rte_pktmbuf_mtod(packets[i], void*), content_.data(), content_.size()) == 0;
        if (!same) ADD_FAILURE() << "a packet has changed on its way";
    }
    rte_pktmbuf_free_bulk(packets, got);
    on_the_way_ -= got;
    received_ += got;
}

void Traffic::send() {
    rte_mbuf* packets[8];
    if (rte_pktmbuf_alloc_bulk(pool_, packets, 8) != 0) return;
    const auto bytes = static_cast<uint16_t>(content_.size());
    for (rte_mbuf* packet : packets)
        std::memcpy(rte_pktmbuf_append(packet, bytes), content_.data(), bytes);
    const uint16_t sent = rte_eth_tx_burst(kPort, 0, packets, 8);
    rte_pktmbuf_free_bulk(packets + sent, 8u - sent);
    on_the_way_ += sent;
}

} // namespace test
