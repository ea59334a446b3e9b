// SPDX-License-Identifier: BSD-3-Clause
// The bounded part of fuzzing the Rx readers: the same inputs in every run, and those for which
// fuzzing once found a bug (tests/fuzz/corpus). The unbounded part is tests/fuzz/run.
#include "tests/fuzz/corpus.hpp"
#include "tests/fuzz/rx_cqes.hpp"
#include "tests/fuzz/rx_frames.hpp"
#include "tests/unit/eal.hpp"
#include "tests/unit/rings/vector_widths.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

namespace {

/// Completions that mostly look valid, so that readers get far before something odd comes.
std::vector<uint8_t> random_cqes(uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<uint8_t> input;
    const auto put = [&](unsigned value) { input.push_back(static_cast<uint8_t>(value)); };
    for (int i = 0; i < 3; ++i)
        put(random());
    for (unsigned step = 0; step < 300; ++step) {
        const unsigned kind = random() % 20;
        if (kind >= 14) { // poll, perhaps keeping the packets
            put(random() % 4 == 0 ? 129 : 4);
            put(random());
            continue;
        }
        put(kind == 0 ? 1 : kind == 1 ? 3u + random() % 51 * 5 : 0);
        if (kind == 1) continue; // failing resets, marks, queries
        for (unsigned i = 0; i < 64; ++i)
            put(random());
        const bool wild = random() % 8 == 0;
        if (wild) continue;
        input[input.size() - 20] = input[input.size() - 19] = 0; // byte_count below 64 KiB
        input[input.size() - 18] %= 16;
        input.back() = random() % 12 == 0 ? 0xe0 : random() % 6 == 0 ? 0x2c : 0x20;
    }
    return input;
}

/// Frames whose headers mostly look valid, of any length.
std::vector<uint8_t> random_frames(uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<uint8_t> input;
    const auto put = [&](unsigned value) { input.push_back(static_cast<uint8_t>(value)); };
    const auto one_of = [&](std::initializer_list<uint8_t> values) {
        return random() % 8 == 0 ? random() : values.begin()[random() % values.size()];
    };
    put(random());
    put(random());
    for (unsigned step = 0; step < 200; ++step) {
        if (random() % 3 == 0) { // poll, perhaps keeping the packets
            put(one_of({4, 129}));
            put(random());
            continue;
        }
        if (random() % 8 == 0) { // errors, refused requests and resets
            put(one_of({1, 3, 7, 38, 68, 132}));
            put(random());
            continue;
        }
        put(0);
        const unsigned length = 14 + random() % 600;
        put(length & 0xff);
        put(length >> 8);
        const size_t frame = input.size();
        for (unsigned i = 0; i < length; ++i)
            put(random());
        const bool ipv6 = random() % 2 == 0;
        const bool tagged = random() % 4 == 0;
        const uint8_t protocol = static_cast<uint8_t>(
            one_of({IPPROTO_TCP, IPPROTO_UDP, IPPROTO_HOPOPTS, IPPROTO_FRAGMENT, IPPROTO_DSTOPTS}));
        const size_t l3 = tagged ? 18 : 14;
        const auto set = [&](size_t at, unsigned value) {
            if (at < length) input[frame + at] = static_cast<uint8_t>(value);
        };
        set(12, tagged ? 0x81 : 0x08);
        set(13, 0);
        set(l3 - 2, ipv6 ? 0x86 : 0x08);
        set(l3 - 1, ipv6 ? 0xdd : 0x00);
        set(l3, ipv6 ? 0x60 : one_of({0x45, 0x46, 0x4f}));
        if (!ipv6) set(l3 + 6, 0); // mostly not a fragment
        if (!ipv6) set(l3 + 7, random() % 8 == 0);
        set(l3 + (ipv6 ? 6 : 9), protocol);
        set(l3 + 40, one_of({IPPROTO_TCP, IPPROTO_UDP})); // after an extension header
        set(l3 + 41, random() % 64);
    }
    return input;
}

using Bytes = std::vector<uint8_t>;

unsigned no_reader(std::span<const uint8_t>) { return rings_test::kScalar; }

struct Target {
    const char* name;
    std::string (*play)(std::span<const uint8_t>);
    Bytes (*random_input)(uint32_t seed);
    unsigned (*reader)(std::span<const uint8_t>); ///< vector width that the input selects
};
constexpr Target kCqes{"cqes", fuzz::play_cqes, random_cqes, fuzz::reader_bits};
constexpr Target kFrames{"frames", fuzz::play_frames, random_frames, no_reader};

// -- random inputs, one test per reader

class RxFuzz : public test_eal::EalTest,
               public testing::WithParamInterface<std::tuple<Target, unsigned>> {};

TEST_P(RxFuzz, SameRandomInputs) {
    const auto& [target, bits] = GetParam();
    SKIP_WITHOUT_VECTORS(bits);
    unsigned played = 0;
    for (uint32_t seed = 0; seed < 200; ++seed) {
        const Bytes input = target.random_input(seed);
        if (target.reader(input) != bits) continue;
        ASSERT_EQ(target.play(input), "") << "seed " << seed;
        ++played;
    }
    EXPECT_GT(played, 30u);
}

INSTANTIATE_TEST_SUITE_P(Cqes, RxFuzz,
                         testing::Combine(testing::Values(kCqes),
                                          testing::ValuesIn(rings_test::kWidths)),
                         rings_test::kByNameAndWidth);
INSTANTIATE_TEST_SUITE_P(Frames, RxFuzz,
                         testing::Combine(testing::Values(kFrames),
                                          testing::Values(rings_test::kScalar)),
                         [](const auto&) { return "frames"; });

// -- inputs that once failed

struct Found {
    Target target;
    std::filesystem::path file;
};

std::vector<Found> corpus(const Target& target) {
    std::vector<Found> all;
    for (const auto& entry :
         std::filesystem::directory_iterator(fuzz::corpus_folder() / target.name))
        all.push_back({target, entry.path()});
    return all;
}

class RxFuzzCorpus : public test_eal::EalTest, public testing::WithParamInterface<Found> {};

TEST_P(RxFuzzCorpus, IsPlayed) {
    const auto& [target, path] = GetParam();
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    const Bytes input(bytes.begin(), bytes.end());
    SKIP_WITHOUT_VECTORS(target.reader(input));
    EXPECT_EQ(target.play(input), "");
}

const auto kFileName = [](const auto& info) { return info.param.file.stem().string(); };
INSTANTIATE_TEST_SUITE_P(Cqes, RxFuzzCorpus, testing::ValuesIn(corpus(kCqes)), kFileName);
INSTANTIATE_TEST_SUITE_P(Frames, RxFuzzCorpus, testing::ValuesIn(corpus(kFrames)), kFileName);

} // namespace
