// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/rx_frames.hpp"

#include "drivers/net/rawqp/rings/verbs/format.hpp"
#include "tests/fuzz/ring_player.hpp"
#include "tests/unit/eal.hpp"
#include "tests/unit/rings/fake_mrs.hpp"
#include "tests/unit/verbs/queues.hpp"

#include <sanitizer/asan_interface.h>

#include <array>
#include <deque>
#include <fmt/format.h>

namespace fuzz {
namespace {

using namespace rings_test;
using namespace verbs_test;
using Bytes = std::vector<uint8_t>;

constexpr uint16_t kDescriptors = 64;
constexpr uint16_t kRoom = 128; ///< bytes of the first segment
constexpr unsigned kPoolSize = kDescriptors + 63;
constexpr size_t kMaxSteps = 1024;

rte_mempool* pool() {
    static const test_eal::Pool owner =
        test_eal::make_pool(kPoolSize, kRoom + RTE_PKTMBUF_HEADROOM);
    return owner.get();
}

constexpr std::array<uint64_t, 4> kOffloads = {
    RTE_ETH_RX_OFFLOAD_CHECKSUM, RTE_ETH_RX_OFFLOAD_VLAN_STRIP, RTE_ETH_RX_OFFLOAD_TIMESTAMP,
    RTE_ETH_RX_OFFLOAD_KEEP_CRC};

struct Choices {
    uint8_t offloads, layout;
};

class Player final : public RingPlayer {
  public:
    Player(Input input, Choices choices)
        : RingPlayer(input, rawqp::kVerbsFormat, pool(),
                     static_cast<uint8_t>(1u << choices.layout % 3), (choices.layout & 4) != 0),
          outlive_((choices.layout & 8) == 0),
          crc_bytes_(choices.offloads & 8 ? RTE_ETHER_CRC_LEN : 0) {
        spec_.cq = &cq_.handle;
        spec_.wq = &wq_.handle;
        spec_.descriptors = kDescriptors;
        spec_.offloads = chosen(choices.offloads, kOffloads);
        spec_.real_time = (choices.offloads & 16) != 0;
    }

  private:
    void forget_posted() override {
        was_reset_ = true;
        wq_.posted.clear();
        filled_ = 0;
        broken_ = false;
    }

    void play(uint8_t step) override {
        switch (step % 5) {
        case 0: deliver(step); return;
        case 1: break_queue(); return;
        case 2: // how many requests the provider takes
            wq_.accept = step & 0x80 ? input_.byte() : SIZE_MAX;
            return;
        case 3: change(step); return;
        case 4:
            was_reset_ = false;
            poll(static_cast<uint16_t>(1 + input_.byte() % kMaxPoll), (step & 0x80) != 0);
            if (was_reset_ && !sent_.empty()) fail("packets before an error are lost");
            return;
        }
    }

    void deliver(uint8_t step) {
        const unsigned low = input_.byte();
        const size_t room = (spec_.segments - 1u) * (kRoom + RTE_PKTMBUF_HEADROOM) + kRoom;
        const size_t least = sizeof(rte_ether_hdr) + crc_bytes_;
        Bytes frame(least + (low | unsigned{input_.byte()} << 8) % (room - least + 1));
        input_.fill(frame);
        if (broken_ || filled_ == wq_.posted.size()) return;
        const auto& request = wq_.posted[filled_++];
        size_t at = 0;
        for (const ibv_sge& sge : request.sges) {
            const auto buffer = reinterpret_cast<uint8_t*>(sge.addr);
            const size_t part = std::min<size_t>(sge.length, frame.size() - at);
            ASAN_UNPOISON_MEMORY_REGION(buffer, sge.length);
            std::copy_n(frame.begin() + static_cast<long>(at), part, buffer);
            ASAN_POISON_MEMORY_REGION(buffer + part, sge.length - part);
            poisoned_.emplace_back(buffer, sge.length);
            at += part;
        }
        cq_.queue.push_back({.wr_id = request.request.wr_id,
                             .bytes = static_cast<uint32_t>(frame.size()),
                             .tag = step,
                             .wc_flags = step & 0x80 ? unsigned{IBV_WC_IP_CSUM_OK} : 0});
        frame.resize(frame.size() - crc_bytes_);
        sent_.push_back(std::move(frame));
    }

    void break_queue() {
        const auto status = static_cast<ibv_wc_status>(1 + input_.byte() % IBV_WC_GENERAL_ERR);
        if (broken_ || filled_ == wq_.posted.size()) return;
        broken_ = true;
        cq_.queue.push_back({.wr_id = wq_.posted[filled_++].request.wr_id, .status = status});
    }

    void check(const rte_mbuf& packet) override {
        if (sent_.empty()) return fail("a packet that nobody sent");
        Bytes bytes;
        for (const rte_mbuf* at = &packet; at != nullptr; at = at->next) {
            const auto* const data = rte_pktmbuf_mtod(at, const uint8_t*);
            bytes.insert(bytes.end(), data, data + at->data_len);
        }
        if (packet.pkt_len != bytes.size()) fail("pkt_len is not the sum of its segments'");
        if ((packet.ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0) {
            const Bytes tag{0x81, 0x00, static_cast<uint8_t>(packet.vlan_tci >> 8),
                            static_cast<uint8_t>(packet.vlan_tci)};
            bytes.insert(bytes.begin() + 2 * sizeof(rte_ether_addr), tag.begin(), tag.end());
        }
        if (bytes != sent_.front()) fail("a packet is not as it was sent");
        sent_.pop_front();
    }

    void finish() override {
        if (!outlive_) received_.release();
        if (format_.rx_stop(*ring_) != sent_.size()) fail("unread packets are miscounted");
        format_.rx_destroy(ring_);
        received_.release();
        for (const auto& [memory, bytes] : poisoned_)
            ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
        if (cq_.misuse != 0 || cq_.open) fail("a poll was not ended");
        if (const unsigned lost = rte_mempool_in_use_count(pool()))
            fail(fmt::format("{} mbufs lost", lost));
    }

    bool outlive_; ///< packets outlive the ring
    uint8_t crc_bytes_;
    FakeVerbsCq cq_;
    FakeVerbsWq wq_;
    size_t filled_ = 0;      ///< requests of wq_.posted
    std::deque<Bytes> sent_; ///< but not received yet
    std::vector<std::pair<uint8_t*, size_t>> poisoned_;
    bool broken_ = false; ///< until the WQ is reset
    bool was_reset_ = false;
};

} // namespace

std::string play_frames(std::span<const uint8_t> bytes) {
    Input input(bytes);
    const Choices choices{input.byte(), input.byte()};
    return Player(input, choices).run(kMaxSteps);
}

} // namespace fuzz
