// SPDX-License-Identifier: BSD-3-Clause
// Indirect keys, which consist of parts of other keys, and keys without memory.
#include "app/softhca/core/mkey.hpp"
#include "tests/unit/softhca/refusal.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <algorithm>
#include <chrono>

namespace {

using namespace softhca::core;

class IndirectKeys : public testing::Test {
  protected:
    IndirectKeys() { plain = insert({.pd = 1, .length = kBytes, .memory = whole()}); }
    DmaArea whole() { return DmaArea::contiguous(memory.data(), memory.size()); }
    uint32_t insert(MkeyAttr attr) {
        attr.local_write = true;
        return table.insert(std::move(attr));
    }
    uint32_t insert(std::vector<KeyPart> parts, uint64_t length, uint64_t iova = 0) {
        MkeyAttr attr;
        attr.pd = 1;
        attr.iova = iova;
        attr.length = length;
        attr.parts = std::move(parts);
        return insert(std::move(attr));
    }
    /// Offsets and sizes of the pieces, then "no" if the key is refused.
    std::string pieces(uint32_t key, uint64_t address, uint32_t bytes, Number pd = 1) {
        std::string text;
        const bool done = table.translate(
            key, pd, Access::write, address, bytes, [&](const std::byte* piece, uint32_t count) {
                text += std::to_string(piece - memory.data()) + "+" + std::to_string(count) + " ";
                return true;
            });
        return done ? text : text + "no";
    }

