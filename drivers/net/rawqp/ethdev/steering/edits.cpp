// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/edits.hpp"

#include "common/net/endian.hpp"
#include "drivers/net/rawqp/ethdev/steering/bits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace rawqp {
namespace {

/// A field that the device can change, by the PRM's numbers (Linux: MLX5_ACTION_IN_FIELD_*). A
/// field of more than 32 bits has consecutive numbers, one for each of its words.
struct RewritableField {
    Protocol protocol;
    uint16_t bit, bits;
    uint16_t number;
    const char* name; ///< as in rte_flow's items and modify_field
};
using enum Protocol;
constexpr int kWord = 32;
constexpr RewritableField kRewritable[] = {
    {eth, 0, 48, 0x04, "dst"},
    {eth, 48, 48, 0x01, "src"},
    {vlan, kVlanId, kVlanIdBits, 0x17, "vid"},
    {ipv4, 8, 6, 0x06, "dscp"},
    {ipv4, 14, 2, 0x73, "ecn"},
    {ipv4, 64, 8, 0x0a, "ttl"},
    {ipv4, 96, 32, 0x15, "src"},
    {ipv4, 128, 32, 0x16, "dst"},
    {ipv6, 4, 6, 0x06, "dscp"},
    {ipv6, 10, 2, 0x73, "ecn"},
    {ipv6, 56, 8, 0x47, "hop"},
    {ipv6, 64, 128, 0x0d, "src"},
    {ipv6, 192, 128, 0x11, "dst"},
    {tcp, 0, 16, 0x08, "src"},
    {tcp, 16, 16, 0x09, "dst"},
    {tcp, 32, 32, 0x59, "seq"},
    {tcp, 64, 32, 0x5b, "ack"},
    {tcp, 103, 9, 0x07, "flags"},
    {udp, 0, 16, 0x0b, "src"},
    {udp, 16, 16, 0x0c, "dst"},
    {meta, 0, 32, 0x52, "data"},
    {Protocol::tag, 0, 32, 0x53, "0"},
    {Protocol::tag, 32, 32, 0x54, "1"},
    {Protocol::tag, 64, 32, 0x55, "2"},
    {Protocol::tag, 96, 32, 0x57, "3"}, // 0x56 is the register of colors
    {mark, 0, 32, 0x58, "id"},
    {sent_meta, 0, 32, 0x49, "data"},
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
    int left; ///< its bits from this one on
};
Word word_of(const RewritableField& field, int bit) {
    const int index = (bit - field.bit) / kWord;
    const int end = std::min(field.bit + (index + 1) * kWord, field.bit + field.bits);
    return {field.number + static_cast<uint64_t>(index), end - bit};
}

/// The command for up to `bits` bits. `to` is the word that changes, `from` the one copied from.
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

/// Appends as many commands as it takes for none to cross a word boundary.
void append_commands(const Rewrite& rewrite, std::vector<uint64_t>& commands) {
    constexpr uint64_t kReported = 0x50;
    const RewritableField* const field = find(rewrite.protocol, rewrite.bit, rewrite.bits);
    const RewritableField* const source =
        rewrite.from ? find(rewrite.from->protocol, rewrite.from->bit, rewrite.bits) : nullptr;
    if (field == nullptr || (rewrite.from && source == nullptr))
        return; // translation rules this out
    for (int done = 0, bits = 0; done < rewrite.bits; done += bits) {
        Word to = word_of(*field, rewrite.bit + done);
        std::optional<Word> from;
        bits = std::min(rewrite.bits - done, to.left);
        if (source != nullptr) {
            from = word_of(*source, rewrite.from->bit + done);
            bits = std::min(bits, from->left);
        }
        commands.push_back(net::to_be(command_of(rewrite, done, bits, to, from)));
        // What rules match is not what the device reports, which is register B.
        if (rewrite.protocol != meta) continue;
        to.number = kReported;
        commands.push_back(net::to_be(command_of(rewrite, done, bits, to, from)));
    }
}

/// "ipv4 ttl"; for a part of a field, "ipv4 dst bits 8 to 15", counted from the least significant.
std::string place_text(Protocol protocol, uint16_t bit, uint16_t bits) {
    const RewritableField* const field = find(protocol, bit, bits);
    if (field == nullptr) return traits_of(protocol).name; // translation rules this out
    std::string text = fmt::format("{} {}", traits_of(protocol).name, field->name);
    if (bits == field->bits) return text;
    const int first = field->bit + field->bits - bit - bits;
    return text + fmt::format(" bits {} to {}", first, first + bits - 1);
}

/// The number added is modulo the field's size: "minus 0x1", not "plus 0xff".
std::string sum_text(const Rewrite& rewrite) {
    const uint64_t number = get_bits(rewrite.value, 0, rewrite.bits);
    const uint64_t size = uint64_t{1} << rewrite.bits; // 32 bits at most
    return number > size / 2 ? fmt::format("minus {:#x}", size - number)
                             : fmt::format("plus {:#x}", number);
}

std::string rewrite_text(const Rewrite& rewrite) {
    const std::string place = place_text(rewrite.protocol, rewrite.bit, rewrite.bits);
    if (rewrite.add) return fmt::format("{} {}", place, sum_text(rewrite));
    return fmt::format("{} set to {}", place,
                       rewrite.from
                           ? place_text(rewrite.from->protocol, rewrite.from->bit, rewrite.bits)
                           : number_text(rewrite.value, 0, rewrite.bits));
}

/// What is removed, before fields change.
const char* strip_text(Reformat reformat) {
    switch (reformat) {
    case Reformat::strip_tunnel: return ", tunnel taken off";
    case Reformat::strip_tunnel_to_l3: return ", tunnel taken off up to the inner IP header";
    case Reformat::none:
    case Reformat::wrap:
    case Reformat::wrap_l3: break;
    }
    return "";
}

/// What is added, after that.
std::string wrap_text(Reformat reformat, size_t bytes) {
    switch (reformat) {
    case Reformat::strip_tunnel_to_l3:
    case Reformat::wrap: return fmt::format(", header of {} bytes put on", bytes);
    case Reformat::wrap_l3:
        return fmt::format(", header of {} bytes put on in place of Ethernet's", bytes);
    case Reformat::none:
    case Reformat::strip_tunnel: break;
    }
    return "";
}

} // namespace

std::string Edits::text() const {
    std::string text = strip_text(reformat);
    if (pop_vlan) text += ", tag taken off";
    for (const Rewrite& rewrite : rewrites)
        text.append(", ").append(rewrite_text(rewrite));
    if (push_vlan)
        text +=
            fmt::format(", tag {:#x} put on, TPID {:#x}", *push_vlan & 0xffff, *push_vlan >> 16);
    return text + wrap_text(reformat, header.size());
}

std::vector<uint64_t> rewrite_commands(std::span<const Rewrite> rewrites) {
    std::vector<uint64_t> commands;
    for (const Rewrite& rewrite : rewrites)
        append_commands(rewrite, commands);
    return commands;
}

} // namespace rawqp
