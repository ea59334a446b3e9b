// SPDX-License-Identifier: BSD-3-Clause
// Runs each burst function of the mlx5 rings on fake rings under callgrind, which counts the
// instructions of the bursts alone. Without valgrind it runs and measures nothing.
//
// One dump for each case, named in its "desc: Trigger" line: "rx scalar", "tx AVX2 fast-free" …
#include "drivers/net/rawqp/rings/mlx5/format.hpp"
#include "tests/unit/eal.hpp"
#include "tests/unit/rings/fake_mlx5.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <valgrind/callgrind.h>

namespace {

using namespace rings_test;

constexpr uint16_t kDescriptors = 256;
constexpr uint16_t kBurst = 32;
constexpr int kWarmUp = 32, kBursts = 64; // several times round the rings
constexpr uint16_t kFrame = 60;
constexpr unsigned kScalar = 128, kAvx2 = 256;

[[noreturn]] void fail(const std::string& what) {
    fprintf(stderr, "rawqp-instructions: %s\n", what.c_str());
    exit(1);
}

rte_mempool* pool() {
    static rte_mempool* const pool =
        rte_pktmbuf_pool_create("perf", 2047, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
    if (pool == nullptr) fail("no mbuf pool");
    return pool;
}

/// Sets the vector width in specs that have one.
template <class Spec> void set_width(Spec& spec, unsigned bits) {
    if constexpr (requires { spec.active_simd_bits; }) spec.active_simd_bits = bits;
}

/// Counts what `burst` does, kBursts times. `before` is not counted.
template <class Before, class Burst>
void count(const std::string& name, Before before, Burst burst) {
    for (int i = 0; i < kWarmUp + kBursts; ++i) {
        before();
        if (i == kWarmUp) CALLGRIND_ZERO_STATS;
        if (i >= kWarmUp) CALLGRIND_TOGGLE_COLLECT;
        const uint16_t done = burst();
        if (i >= kWarmUp) CALLGRIND_TOGGLE_COLLECT;
        if (done != kBurst) fail(name + ": a burst was not full");
    }
    CALLGRIND_DUMP_STATS_AT(name.c_str());
}

/// Frames of `bytes` each; on a striding queue, which copies them out or attaches them, if
/// `strides`.
void receive(const std::string& name, unsigned bits, uint64_t offloads, bool strides = false,
             uint16_t bytes = kFrame) {
    constexpr uint32_t kLogStrides = 6, kLogStrideBytes = 11, kCopyBytes = 128;
    const rawqp::RingFormat& format = strides ? *rawqp::kMlx5Format.striding : rawqp::kMlx5Format;
    FakeMrs mrs;
    FakeCq cq(kDescriptors);
    FakeRq rq(strides ? kDescriptors >> kLogStrides : kDescriptors, strides ? 2 : 1);
    rawqp::RxSpec spec;
    spec.api = &fake_api();
    spec.cq = &cq.handle;
    spec.wq = &rq.handle;
    spec.descriptors = kDescriptors;
    spec.offloads = offloads;
    if (strides) spec.striding = {kLogStrides, kLogStrideBytes, kCopyBytes};
    spec.pool = pool();
    spec.mrs = &mrs;
    set_width(spec, bits);
    const auto ring = format.rx_create(spec);
    if (!ring || !format.rx_start(**ring)) fail("no receive ring");
    const auto burst = format.rx_burst(spec);
    std::array<rte_mbuf*, kBurst> mbufs{};
    uint16_t produced = 0;
    count(
        name,
        [&] {
            if (mbufs[0] != nullptr) rte_pktmbuf_free_bulk(mbufs.data(), kBurst);
            for (uint16_t i = 0; i < kBurst; ++i) {
                mlx5::Cqe cqe{};
                cqe.byte_count = (strides ? 1u << 16 : 0) | bytes;
                cqe.wqe_counter = produced++;
                cqe.hds_ip_ext = mlx5::kL3Ok | mlx5::kL4Ok;
                cqe.l4_l3_type = static_cast<uint8_t>(2u << 4 | 2u << 2); // UDP over IPv4
                cq.write(cqe, mlx5::CqeOpcode::resp_send);
            }
        },
        [&] { return burst.function(*ring, mbufs.data(), kBurst); });
    rte_pktmbuf_free_bulk(mbufs.data(), kBurst);
    format.rx_stop(**ring);
    format.rx_destroy(*ring);
}

/// The device executes all that the doorbell offers, and completes what asked for it.
void execute(const FakeSq& sq, FakeCq& cq, uint16_t& executed) {
    while (executed != static_cast<uint16_t>(sq.doorbell.send)) {
        const auto control = sq.segment<mlx5::WqeCtrlSeg>(executed, 0);
        if (control.fm_ce_se & mlx5::kCqUpdateMask) {
            mlx5::Cqe cqe{};
            cqe.wqe_counter = executed;
            cq.write(cqe, mlx5::CqeOpcode::req);
        }
        executed = static_cast<uint16_t>(executed + ((control.qpn_ds & 0x3f) + 3) / 4);
    }
}

void send(const std::string& name, unsigned bits, uint64_t offloads) {
    FakeMrs mrs;
    FakeCq cq(kDescriptors);
    FakeSq sq(kDescriptors);
    rawqp::TxSpec spec;
    spec.api = &fake_api();
    spec.cq = &cq.handle;
    spec.qp = &sq.handle;
    spec.vendor_part_id = kFakePartId;
    spec.descriptors = kDescriptors;
    spec.offloads = offloads;
    spec.mrs = &mrs;
    set_width(spec, bits);
    const auto ring = rawqp::kMlx5Format.tx_create(spec);
    if (!ring) fail("no send ring");
    rawqp::kMlx5Format.tx_start(**ring);
    const auto burst = rawqp::kMlx5Format.tx_burst(spec);
    std::array<rte_mbuf*, kBurst> mbufs{};
    uint16_t executed = 0;
    count(
        name,
        [&] {
            execute(sq, cq, executed);
            if (rte_pktmbuf_alloc_bulk(pool(), mbufs.data(), kBurst) != 0) fail("no mbufs");
            for (rte_mbuf* const mbuf : mbufs)
                mbuf->data_len = static_cast<uint16_t>(mbuf->pkt_len = kFrame);
        },
        [&] { return burst.function(*ring, mbufs.data(), kBurst); });
    rawqp::kMlx5Format.tx_stop(**ring);
    rawqp::kMlx5Format.tx_destroy(*ring);
}

} // namespace

int main() {
    if (!test_eal::start()) fail("EAL did not start");
    constexpr uint64_t kChecksums =
        RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
    constexpr uint64_t kFastFree = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
    receive("rx scalar", kScalar, 0);
    receive("rx AVX2", kAvx2, 0);
    receive("rx scalar checksum", kScalar, kChecksums);
    receive("rx AVX2 checksum", kAvx2, kChecksums);
    constexpr uint16_t kAttached = 1000;
    receive("rx striding", kScalar, 0, true);
    receive("rx striding AVX2", kAvx2, 0, true);
    receive("rx striding checksum", kScalar, kChecksums, true);
    receive("rx striding AVX2 checksum", kAvx2, kChecksums, true);
    receive("rx striding attached", kScalar, 0, true, kAttached);
    receive("rx striding AVX2 attached", kAvx2, 0, true, kAttached);
    send("tx scalar fast-free", kScalar, kFastFree);
    send("tx AVX2 fast-free", kAvx2, kFastFree);
    send("tx scalar", kScalar, 0);
    send("tx AVX2", kAvx2, 0);
#if defined(__clang__)
    printf("compiler clang %d\n", __clang_major__);
#else
    printf("compiler gcc %d\n", __GNUC__);
#endif
    printf("packets %d\n", kBursts * kBurst);
    return 0;
}
