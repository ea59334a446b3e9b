// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/rx_cqes.hpp"

#include "drivers/net/rawqp/rings/mlx5/format.hpp"
#include "tests/fuzz/ring_player.hpp"
#include "tests/unit/eal.hpp"
#include "tests/unit/rings/fake_mlx5.hpp"
#include "tests/unit/rings/vector_widths.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace fuzz {
namespace {

using namespace rings_test;

constexpr uint16_t kDescriptors = 64;
constexpr uint32_t kLogStrides = 3, kLogStrideBytes = 11, kWqes = kDescriptors >> kLogStrides;
constexpr unsigned kPoolSize = 255;
constexpr size_t kMaxSteps = 4096;

rte_mempool* pool() {
    static const test_eal::Pool owner = test_eal::make_pool(kPoolSize);
    return owner.get();
}

mlx5::Cqe take_cqe(Input& input) {
    std::array<uint8_t, sizeof(mlx5::Cqe)> raw;
    input.fill(raw);
    mlx5::Cqe cqe;
    memcpy(&cqe, raw.data(), sizeof cqe);
    return cqe;
}

/// The reader that the input selects, or the next smaller one that the CPU supports.
unsigned vector_bits(uint8_t choice) {
    size_t reader = choice % kWidths.size(); // as in reader_bits()
    while (!has_vectors(kWidths[reader]))
        --reader;
    return kWidths[reader];
}

constexpr std::array<uint64_t, 5> kOffloads = {
    RTE_ETH_RX_OFFLOAD_CHECKSUM, RTE_ETH_RX_OFFLOAD_VLAN_STRIP, RTE_ETH_RX_OFFLOAD_RSS_HASH,
    RTE_ETH_RX_OFFLOAD_KEEP_CRC, RTE_ETH_RX_OFFLOAD_TIMESTAMP};

struct Choices {
    uint8_t reader, offloads, layout;
    [[nodiscard]] bool striding() const { return (layout & 8) != 0; }
    [[nodiscard]] uint8_t segments() const { return layout & 1 ? 2 : 1; }
};

class Player final : public RingPlayer {
  public:
    Player(Input input, Choices choices)
        : RingPlayer(input, choices.striding() ? *rawqp::kMlx5Format.striding : rawqp::kMlx5Format,
                     pool(), choices.segments(), (choices.layout & 4) != 0),
          striding_(choices.striding()), outlive_((choices.layout & 16) != 0),
          cq_(choices.layout & 2 ? 2 * kDescriptors : kDescriptors),
          rq_(striding_ ? kWqes : kDescriptors / choices.segments(),
              striding_ ? 2 : choices.segments()) {
        spec_.api = &fake_api();
        spec_.cq = &cq_.handle;
        spec_.wq = &rq_.handle;
        spec_.descriptors = kDescriptors;
        spec_.offloads = chosen(choices.offloads, kOffloads);
        if ((choices.offloads & 64) != 0 && !striding_) // which have no LRO
            spec_.offloads |= RTE_ETH_RX_OFFLOAD_TCP_LRO;
        spec_.real_time = (choices.offloads & 48) == 48;
        spec_.compressed = (choices.layout & 2) != 0;
        spec_.active_simd_bits = vector_bits(choices.reader);
        if (striding_) spec_.striding = {kLogStrides, kLogStrideBytes, 128};
    }

  private:
    void forget_posted() override {
        rq_.doorbell.receive = 0;
        completed_ = 0;
    }
    void check(const rte_mbuf&) override {} // the input may say anything about packets

    /// A device completes only what was posted. Everything else in the CQE comes from the input.
    void play(uint8_t step) override {
        switch (step % 5) {
        case 0: write(true); return;
        case 1: write(false); return;
        case 2: // any entry at any time
            cq_.ring[input_.byte() % cq_.ring.size()] = take_cqe(input_);
            return;
        case 3:
            change(step);
            look();
            return;
        case 4:
            poll(static_cast<uint16_t>(1 + input_.byte() % kMaxPoll), (step & 0x80) != 0);
            return;
        }
    }
    void write(bool own) {
        mlx5::Cqe cqe = take_cqe(input_);
        const uint32_t packets = striding_ ? 1u << kLogStrides : 1; // per WQE, at most
        if (uint32_t{rq_.doorbell.receive} * packets == completed_) return;
        const auto entries = static_cast<uint32_t>(cq_.ring.size());
        const uint32_t lap = cq_.producer / entries & mlx5::kOwnerMask;
        if (own)
            cqe.op_own = static_cast<uint8_t>((cqe.op_own & ~unsigned{mlx5::kOwnerMask}) | lap);
        cq_.ring[cq_.producer++ % entries] = cqe;
        ++completed_;
    }

    void look() {
        if (format_.rx_queue_count(ring_) > kDescriptors)
            fail("more descriptors used than there are");
        for (const uint16_t offset : {0, 1, kDescriptors - 1})
            if (format_.rx_descriptor_status(ring_, offset) < 0) fail("a descriptor is not there");
        if (format_.rx_descriptor_status(ring_, kDescriptors) != -EINVAL)
            fail("there is a descriptor too many");
        rte_power_monitor_cond condition{};
        if (format_.rx_monitor_addr(ring_, &condition) != 0) return fail("cannot be monitored");
        condition.fn(*static_cast<volatile uint8_t*>(condition.addr), condition.opaque);
    }

    void finish() override {
        for (const mlx5::WqeDataSeg& wqe : rq_.ring)
            if (wqe.addr != 0 && !in_packet_memory(wqe.addr))
                return fail("an address outside of the packet memory is posted");
        if (!outlive_) received_.release();
        format_.rx_stop(*ring_);
        format_.rx_destroy(ring_);
        received_.release();
        if (const unsigned lost = rte_mempool_in_use_count(pool()))
            fail(fmt::format("{} mbufs lost", lost));
    }
    /// The packet memory is that of mbufs or, for a striding queue, in a separate mempool.
    [[nodiscard]] bool in_packet_memory(uint64_t address) const {
        struct Search {
            uint64_t address;
            bool striding, found;
        } search{address, striding_, false};
        rte_mempool_walk(
            [](rte_mempool* any, void* out) {
                if ((any == pool()) == static_cast<Search*>(out)->striding) return;
                rte_mempool_mem_iter(any, look_in_chunk<Search>, out);
            },
            &search);
        return search.found;
    }
    template <class Search>
    static void look_in_chunk(rte_mempool*, void* out, rte_mempool_memhdr* chunk, unsigned) {
        auto& search = *static_cast<Search*>(out);
        const auto start = reinterpret_cast<uint64_t>(chunk->addr);
        search.found |= search.address >= start && search.address < start + chunk->len;
    }

    bool striding_, outlive_; ///< packets outlive the ring
    FakeCq cq_;
    FakeRq rq_;
    uint32_t completed_ = 0;
};

} // namespace

unsigned reader_bits(std::span<const uint8_t> input) {
    return kWidths[Input(input).byte() % kWidths.size()];
}

std::string play_cqes(std::span<const uint8_t> bytes) {
    Input input(bytes);
    const Choices choices{input.byte(), input.byte(), input.byte()};
    return Player(input, choices).run(kMaxSteps);
}

} // namespace fuzz
