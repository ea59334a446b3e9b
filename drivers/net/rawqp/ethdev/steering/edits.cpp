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
        return is_metadata(protocol) ? field.bit <= bit && bit + bits <= field.bit + field.bits
                                     : field.bit == bit && field.bits == bits;
    });
    return found == std::end(kRewritable) ? nullptr : found;
}

} // namespace

bool rewritable(Protocol protocol, uint16_t bit, uint16_t bits) {
    return find(protocol, bit, bits) != nullptr;
}

std::vector<uint64_t> rewrite_commands(std::span<const Rewrite> rewrites) {
    constexpr uint64_t kSet = 1, kAdd = 2, kNumber = 0xfffull << 48, kReported = 0x50;
    constexpr uint16_t kWord = 32;
    std::vector<uint64_t> commands;
    for (const Rewrite& rewrite : rewrites) {
        const RewritableField* const field = find(rewrite.protocol, rewrite.bit, rewrite.bits);
        if (field == nullptr) continue; // translation has seen to it
        const int above = field->bit + field->bits - rewrite.bit - rewrite.bits; // left as they are
        for (uint16_t done = 0; done < rewrite.bits; done = static_cast<uint16_t>(done + kWord)) {
            const auto bits = std::min<uint16_t>(kWord, static_cast<uint16_t>(rewrite.bits - done));
            const uint64_t number = uint64_t{field->number} + done / kWord;
            const uint64_t command = (rewrite.add ? kAdd : kSet) << 60 | number << 48 |
                                     static_cast<uint64_t>(above) << 40 |
                                     uint64_t{bits} % kWord << 32 |
                                     get_bits(rewrite.value, done, bits);
            commands.push_back(net::to_be(command));
            // What rules match is not what the device reports: that is register B.
            if (rewrite.protocol == meta)
                commands.push_back(net::to_be((command & ~kNumber) | uint64_t{kReported} << 48));
        }
    }
    return commands;
}

} // namespace rawqp
