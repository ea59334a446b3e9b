// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/meter.hpp"

#include "app/softhca/core/packet.hpp"

#include <algorithm>

namespace softhca::core {

Meter::Bucket::Bucket(const BucketAttr& attr)
    : rate_(uint64_t{attr.rate_mantissa} << (32 - attr.rate_exponent)),
      size_(std::min(uint64_t{attr.size_mantissa} << attr.size_exponent, uint64_t{kMaxTokens})
            << 32),
      level_(size_) {}

uint64_t Meter::Bucket::earned(uint64_t elapsed) const {
    uint64_t parts = 0;
    return __builtin_mul_overflow(elapsed, rate_, &parts) ? UINT64_MAX : parts;
}

uint64_t Meter::Bucket::add(uint64_t parts) {
    const uint64_t fits = std::min(parts, size_ - level_);
    level_ += fits;
    return parts - fits;
}

void Meter::set(const MeterAttr& attr, uint64_t now) {
    attr_ = attr;
    committed_ = Bucket(attr.committed);
    excess_ = Bucket(attr.excess);
    time_ = now;
}

void Meter::refill(uint64_t now) {
    const uint64_t elapsed = now - std::min(time_, now);
    time_ = now;
    const uint64_t too_much = committed_.add(committed_.earned(elapsed));
    if (attr_.overflow) excess_.add(too_much);
    excess_.add(excess_.earned(elapsed));
}

uint32_t Meter::tokens_of(const Packet& packet) const {
    constexpr uint32_t kFcsPreambleAndGap = 4 + 8 + 12;
    const net::Headers& headers = packet.headers();
    switch (attr_.mode) {
    case MeterMode::ip_bytes:
        return headers.ip_version != 0 ? headers.ip_bytes : packet.bytes() - headers.l3;
    case MeterMode::l2_bytes: return packet.bytes();
    case MeterMode::wire_bytes: return packet.bytes() + kFcsPreambleAndGap;
    case MeterMode::packets: return kPacketTokens;
    }
    return 0;
}

Color Meter::take(uint32_t tokens, Color before) {
    if (before == Color::red) return Color::red;
    if (attr_.both_on_green && !excess_.holds(tokens)) return Color::red;
    if (before == Color::green && committed_.holds(tokens)) {
        committed_.take(tokens);
        if (attr_.both_on_green) excess_.take(tokens);
        return Color::green;
    }
    if (!excess_.holds(tokens)) return Color::red;
    excess_.take(tokens);
    return Color::yellow;
}

Color Meter::run(const Packet& packet, Color before, uint64_t now) {
    if (attr_.start != Color::undefined) before = attr_.start;
    if (before == Color::undefined) before = Color::green;
    if (!attr_.valid) return before;
    refill(now);
    return take(tokens_of(packet), before);
}

} // namespace softhca::core
