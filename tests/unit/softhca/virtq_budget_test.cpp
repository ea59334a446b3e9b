// SPDX-License-Identifier: BSD-3-Clause
// Chains of many descriptors with almost no contents: a driver that posts them does not hold up the
// device thread.
#include "app/softhca/core/virtio/virtq.hpp"
#include "tests/unit/softhca/virtq.hpp"

#include <nlohmann/json.hpp>

namespace testbed {
namespace {

constexpr uint32_t kLongest = kMaxChainDescriptors;

class VirtioBudget : public VirtioTest {
  protected:
    static constexpr uint16_t kEntries = 512, kPosted = 100;
    static constexpr size_t kDescriptors = 0x40000, kAvailable = 0x48000, kUsed = 0x4a000;

    [[nodiscard]] virtio::Descriptor* descriptors() {
        return reinterpret_cast<virtio::Descriptor*>(memory_at(kDescriptors));
    }
    /// Starts a queue whose chains are all the same one: these descriptors first, then empty ones.
    Number start_with(const std::vector<Buffer>& first, uint32_t length, bool writable) {
        for (uint32_t i = 0; i < length; i++) {
            const Buffer buffer = i < first.size() ? first[i] : Buffer{memory_at(kFrames), 0};
            const bool last = i + 1 == length;
            descriptors()[i] = {.address = reinterpret_cast<uint64_t>(buffer.at),
                                .bytes = buffer.bytes,
                                .flags = static_cast<uint16_t>((writable ? virtio::kWrite : 0) |
                                                               (last ? 0 : virtio::kNext)),
                                .next = static_cast<uint16_t>(i + 1)};
        }
        auto* const available = reinterpret_cast<uint16_t*>(memory_at(kAvailable));
        available[1] = kPosted; // each begins at descriptor 0
        VirtqAttr attr;
        attr.entries = kEntries;
        attr.descriptors = reinterpret_cast<uint64_t>(descriptors());
        attr.available = reinterpret_cast<uint64_t>(available);
        attr.used = reinterpret_cast<uint64_t>(memory_at(kUsed));
        attr.sends = !writable;
        attr.version_1 = true;
        return start(attr);
    }
    [[nodiscard]] uint16_t used() { return reinterpret_cast<uint16_t*>(memory_at(kUsed))[1]; }
    const Bytes frame = frames::build({});
};

TEST_F(VirtioBudget, OfWhatIsSentInARound) {
    (void)start_with({header(), part(0x100, frame)}, kLongest, false);
    device->poll();
    EXPECT_GT(used(), 0);
    EXPECT_LE(used(), kChainsOfRound / kLongest);
    run();
    EXPECT_EQ(wire->sent, std::vector<Bytes>(kPosted, frame)) << "none is left";
}

TEST_F(VirtioBudget, OfWhatIsReceivedInARound) {
    steer_to(start_with({{memory_at(kBuffers), 2048}}, kLongest, true));
    wire->incoming.assign(kPosted, frame);
    device->poll();
    EXPECT_GT(used(), 0);
    EXPECT_LT(used(), kPosted);
    run();
    EXPECT_EQ(used(), kPosted);
    EXPECT_EQ(device->counters().delivered, kPosted);
}

TEST_F(VirtioBudget, ShortChainsHaveRoomForABatch) {
    (void)start_with({header(), part(0x100, frame)}, 2, false);
    device->poll();
    EXPECT_EQ(used(), kPosted);
}

/// Each gets its turn, although those before it have more work than a round does.
TEST_F(VirtioBudget, ALaterQueueIsServedToo) {
    constexpr int kBusy = 12; // eight of them fill a round
    for (int i = 0; i < kBusy; i++)
        (void)start_with({header(), part(0x100, frame)}, kLongest, false);
    for (int round = 0; round < 2; round++)
        device->poll();
    const nlohmann::json stats = device->stats();
    for (const auto& queue : stats["sqs"])
        if (queue["number"] != sq.number) {
            EXPECT_GT(queue["packets"], 0) << queue;
        }
}

TEST_F(VirtioBudget, OneMoreDescriptorIsTooMany) {
    const Number queue = start_with({header(), part(0x100, frame)}, kLongest + 1, false);
    run();
    EXPECT_TRUE(wire->sent.empty());
    EXPECT_EQ(device->query_virtq(queue)->fault, VirtqFault::chain_too_long);
}

} // namespace
} // namespace testbed
