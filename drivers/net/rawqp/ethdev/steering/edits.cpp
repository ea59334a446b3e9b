// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/edits.hpp"

#include "common/net/endian.hpp"
#include "drivers/net/rawqp/ethdev/steering/bits.hpp"

#include <algorithm>
#include <optional>

namespace rawqp {
namespace {

/// A field that the device can change, by the PRM's numbers (Linux: MLX5_ACTION_IN_FIELD_*). One
/// of more than 32 bits has as many numbers as it has words, one after the other.
struct RewritableField {
    Protocol protocol;
    uint16_t bit, bits;
    uint16_t number;
};
using enum Protocol;
constexpr int kWord = 32;
constexpr RewritableField kRewritable[] = {
    {eth, 0, 48, 0x04},
    {eth, 48, 48, 0x01},
    {vlan, kVlanId, kVlanIdBits, 0x17},
    {ipv4, 8, 6, 0x06},
    {ipv4, 64, 8, 0x0a},
    {ipv4, 96, 32, 0x15},
    {ipv4, 128, 32, 0x16},
    {ipv6, 4, 6, 0x06},
    {ipv6, 56, 8, 0x47},
    {ipv6, 64, 128, 0x0d},
    {ipv6, 192, 128, 0x11},
    {tcp, 0, 16, 0x08},
    {tcp, 16, 16, 0x09},
    {tcp, 32, 32, 0x59},
    {tcp, 64, 32, 0x5b},
    {udp, 0, 16, 0x0b},
    {udp, 16, 16, 0x0c},
    {meta, 0, 32, 0x52},
    {Protocol::tag, 0, 32, 0x53},
    {Protocol::tag, 32, 32, 0x54},
    {Protocol::tag, 64, 32, 0x55},
    {Protocol::tag, 96, 32, 0x57}, // 0x56 is of the register of colors
    {mark, 0, 32, 0x58},
    {sent_meta, 0, 32, 0x49},
};

const RewritableField* find(Protocol protocol, uint16_t bit, uint16_t bits) {
    const auto* const found = std::ranges::find_if(kRewritable, [&](const RewritableField& field) {
        return field.protocol == protocol && field.bit <= bit &&
               bit + bits <= field.bit + field.bits;
    });
    return found == std::end(kRewritable) ? nullptr : found;
}

/// The word of a field that has this bit.
struct Word {
    uint64_t number;
    int left; ///< bits of it, from this one on
};
Word word_of(const RewritableField& field, int bit) {
    const int index = (bit - field.bit) / kWord;
    const int end = std::min(field.bit + (index + 1) * kWord, field.bit + field.bits);
    return {field.number + static_cast<uint64_t>(index), end - bit};
}

/// Of so many bits at most. `to` is the word that changes, and `from` the one that it is copied
/// from.
uint64_t command_of(const Rewrite& rewrite, int done, int bits, const Word& to,
                    const std::optional<Word>& from) {
    constexpr uint64_t kSet = 1, kAdd = 2, kCopy = 3;
    const auto offset = static_cast<uint64_t>(to.left - bits);
    const auto length = static_cast<uint64_t>(bits % kWord) << 32;
    if (from)
        return kCopy << 60 | from->number << 48 | static_cast<uint64_t>(from->left - bits) << 40 |
               length | to.number << 16 | offset << 8;
    return (rewrite.add ? kAdd : kSet) << 60 | to.number << 48 | offset << 40 | length |
           get_bits(rewrite.value, static_cast<size_t>(done), static_cast<size_t>(bits));
}

/// As many commands as it takes not to leave a word.
void append_commands(const Rewrite& rewrite, std::vector<uint64_t>& commands) {
    constexpr uint64_t kReported = 0x50;
    const RewritableField* const field = find(rewrite.protocol, rewrite.bit, rewrite.bits);
    const RewritableField* const source =
        rewrite.from ? find(rewrite.from->protocol, rewrite.from->bit, rewrite.bits) : nullptr;
    if (field == nullptr || (rewrite.from && source == nullptr))
        return; // translation has seen to it
    for (int done = 0, bits = 0; done < rewrite.bits; done += bits) {
        Word to = word_of(*field, rewrite.bit + done);
        std::optional<Word> from;
        bits = std::min(rewrite.bits - done, to.left);
        if (source != nullptr) {
            from = word_of(*source, rewrite.from->bit + done);
            bits = std::min(bits, from->left);
        }
        commands.push_back(net::to_be(command_of(rewrite, done, bits, to, from)));
        // What rules match is not what the device reports: that is register B.
        if (rewrite.protocol != meta) continue;
        to.number = kReported;
        commands.push_back(net::to_be(command_of(rewrite, done, bits, to, from)));
    }
}

} // namespace

std::vector<uint64_t> rewrite_commands(std::span<const Rewrite> rewrites) {
    std::vector<uint64_t> commands;
    for (const Rewrite& rewrite : rewrites)
        append_commands(rewrite, commands);
    return commands;
}

} // namespace rawqp
