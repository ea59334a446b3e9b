// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/edits.hpp"

#include "common/net/endian.hpp"
#include "drivers/net/rawqp/ethdev/steering/bits.hpp"

#include <algorithm>

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
constexpr uint16_t kWord = 32;
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
        if (field.protocol != protocol) return false;
        return field.bits <= kWord ? field.bit <= bit && bit + bits <= field.bit + field.bits
                                   : field.bit == bit && field.bits == bits;
    });
    return found == std::end(kRewritable) ? nullptr : found;
}

/// The bits of the field below the part of it.
int below(const RewritableField& field, uint16_t bit, uint16_t bits) {
    return field.bit + field.bits - bit - bits;
}

/// One of the words that a rewrite consists of. `number`: of the field that changes.
uint64_t command_of(const Rewrite& rewrite, uint16_t done, const RewritableField& field,
                    uint64_t number) {
    constexpr uint64_t kSet = 1, kAdd = 2, kCopy = 3;
    const auto bits = std::min<uint16_t>(kWord, static_cast<uint16_t>(rewrite.bits - done));
    const auto offset = static_cast<uint64_t>(below(field, rewrite.bit, rewrite.bits));
    const uint64_t length = uint64_t{bits} % kWord << 32;
    if (!rewrite.from)
        return (rewrite.add ? kAdd : kSet) << 60 | number << 48 | offset << 40 | length |
               get_bits(rewrite.value, done, bits);
    const auto& [protocol, bit] = *rewrite.from;
    const RewritableField* const source = find(protocol, bit, rewrite.bits);
    if (source == nullptr) return 0; // translation has seen to it
    return kCopy << 60 | (uint64_t{source->number} + done / kWord) << 48 |
           static_cast<uint64_t>(below(*source, bit, rewrite.bits)) << 40 | length | number << 16 |
           offset << 8;
}

} // namespace

std::vector<uint64_t> rewrite_commands(std::span<const Rewrite> rewrites) {
    constexpr uint64_t kReported = 0x50;
    std::vector<uint64_t> commands;
    for (const Rewrite& rewrite : rewrites) {
        const RewritableField* const field = find(rewrite.protocol, rewrite.bit, rewrite.bits);
        if (field == nullptr) continue; // translation has seen to it
        for (uint16_t done = 0; done < rewrite.bits; done = static_cast<uint16_t>(done + kWord)) {
            const uint64_t number = uint64_t{field->number} + done / kWord;
            commands.push_back(net::to_be(command_of(rewrite, done, *field, number)));
            // What rules match is not what the device reports: that is register B.
            if (rewrite.protocol == meta)
                commands.push_back(net::to_be(command_of(rewrite, done, *field, kReported)));
        }
    }
    return commands;
}

} // namespace rawqp