    static constexpr size_t kBytes = 4096;
    std::vector<std::byte> memory = std::vector<std::byte>(kBytes);
    MkeyTable table;
    uint32_t plain = 0;
};

TEST_F(IndirectKeys, PartsFollowEachOther) {
    const uint32_t key = insert({{plain, 1000, 10}, {plain, 0, 20}, {plain, 500, 30}}, 60, 0x7000);
    EXPECT_EQ(pieces(key, 0x7000, 60), "1000+10 0+20 500+30 ");
    EXPECT_EQ(pieces(key, 0x7000 + 15, 20), "5+15 500+5 ");
    EXPECT_EQ(pieces(key, 0x7000 + 30, 30), "500+30 ");
    EXPECT_EQ(pieces(key, 0x7000 + 1, 60), "no") << "too long";
    EXPECT_EQ(pieces(key, 0x6fff, 1), "no");
    EXPECT_EQ(pieces(key, 0x7000, 0), "");
}

TEST_F(IndirectKeys, EmptyPartsAreNone) {
    const uint32_t key = insert({{plain, 0, 0}, {plain, 7, 1}, {0, 0, 0}, {plain, 9, 2}}, 3);
    EXPECT_EQ(pieces(key, 0, 3), "7+1 9+2 ");
    EXPECT_EQ(pieces(key, 2, 1), "10+1 ");
}

/// Each part of the outer key makes the device search the inner one, which has many parts. The last
/// part takes about as long to find as the first: no load on the machine slows down the fastest of
/// several runs, but a linear search would take thousands of times as long.
TEST_F(IndirectKeys, ManyPartsAreFoundAtOnce) {
    constexpr uint32_t kParts = (1u << Limits::kLogMaxKeyParts) - 1, kUses = 1000;
    const uint32_t inner = insert(std::vector<KeyPart>(kParts, {plain, 3, 1}), kParts);
    const auto time_of = [&](uint32_t part) {
        const uint32_t outer = insert(std::vector<KeyPart>(kUses, {inner, part, 1}), kUses);
        auto fastest = std::chrono::nanoseconds::max();
        for (int run = 0; run < 10; run++) {
            uint32_t found = 0;
            const auto use = [&](const std::byte* piece, uint32_t) {
                found += piece == &memory[3];
                return true;
            };
            const auto begin = std::chrono::steady_clock::now();
            EXPECT_TRUE(table.translate(outer, 1, Access::read, 0, kUses, use));
            fastest = std::min<std::chrono::nanoseconds>(fastest,
                                                         std::chrono::steady_clock::now() - begin);
            EXPECT_EQ(found, kUses);
        }
        return fastest;
    };
    EXPECT_LT(time_of(kParts - 1), 20 * time_of(0));
}

TEST_F(IndirectKeys, AWindowLeadsToWhatTranslationLeadsTo) {
    constexpr uint64_t kIova = 0x7000;
    const std::vector<std::byte*> pages{memory.data() + 1024, memory.data() + 2048, memory.data()};
    const DmaArea paged = DmaArea::paged(pages, 10, 100, 2500); // a part of the first and the last
    const uint32_t key = insert({.pd = 1, .iova = kIova, .length = 2400, .memory = paged});
    for (uint64_t at = kIova - 2; at < kIova + 2503; at++) {
        const KeyWindow window = table.window(key, 1, Access::write, at);
        for (const uint64_t from : {at - 3, at, at + 1, at + 700})
            for (const uint32_t bytes : {1u, 2u, 300u, 1024u, 1025u}) {
                const std::byte* const found = window.find(key, from, bytes);
                if (!found) continue;
                const auto offset = found - memory.data();
                EXPECT_EQ(pieces(key, from, bytes),
                          std::to_string(offset) + "+" + std::to_string(bytes) + " ");
            }
        EXPECT_EQ(window.find(key, at, 1) != nullptr, pieces(key, at, 1) != "no") << at;
        EXPECT_EQ(window.find(key + 1, at, 1), nullptr);
    }
    // A window extends to both sides as far as the memory is contiguous.
    const KeyWindow middle = table.window(key, 1, Access::read, kIova + 1500);
    EXPECT_NE(middle.find(key, kIova + 924, 1024), nullptr);
    EXPECT_EQ(middle.find(key, kIova + 923, 2), nullptr);
}

TEST_F(IndirectKeys, NoWindowIsOpenedWhereTheKeyDoesNotLead) {
    const auto opens = [&](uint32_t key, Number pd = 1, Access access = Access::write) {
        return table.window(key, pd, access, 0).find(key, 0, 1) != nullptr;
    };
    EXPECT_TRUE(opens(plain));
    EXPECT_FALSE(opens(plain, 2)) << "another PD";
    EXPECT_FALSE(opens(plain, 1, Access::remote_write));
    EXPECT_FALSE(opens(plain + 1)) << "a key of the past";
    EXPECT_FALSE(opens(insert({{plain, 0, 10}}, 10))) << "made of others";
    EXPECT_FALSE(opens(kNullKey));
    EXPECT_FALSE(opens(0));
}

TEST_F(IndirectKeys, NothingIsReportedWhenAPartFails) {
    const uint32_t foreign = insert({.pd = 2, .length = kBytes, .memory = whole()});
    EXPECT_EQ(pieces(insert({{plain, 0, 10}, {plain, kBytes - 5, 10}}, 20), 0, 20), "no");
    EXPECT_EQ(pieces(insert({{plain, 0, 10}, {foreign, 0, 10}}, 20), 0, 20), "no");
    EXPECT_EQ(pieces(insert({{plain, 0, 10}, {0x123400, 0, 10}}, 20), 0, 20), "no");
    const uint32_t key = insert({{plain, 0, 10}}, 10);
    EXPECT_EQ(pieces(key, 0, 10, 2), "no") << "another PD";
    EXPECT_EQ(pieces(key, 0, 10), "0+10 ");
    table.erase(plain);
    EXPECT_EQ(pieces(key, 0, 10), "no") << "the part is gone";
}

TEST_F(IndirectKeys, KeysOfKeysEndSomewhere) {
    uint32_t key = plain;
    for (uint8_t depth = 1; depth <= Limits::kMaxIndirection; depth++)
        key = insert({{key, 1, kBytes - depth}}, kBytes - depth);
    EXPECT_EQ(pieces(key, 0, 8), "4+8 ");
    EXPECT_EQ(pieces(insert({{key, 1, 16}}, 16), 0, 8), "no") << "too deep";
    // Indices are consecutive, so this key is a part of itself.
    const uint32_t own = insert({{insert({{plain, 0, 1}}, 1) + 0x100, 0, 10}}, 10);
    EXPECT_EQ(pieces(own, 0, 10), "no");
}

TEST_F(IndirectKeys, APartMayBeNoMemoryAtAll) {
    const uint32_t key =
        insert({{plain, 0, 10}, {kDumpFillKey, 0xabcd, 10000}, {plain, 10, 10}}, 10020);
    std::vector<std::byte> read;
    const auto take = [&](const std::byte* piece, uint32_t bytes) {
        read.insert(read.end(), piece, piece + bytes);
        return true;
    };
    std::fill(memory.begin(), memory.end(), std::byte{7});
    ASSERT_TRUE(table.translate(key, 1, Access::read, 0, 10020, take));
    std::vector<std::byte> expected(10020);
    std::fill_n(expected.begin(), 10, std::byte{7});
    std::fill_n(expected.rbegin(), 10, std::byte{7});
    EXPECT_EQ(read, expected);
    const auto put = [&](std::byte* piece, uint32_t bytes) {
        std::fill_n(piece, bytes, std::byte{9});
        return true;
    };
    ASSERT_TRUE(table.translate(key, 1, Access::write, 0, 10020, put));
    EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{9}), 20);
    read.clear();
    ASSERT_TRUE(table.translate(kDumpFillKey, 5, Access::read, 0, 5000, take));
    EXPECT_EQ(read, std::vector<std::byte>(5000)) << "whatever was written";
}

