// SPDX-License-Identifier: BSD-3-Clause
// How a send queue frees packets of striding queues: they are attached to mbufs, and their
// references to the same buffer are returned together.
#include "drivers/net/rawqp/rings/striding_buffers.hpp"
#include "drivers/net/rawqp/rings/tx_mbufs.hpp"
#include "tests/unit/eal.hpp"

#include <array>

namespace {

using rawqp::StridingBuffer;

constexpr uint32_t kStrides = 16, kStrideBytes = 2048, kBuffers = 4;

class SentStrides : public test_eal::EalTest {
  protected:
    SentStrides() {
        EXPECT_TRUE(sent.create(64, 0));
        auto made = rawqp::make_striding_pool("test", kBuffers, kStrides, kStrideBytes, 0);
        EXPECT_TRUE(made);
        strides = *made;
    }
    ~SentStrides() override {
        EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
        EXPECT_EQ(buffers_out(), 0u);
        strides->leave();
    }

    /// An mbuf with an attached packet.
    rte_mbuf* attached(StridingBuffer& buffer, uint32_t stride) {
        return attach(rte_pktmbuf_alloc(pool.get()), buffer, stride);
    }
    /// Attaches as striding queues do.
    rte_mbuf* attach(rte_mbuf* mbuf, StridingBuffer& buffer, uint32_t stride) const {
        rte_mbuf_ext_shared_info& info = buffer.info(stride);
        rte_mbuf_ext_refcnt_set(&info, 1);
        uint8_t* const data =
            reinterpret_cast<uint8_t*>(&buffer) + strides->data_offset + stride * kStrideBytes;
        rte_pktmbuf_attach_extbuf(mbuf, data, rte_mempool_virt2iova(&buffer), kStrideBytes, &info);
        rte_pktmbuf_append(mbuf, 100);
        buffer.add_references(1);
        return mbuf;
    }
    void post(rte_mbuf* mbuf) {
        const uint16_t head = sent.head();
        sent.slot(head) = mbuf;
        sent.set_head(static_cast<uint16_t>(head + 1));
    }
    [[nodiscard]] unsigned buffers_out() const {
        return rte_mempool_in_use_count(strides->mempool);
    }

    test_eal::Pool pool = test_eal::make_pool(64);
    rawqp::StridingPool* strides = nullptr;
    rawqp::TxMbufs sent;
};

TEST_F(SentStrides, GoBackToTheirBuffers) {
    std::array<StridingBuffer*, 2> buffers{strides->take(), strides->take()};
    for (uint32_t i = 0; i < 2 * kStrides; ++i) // runs of one buffer, then alternating
        post(attached(*buffers[i < kStrides ? 0 : i % 2], i % kStrides));
    EXPECT_EQ(buffers[0]->references, 1 + 3 * kStrides / 2);
    sent.free_all();
    for (StridingBuffer* buffer : buffers) {
        EXPECT_EQ(buffer->references, 1u) << "the ring's own";
        buffer->drop_references(1);
    }
}

TEST_F(SentStrides, KeepABufferWhoseRingHasLeftIt) {
    StridingBuffer* const buffer = strides->take();
    post(attached(*buffer, 0));
    post(attached(*buffer, 1));
    buffer->drop_references(1);
    EXPECT_EQ(buffers_out(), 1u);
    sent.free_all(); // the destructor checks that it is back
}

TEST_F(SentStrides, LeaveMbufsAsTheirPoolMadeThem) {
    rte_mbuf* const mbuf = rte_pktmbuf_alloc(pool.get());
    const rte_mbuf fresh = *mbuf;
    StridingBuffer* const buffer = strides->take();
    post(attach(mbuf, *buffer, 3));
    mbuf->nb_segs = 2;
    mbuf->next = rte_pktmbuf_alloc(pool.get());
    post(mbuf->next);
    sent.free_all();
    EXPECT_EQ(mbuf->buf_addr, fresh.buf_addr);
    EXPECT_EQ(rte_mbuf_iova_get(mbuf), rte_mbuf_iova_get(&fresh));
    EXPECT_EQ(mbuf->buf_len, fresh.buf_len);
    EXPECT_EQ(mbuf->data_off, fresh.data_off);
    EXPECT_EQ(mbuf->data_len, 0u);
    EXPECT_EQ(mbuf->ol_flags, 0u);
    EXPECT_EQ(mbuf->nb_segs, 1u);
    EXPECT_EQ(mbuf->next, nullptr);
    EXPECT_EQ(rte_mbuf_refcnt_read(mbuf), 1u);
    buffer->drop_references(1);
}

TEST_F(SentStrides, StayWithWhoeverElseHoldsThem) {
    StridingBuffer* const buffer = strides->take();
    rte_mbuf* const packet = attached(*buffer, 5);
    rte_mbuf* const clone = rte_pktmbuf_clone(packet, pool.get()); // the same external buffer
    rte_mbuf* const shared = attached(*buffer, 6);
    rte_mbuf_refcnt_update(shared, 1);
    post(packet);
    post(shared);
    sent.free_all();
    EXPECT_EQ(buffer->references, 3u) << "the ring's, the clone's, the shared mbuf's";
    EXPECT_TRUE(RTE_MBUF_HAS_EXTBUF(shared));
    rte_pktmbuf_free(clone);
    EXPECT_EQ(buffer->references, 2u);
    rte_pktmbuf_free(shared);
    EXPECT_EQ(buffer->references, 1u);
    buffer->drop_references(1);
}

TEST_F(SentStrides, LeaveExternalBuffersOfOthersAlone) {
    static int freed;
    freed = 0;
    std::array<uint8_t, 512> memory{};
    uint16_t bytes = memory.size();
    auto* const info = rte_pktmbuf_ext_shinfo_init_helper(
        memory.data(), &bytes, [](void*, void*) { ++freed; }, nullptr);
    rte_mbuf* const mbuf = rte_pktmbuf_alloc(pool.get());
    rte_pktmbuf_attach_extbuf(mbuf, memory.data(), RTE_BAD_IOVA, bytes, info);
    post(mbuf);
    sent.free_all();
    EXPECT_EQ(freed, 1);
}

} // namespace
