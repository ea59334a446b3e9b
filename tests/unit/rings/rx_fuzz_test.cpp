// SPDX-License-Identifier: BSD-3-Clause
// The bounded part of fuzzing the Rx readers: the same inputs at each run, and those that fuzzing
// once found (tests/fuzz/corpus). The unbounded part is tests/fuzz/run.
#include "tests/fuzz/rx_cqes.hpp"
#include "tests/unit/eal.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

namespace {

class Mlx5RxFuzz : public test_eal::EalTest {};

/// Completions that mostly look real, so that readers go deep before something odd comes.
std::vector<uint8_t> random_input(uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<uint8_t> input;
    const auto put = [&](unsigned value) { input.push_back(static_cast<uint8_t>(value)); };
    for (int i = 0; i < 3; ++i)
        put(random());
    for (unsigned step = 0; step < 300; ++step) {
        const unsigned kind = random() % 20;
        if (kind >= 14) { // poll
            put(4);
            put(random());
            continue;
        }
        put(kind == 0 ? 1 : kind == 1 ? (random() % 2 ? 3 : 133) : 0); // 133: resets fail
        if (kind == 1) continue;
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

TEST_F(Mlx5RxFuzz, SameRandomInputs) {
    for (uint32_t seed = 0; seed < 200; ++seed)
        ASSERT_EQ(fuzz::play_rx(random_input(seed)), "") << "seed " << seed;
}

TEST_F(Mlx5RxFuzz, Corpus) {
    size_t inputs = 0;
    for (const auto& entry : std::filesystem::directory_iterator(RAWQP_FUZZ_CORPUS)) {
        std::ifstream file(entry.path(), std::ios::binary);
        const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
        ASSERT_EQ(fuzz::play_rx({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}), "")
            << entry.path();
        ++inputs;
    }
    EXPECT_GT(inputs, 0u);
}

} // namespace