TEST_F(IndirectKeys, APartMayBeAHole) {
    const uint32_t key = insert({{plain, 0, 10}, {kNullKey, 0, 10}, {plain, 10, 10}}, 30);
    EXPECT_EQ(pieces(key, 0, 10), "0+10 ");
    EXPECT_EQ(pieces(key, 20, 10), "10+10 ");
    EXPECT_EQ(pieces(key, 19, 2), "no");
    EXPECT_EQ(pieces(key, 9, 2), "no");
}

/// Those that the PRM's QUERY_SPECIAL_CONTEXTS reports, and MLX5_INVALID_LKEY.
TEST_F(IndirectKeys, NobodyGetsAKeyThatStandsForNothing) {
    for (const uint32_t special : {kDumpFillKey, kNullKey, 0x100u}) {
        MkeyTable keys;
        const auto variant = static_cast<uint8_t>(special);
        for (size_t left = MkeyTable::kEntries; left != 0; left--)
            ASSERT_NE(keys.insert({.pd = 1, .memory = {}, .variant = variant}), special);
    }
}

/// What applications get from ibv_alloc_null_mr().
class KeyOfNothing : public testbed::Testbed {
  protected:
    static constexpr const void* kAnywhere = nullptr;
    testbed::Wqe wqe{mlx5::WqeOpcode::send};
};

TEST_F(KeyOfNothing, IsSentAsZeros) {
    const testbed::Bytes head = frames::pattern(64);
    sq.post(wqe.eth().data(lkey, put(0, head), 64).data(kDumpFillKey, kAnywhere, 100));
    sq.ring_doorbell();
    run();
    testbed::Bytes expected = head;
    expected.resize(164);
    EXPECT_EQ(wire->sent, std::vector<testbed::Bytes>{expected});
}

TEST_F(KeyOfNothing, TakesWhatNobodyWants) {
    testbed::TestRq two(*device, pd, rx_cq.number, {.log_wqe_bytes = 5});
    steer_all(two);
    two.post({{kDumpFillKey, kAnywhere, 20}, {lkey, memory_at(0), kRoom}});
    const testbed::Bytes frame = frames::build({});
    wire->incoming.push_back(frame);
    run();
    EXPECT_EQ(expect_packet(rx_cq).byte_count, frame.size());
    EXPECT_EQ(get(memory_at(0), frame.size() - 20),
              testbed::Bytes(frame.begin() + 20, frame.end()));
}

class KeyLimits : public testbed::Testbed {};

TEST_F(KeyLimits, AKeyHasAsManyPartsAsAnnounced) {
    MkeyAttr attr;
    attr.pd = pd;
    attr.length = size_t{1} << Limits::kLogMaxKeyParts;
    attr.parts.assign(attr.length, {lkey, 0, 1});
    EXPECT_TRUE(device->create_mkey(attr));
    attr.parts.push_back(attr.parts.front());
    EXPECT_EQ(testbed::refusal(device->create_mkey(attr)), Status::limit);
}

TEST_F(KeyOfNothing, IsNotTheOneOfAHole) {
    sq.post(wqe.eth().data(kNullKey, kAnywhere, 100));
    sq.ring_doorbell();
    steer_all(rq);
    rq.post({{kNullKey, kAnywhere, kRoom}});
    wire->incoming.push_back(frames::build({}));
    run();
    EXPECT_TRUE(wire->sent.empty());
    EXPECT_NE(tx_cq.poll_error(mlx5::CqeOpcode::req_error), nullptr);
    EXPECT_NE(rx_cq.poll_error(mlx5::CqeOpcode::resp_error), nullptr);
}

} // namespace
