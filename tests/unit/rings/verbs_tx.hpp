// SPDX-License-Identifier: BSD-3-Clause
// A send queue over verbs calls, on a fake provider.
#pragma once

#include "drivers/net/rawqp/rings/verbs/format.hpp"
#include "tests/unit/rings/tx_ring.hpp"
#include "tests/unit/verbs/queues.hpp"

namespace rings_test {

using namespace verbs_test;

inline constexpr uint64_t kChecksums =
    RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;

/// The parameter: whether through ibv_wr_*.
class VerbsTx : public TxRingTest, public testing::WithParamInterface<bool> {
  protected:
    VerbsTx() : TxRingTest(rawqp::kVerbsFormat) {}

    void start(uint64_t offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS) {
        spec.cq = &cq.handle;
        spec.qp = &qp.handle.qp_base;
        spec.qp_ex = GetParam() ? &qp.handle : nullptr;
        spec.work_requests = GetParam();
        if (spec.descriptors == 0) spec.descriptors = 64;
        spec.max_segments = 8;
        spec.offloads = offloads;
        start_ring();
    }
    void TearDown() override {
        TxRingTest::TearDown();
        EXPECT_EQ(cq.misuse, 0);
        EXPECT_FALSE(cq.open);
    }
    void forget() override { executed = qp.posted.size(); }
    /// Executes the oldest request and returns the packet's bytes.
    std::vector<uint8_t> execute() {
        EXPECT_LT(executed, qp.posted.size());
        const auto& [request, sges] = qp.posted[executed++];
        std::vector<uint8_t> bytes;
        if (request.opcode == IBV_WR_TSO) {
            const auto* header = static_cast<const uint8_t*>(request.tso.hdr);
            bytes.assign(header, header + request.tso.hdr_sz);
        } else {
            EXPECT_EQ(request.opcode, IBV_WR_SEND);
        }
        const bool inlined = (request.send_flags & IBV_SEND_INLINE) != 0;
        for (const ibv_sge& sge : sges) {
            if (!inlined) {
                EXPECT_EQ(sge.lkey & ~1u, FakeMrs::kLkey);
            }
            EXPECT_GT(sge.length, 0u);
            const auto* from = reinterpret_cast<const uint8_t*>(sge.addr);
            bytes.insert(bytes.end(), from, from + sge.length);
        }
        if (request.send_flags & IBV_SEND_SIGNALED) {
            cq.queue.push_back({.wr_id = request.wr_id});
            ++completions;
        }
        return bytes;
    }
    void execute_all() {
        while (executed < qp.posted.size())
            execute();
    }
    void break_queue(ibv_wc_status status) {
        for (; executed < qp.posted.size(); status = IBV_WC_WR_FLUSH_ERR)
            cq.queue.push_back({.wr_id = qp.posted[executed++].request.wr_id, .status = status});
    }

    FakeVerbsCq cq;
    FakeVerbsQp qp;
    size_t executed = 0;
};

inline std::string way_of(const testing::TestParamInfo<bool>& info) {
    return info.param ? "WorkRequests" : "PostSend";
}

} // namespace rings_test
