// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/ring_text.hpp"

#include "common/net/endian.hpp"

namespace rawqp {

std::string words_text(const char* name, const void* memory, size_t bytes) {
    constexpr size_t kWordsOfLine = 8;
    std::string text;
    const auto* const first = static_cast<const uint8_t*>(memory);
    const size_t count = bytes / sizeof(uint32_t);
    for (size_t i = 0; i < count; ++i) {
        if (i % kWordsOfLine == 0) text += fmt::format("    {}", name);
        text += fmt::format(" {:08x}", net::load_be<uint32_t>(first + i * sizeof(uint32_t)));
        if (i % kWordsOfLine == kWordsOfLine - 1 || i == count - 1) text += '\n';
    }
    return text;
}

} // namespace rawqp
