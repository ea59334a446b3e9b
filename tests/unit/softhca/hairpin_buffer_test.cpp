// SPDX-License-Identifier: BSD-3-Clause
// The buffer between the two queues of a hairpin pair, and when a waiting SQ is notified.
#include "tests/unit/softhca/hairpin_fixture.hpp"

namespace testbed {
namespace {

const auto kWakes = std::make_shared<HairpinWakes>();

TEST(HairpinBuffer, WhoWaitsIsToldOnce) {
    const HairpinEnd sq{std::make_shared<std::string>("mlx5_0"), 5};
    HairpinBuffer buffer(kSmall);
    const auto own = std::make_shared<HairpinWakes>();
    const auto told = [&] {
        std::vector<Number> numbers;
        own->take([&](Number number) { numbers.push_back(number); });
        return numbers;
    };
    const Bytes bytes = frames::pattern(100, 1);
    const iovec piece{const_cast<uint8_t*>(bytes.data()), bytes.size()};
    buffer.push({&piece, 1}, 100, 0);
    ASSERT_TRUE(buffer.attach(sq, own));
    EXPECT_FALSE(buffer.waits()) << "it has not looked yet";
    EXPECT_FALSE(buffer.take()) << "the RQ names nobody";
    EXPECT_TRUE(buffer.waits());
    EXPECT_EQ(told(), std::vector<Number>{});
    buffer.name(sq, buffer.size());
    EXPECT_EQ(told(), std::vector<Number>{5}) << "for the packet that is there";
    EXPECT_FALSE(buffer.waits());
    ASSERT_TRUE(buffer.take());
    buffer.sent();
    buffer.push({&piece, 1}, 100, 0);
    EXPECT_EQ(told(), std::vector<Number>{}) << "it has not begun to wait";
    ASSERT_TRUE(buffer.take());
    buffer.sent();
    EXPECT_FALSE(buffer.take());
    buffer.push({&piece, 1}, 100, 0);
    buffer.push({&piece, 1}, 100, 0);
    EXPECT_EQ(told(), std::vector<Number>{5});
    EXPECT_EQ(told(), std::vector<Number>{});
}

TEST(HairpinBuffer, GoesRoundInItsMemory) {
    const HairpinEnd sq{std::make_shared<std::string>("mlx5_0"), 5};
    HairpinBuffer buffer({.log_packets = 2, .log_bytes = 11});
    buffer.name(sq, buffer.size());
    ASSERT_TRUE(buffer.attach(sq, kWakes));
    for (uint8_t round = 0; round < 50; round++) {
        const Bytes one = frames::pattern(700, round), two = frames::pattern(1348, round);
        for (const Bytes& bytes : {one, two}) {
            const iovec piece{const_cast<uint8_t*>(bytes.data()), bytes.size()};
            ASSERT_TRUE(buffer.has_room(static_cast<uint32_t>(bytes.size())));
            buffer.push({&piece, 1}, static_cast<uint32_t>(bytes.size()), round);
        }
        EXPECT_FALSE(buffer.has_room(1));
        for (const Bytes& bytes : {one, two}) {
            const auto packet = buffer.take();
            ASSERT_TRUE(packet);
            Bytes got(packet->bytes);
            PieceCursor(packet->pieces())
                .copy(packet->bytes, reinterpret_cast<std::byte*>(got.data()));
            EXPECT_EQ(got, bytes);
            EXPECT_EQ(packet->metadata, round);
            buffer.sent();
            buffer.free();
        }
        EXPECT_EQ(buffer.packets(), 0u);
    }
    EXPECT_FALSE(buffer.has_room(2049));
}

TEST(HairpinBuffer, APacketOnItsWayIsNotDropped) {
    const HairpinEnd sq{std::make_shared<std::string>("mlx5_0"), 5};
    HairpinBuffer buffer(kSmall);
    buffer.name(sq, buffer.size());
    ASSERT_TRUE(buffer.attach(sq, kWakes));
    const Bytes bytes = frames::pattern(100, 1);
    const iovec piece{const_cast<uint8_t*>(bytes.data()), bytes.size()};
    for (int i = 0; i < 3; i++)
        buffer.push({&piece, 1}, 100, 0);
    const auto first = buffer.take();
    ASSERT_TRUE(first);
    EXPECT_EQ(buffer.drop(), 2u) << "the first one is being sent";
    EXPECT_EQ(buffer.packets(), 1u);
    buffer.sent();
    EXPECT_EQ(buffer.packets(), 0u);
    EXPECT_EQ(buffer.drop(), 0u) << "its bytes are still read";
    buffer.push({&piece, 1}, 100, 7);
    EXPECT_FALSE(buffer.take()) << "the RQ names nobody";
    buffer.name(sq, buffer.size());
    const auto second = buffer.take();
    ASSERT_TRUE(second);
    EXPECT_EQ(second->metadata, 7u);
    EXPECT_NE(second->serial, first->serial);
    buffer.keep();
    EXPECT_EQ(buffer.drop(), 1u);
    buffer.push({&piece, 1}, 100, 8);
    buffer.name(sq, buffer.size());
    EXPECT_NE(buffer.take()->serial, second->serial) << "what became of that is not about this one";
}

TEST(HairpinBuffer, HoldsNoMoreForASmallerPeerWhileAPacketLeaves) {
    const HairpinEnd sq{std::make_shared<std::string>("mlx5_0"), 5};
    HairpinBuffer buffer({.log_packets = 4, .log_bytes = 12});
    buffer.name(sq, buffer.size());
    ASSERT_TRUE(buffer.attach(sq, kWakes));
    const Bytes bytes = frames::pattern(3000, 1);
    const iovec piece{const_cast<uint8_t*>(bytes.data()), bytes.size()};
    buffer.push({&piece, 1}, 3000, 0);
    ASSERT_TRUE(buffer.take());
    EXPECT_EQ(buffer.drop(), 0u);
    buffer.name(sq, kSmall); // 2048 bytes
    EXPECT_FALSE(buffer.has_room(60));
    buffer.sent();
    buffer.free();
    EXPECT_TRUE(buffer.has_room(2048));
}

} // namespace
} // namespace testbed
