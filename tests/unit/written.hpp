// SPDX-License-Identifier: BSD-3-Clause
// What a function writes to a stream.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace test_text {

/// `write` gets the stream.
template <class Write> std::string written(const Write& write) {
    char* text = nullptr;
    size_t size = 0;
    FILE* const file = open_memstream(&text, &size);
    write(file);
    std::fclose(file);
    const std::string all(text, size);
    std::free(text);
    return all;
}

} // namespace test_text
