// SPDX-License-Identifier: BSD-3-Clause
// Fields of a layer, read word by word, are the same as when read bit by bit.
#include "drivers/net/rawqp/ethdev/steering/lack.hpp"

#include <gtest/gtest.h>
#include <random>

namespace rawqp {
namespace {

constexpr size_t kBits = 8 * (kLongestHeader + 1);

LayerBytes random_bytes(std::mt19937& random) {
    LayerBytes bytes{};
    for (size_t i = 0; i <= kLongestHeader; ++i)
        bytes[i] = static_cast<uint8_t>(random());
    return bytes;
}

bool bit_of(const LayerBytes& bytes, size_t bit) {
    return (bytes[bit / 8] >> (7 - bit % 8) & 1) != 0;
}

void put_bit(LayerBytes& bytes, size_t bit, bool set) {
    const auto mask = static_cast<uint8_t>(0x80 >> bit % 8);
    uint8_t& byte = bytes[bit / 8];
    byte = static_cast<uint8_t>(set ? byte | mask : byte & ~mask);
}

/// Every possible run of bits, up to `longest`.
template <class Each> void each_stretch(size_t longest, Each each) {
    for (size_t bit = 0; bit < kBits; ++bit)
        for (size_t count = 0; count <= std::min(longest, kBits - bit); ++count)
            each(bit, count);
}

TEST(LayerBytesTest, GetsTheNumberInAnyBits) {
    std::mt19937 random(1);
    const LayerBytes bytes = random_bytes(random);
    each_stretch(64, [&](size_t bit, size_t count) {
        uint64_t number = 0;
        for (size_t i = 0; i < count; ++i)
            number = number << 1 | (bit_of(bytes, bit + i) ? 1 : 0);
        ASSERT_EQ(get_bits(bytes, bit, count), number) << count << " bits from " << bit;
    });
}

TEST(LayerBytesTest, SetsTheseBitsAndNoOthers) {
    std::mt19937 random(2);
    const LayerBytes before = random_bytes(random);
    each_stretch(64, [&](size_t bit, size_t count) {
        const uint64_t number = uint64_t{random()} << 32 | random();
        LayerBytes wanted = before;
        for (size_t i = 0; i < count; ++i)
            put_bit(wanted, bit + i, (number >> (count - 1 - i) & 1) != 0);
        LayerBytes bytes = before;
        set_bits(bytes, bit, count, number);
        ASSERT_EQ(bytes, wanted) << count << " bits from " << bit;
    });
}

TEST(LayerBytesTest, KnowsWhetherAnyBitIsSet) {
    for (size_t set = 0; set < kBits; set += 5) {
        LayerBytes bytes{};
        set_all_bits(bytes, set, 1);
        each_stretch(kBits, [&](size_t bit, size_t count) {
            ASSERT_EQ(any_bit(bytes, bit, count), bit <= set && set < bit + count)
                << "bit " << set << ": " << count << " from " << bit;
        });
    }
}

TEST(LayerBytesTest, SetsAnyNumberOfBits) {
    each_stretch(kBits, [&](size_t bit, size_t count) {
        LayerBytes bytes{}, wanted{};
        set_all_bits(bytes, bit, count);
        for (size_t i = 0; i < count; ++i)
            put_bit(wanted, bit + i, true);
        ASSERT_EQ(bytes, wanted) << count << " bits from " << bit;
    });
}

TEST(LayerBytesTest, CombinesAllBytes) {
    std::mt19937 random(3);
    const LayerBytes a = random_bytes(random), b = random_bytes(random);
    for (size_t i = 0; i < sizeof a; ++i) {
        EXPECT_EQ((a & b)[i], a[i] & b[i]);
        EXPECT_EQ((a | b)[i], a[i] | b[i]);
        EXPECT_EQ((a ^ b)[i], a[i] ^ b[i]);
        EXPECT_EQ(without(a, b)[i], a[i] & ~b[i]);
    }
    EXPECT_FALSE(any(a ^ a));
    for (size_t i = 0; i < kBits; ++i) {
        LayerBytes one{};
        set_all_bits(one, i, 1);
        EXPECT_TRUE(any(one));
    }
}

// Bits that two fields share are carried if either field is; the field reported is one that has
// bits left over.
TEST(LackTest, NamesTheFirstFieldWithoutAPlace) {
    const CarriedBits all([](const Field&, uint8_t) { return true; });
    const CarriedBits no_ports([](const Field& field, uint8_t) { return field.bits != 16; });
    const CarriedBits outer([](const Field&, uint8_t depth) { return depth == 0; });
    Pattern pattern;
    ASSERT_EQ(pattern.push(Protocol::ipv4), Pattern::Follows::yes);
    ASSERT_EQ(pattern.push(Protocol::udp), Pattern::Follows::yes);
    pattern.last().set(16, 16, 4789);
    EXPECT_FALSE(first_lack(pattern, "nobody has", all));
    EXPECT_FALSE(first_lack(pattern, "nobody has", outer));

    pattern.eth().forget(96, 16); // its EtherType
    const auto port = first_lack(pattern, "nobody has", no_ports);
    ASSERT_TRUE(port);
    EXPECT_EQ(port->layer, &pattern.last());
    EXPECT_EQ(port->what(),
              "field dst cannot be matched: nobody has no place for it: clear its mask");

    ASSERT_EQ(pattern.push(Protocol::vxlan), Pattern::Follows::yes);
    ASSERT_EQ(pattern.push(Protocol::eth), Pattern::Follows::yes);
    EXPECT_FALSE(first_lack(pattern, "nobody has", outer)) << "nothing inside is asked for";
    pattern.last().set(47, 1, 1);
    const auto inner = first_lack(pattern, "nobody has", outer);
    ASSERT_TRUE(inner);
    EXPECT_EQ(inner->layer, &pattern.last());
    EXPECT_EQ(inner->what(), "field dst cannot be matched inside a tunnel: nobody has no place for "
                             "it: clear its mask");
}

} // namespace
} // namespace rawqp
