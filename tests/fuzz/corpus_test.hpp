// SPDX-License-Identifier: BSD-3-Clause
// Plays random inputs, and those that fuzzers found worth keeping, as unit tests.
#pragma once

#include "tests/fuzz/corpus.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace fuzz {

struct Target {
    const char* name; ///< also that of its folder in corpus/
    std::string (*play)(std::span<const uint8_t>);
};

inline void expect_no_problem(const Target& target, const std::vector<uint8_t>& input,
                              const std::string& which) {
    EXPECT_EQ(target.play(input), "") << target.name << ", " << which;
}

using Inputs = std::map<std::string, std::vector<uint8_t>>; ///< by file name

[[nodiscard]] inline Inputs corpus_of(const char* target) {
    Inputs inputs;
    for (const auto& entry : std::filesystem::directory_iterator(corpus_folder() / target)) {
        std::ifstream file(entry.path(), std::ios::binary);
        const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
        inputs[entry.path().filename()].assign(bytes.begin(), bytes.end());
    }
    EXPECT_FALSE(inputs.empty()) << target;
    return inputs;
}

/// Plays `count` inputs of at most `longest` random bytes, or from the corpus with some bytes
/// changed; most are the latter.
inline void play_some(const Target& target, size_t count, size_t longest) {
    std::vector<std::vector<uint8_t>> corpus;
    for (const auto& [name, input] : corpus_of(target.name)) {
        expect_no_problem(target, input, name);
        corpus.push_back(input);
    }
    ASSERT_FALSE(corpus.empty());
    std::mt19937 random{1};
    for (size_t i = 0; i < count; ++i) {
        std::vector<uint8_t> input = i % 4 == 0 ? std::vector<uint8_t>(random() % longest)
                                                : corpus[random() % corpus.size()];
        for (size_t changes = i % 4 == 0 ? input.size() : random() % 8; changes > 0; --changes)
            if (!input.empty()) input[random() % input.size()] = static_cast<uint8_t>(random());
        expect_no_problem(target, input, "input " + std::to_string(i));
    }
}

} // namespace fuzz
