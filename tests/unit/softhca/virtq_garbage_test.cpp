// SPDX-License-Identifier: BSD-3-Clause
// Random content in the rings of virtio queues, with fixed seeds: whatever a driver writes, the
// queue is served or in error. Under ASan and UBSan this proves the bounds checks.
#include "tests/unit/softhca/virtq.hpp"

#include <random>

namespace testbed {
namespace {

class VirtioGarbage : public VirtioTest, public testing::WithParamInterface<uint32_t> {
  protected:
    uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random() % limit); }

    /// Almost valid descriptors, and some invalid ones; and a virtio-net header wherever buffers
    /// are.
    void scramble(DriverRing& some, uint16_t direction) {
        for (uint16_t i = 0; i < DriverRing::kEntries; i++) {
            const bool wild = below(8) == 0;
            some.descriptor(i) = {
                .address = wild ? random()
                                : reinterpret_cast<uint64_t>(memory_at(kFrames + below(0x8000))),
                .bytes = below(3) ? below(1500) : below(100000),
                .flags = static_cast<uint16_t>(wild ? random()
                                                    : direction | (below(2) ? virtio::kNext : 0)),
                .next = static_cast<uint16_t>(below(DriverRing::kEntries + 1))};
        }
        const uint32_t heads = below(DriverRing::kEntries + 2);
        for (uint32_t i = 0; i < heads; i++)
            some.offer(static_cast<uint16_t>(below(DriverRing::kEntries + (below(8) == 0))));
        const NetHeader header{.flags = static_cast<uint8_t>(below(4)),
                               .gso_type = static_cast<uint8_t>(below(5)),
                               .segment_bytes = static_cast<uint16_t>(below(2000)),
                               .checksum_start = static_cast<uint16_t>(below(200)),
                               .checksum_offset = static_cast<uint16_t>(below(200))};
        for (size_t at = 0; at < 0x8000; at += 0x40)
            std::memcpy(memory_at(kFrames + at), &header, sizeof header);
    }

    std::mt19937_64 random{GetParam()};
};

TEST_P(VirtioGarbage, IsServedOrAnError) {
    std::array<uint32_t, 2> ended{};
    for (int life = 0; life < 200; life++) {
        ring = DriverRing(memory_at(kSendRing));
        receive_ring = DriverRing(memory_at(kReceiveRing));
        VirtqAttr sends = ring.attr(true);
        sends.checksums = sends.tso_ipv4 = sends.tso_ipv6 = below(2);
        const Number sender = start(sends), receiver = start(receive_ring.attr(false));
        const std::array receivers{receiver};
        const Number rqt = device->create_rqt(receivers).value();
        TirAttr attr;
        attr.rqt = rqt;
        const Number tir = device->create_tir(attr).value();
        FlowAttr flow;
        flow.tirs = {tir};
        const Number rule = device->create_flow(flow).value();
        scramble(ring, 0);
        scramble(receive_ring, virtio::kWrite);
        for (uint32_t frames = below(6); frames != 0; frames--)
            arrive(frames::build({.payload = Bytes(below(1400))}));
        run();
        for (const Number queue : {sender, receiver}) {
            const VirtqStatus last = status(queue);
            EXPECT_EQ(last.state == VirtqState::error, last.fault != VirtqFault::none);
            EXPECT_EQ(last.next_used, last.next_available);
            ended[last.state == VirtqState::error]++;
        }
        EXPECT_TRUE(device->destroy_flow(rule));
        EXPECT_TRUE(device->destroy_tir(tir));
        EXPECT_TRUE(device->destroy_rqt(rqt));
        for (const Number queue : {sender, receiver})
            EXPECT_TRUE(device->destroy_virtq(queue));
    }
    EXPECT_GT(ended[false], 20u);
    EXPECT_GT(ended[true], 20u);
    EXPECT_GT(wire->sent.size(), 20u);
    EXPECT_GT(device->counters().delivered, 20u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, VirtioGarbage, testing::Range(1u, 9u));

} // namespace
} // namespace testbed
