// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/pattern.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace rawqp {

bool Layer::demand(uint16_t bit, uint16_t bits, uint64_t number) {
    if (!allows(bit, bits, number)) return false;
    set(bit, bits, number);
    return true;
}

void Layer::set(uint16_t bit, uint16_t bits, uint64_t number) {
    set_bits(value, bit, bits, number);
    set_bits(mask, bit, bits, ~uint64_t{0});
}

void Layer::forget(uint16_t bit, uint16_t bits) {
    set_bits(value, bit, bits, 0);
    set_bits(mask, bit, bits, 0);
}

namespace {

using Follows = Pattern::Follows;

bool is_tag(Protocol protocol) {
    return protocol == Protocol::vlan || protocol == Protocol::second_vlan;
}

/// Of several bindings (tags have two EtherTypes) the first that fits decides.
const Binding* find_binding(const Layer& lower, Protocol upper, Follows& follows) {
    follows = Follows::never;
    for (const Binding& binding : bindings_of(lower.protocol)) {
        if (binding.upper != upper) continue;
        if (lower.allows(binding.bit, binding.bits, binding.value)) return &binding;
        follows = Follows::contradicts;
    }
    return nullptr;
}

/// Whether the header right after a tunnel's also belongs to the tunnel: a GRE key.
bool extends_tunnel(const Layer& lower, Protocol upper) {
    return traits_of(lower.protocol).tunnel && traits_of(upper).tunnel;
}

void demand_fixed(Layer& layer) {
    const ProtocolTraits& traits = traits_of(layer.protocol);
    if (traits.fixed_mask == 0) return;
    for (uint16_t i = 0; i < 4; ++i) {
        const auto byte = [&](uint32_t word) { return static_cast<uint8_t>(word >> (24 - 8 * i)); };
        layer.value[i] = byte(traits.fixed);
        layer.mask[i] = byte(traits.fixed_mask);
    }
}

} // namespace

Follows Pattern::push(Protocol protocol) {
    Layer& lower = last();
    Layer& announcing = layers_[announcing_at()];
    Follows why;
    const Binding* binding = find_binding(lower, protocol, why);
    if (binding != nullptr && &announcing != &lower)
        binding = find_binding(announcing, protocol, why);
    if (binding == nullptr) return why;
    Layer upper = Layer::any(protocol, lower.depth);
    if (traits_of(lower.protocol).tunnel && !extends_tunnel(lower, protocol)) ++upper.depth;
    constexpr size_t kMetadata = kProtocols - static_cast<size_t>(Protocol::meta);
    if (headers() == kMostLayers - kMetadata || upper.depth > 1) return Follows::too_deep;
    demand_fixed(upper);
    if (is_tag(protocol)) {
        if (lower.masks(kTagged, 1) && lower.get(kTagged, 1) == 0) return Follows::contradicts;
        lower.forget(binding->bit, binding->bits);
        lower.forget(kTagged, 1);
        const bool service = binding->value == 0x88a8;
        upper.set(service ? kServiceTag : kCustomerTag, 1, 1);
    } else if (binding->bits != 0 &&
               !announcing.demand(binding->bit, binding->bits, binding->value)) {
        return Follows::contradicts;
    }
    const auto at = layers_.begin() + static_cast<ptrdiff_t>(headers());
    std::shift_right(at, layers_.begin() + ++count_, 1);
    *at = upper;
    return Follows::yes;
}

Layer& Pattern::metadata(Protocol protocol) {
    // There is room: see push(). Headers come before all metadata.
    const auto at = std::find_if(layers_.begin(), layers_.begin() + count_,
                                 [&](const Layer& layer) { return layer.protocol >= protocol; });
    if (at != layers_.begin() + count_ && at->protocol == protocol) return *at;
    std::shift_right(at, layers_.begin() + ++count_, 1);
    *at = Layer::any(protocol);
    return *at;
}

bool Pattern::multicast_only() const { return (eth().value[0] & eth().mask[0] & 1) != 0; }

size_t Pattern::bytes_of(const Layer& layer) {
    return kValueInLayer + 2 * (size_t{traits_of(layer.protocol).bytes} + 1);
}

size_t Pattern::bytes() const {
    size_t sum = 0;
    for (const Layer& layer : layers())
        sum += bytes_of(layer);
    return sum;
}

uint8_t* Pattern::write(uint8_t* to) const {
    for (const Layer& layer : layers()) {
        *to++ = static_cast<uint8_t>(layer.protocol);
        *to++ = layer.depth;
        for (const auto* half : {&layer.value, &layer.mask}) {
            to = std::copy_n(half->begin(), traits_of(layer.protocol).bytes, to);
            *to++ = half->flags();
        }
    }
    return to;
}

Pattern Pattern::from_bytes(std::span<const uint8_t> bytes) {
    Pattern pattern;
    pattern.count_ = 0;
    for (size_t at = 0; at < bytes.size();) {
        Layer& layer = pattern.layers_[pattern.count_++];
        layer = Layer::any(static_cast<Protocol>(bytes[at]), bytes[at + 1]);
        at += kValueInLayer;
        const size_t size = traits_of(layer.protocol).bytes;
        for (auto* half : {&layer.value, &layer.mask}) {
            std::memcpy(half->data(), &bytes[at], size);
            half->flags() = bytes[at + size];
            at += size + 1;
        }
    }
    return pattern;
}

std::string Pattern::names() const {
    std::string text;
    for (const Layer& layer : layers())
        text.append(text.empty() ? "" : "/").append(traits_of(layer.protocol).name);
    return text;
}

namespace {

std::string bits_text(const LayerBytes& bytes, const Field& field) {
    return number_text(bytes, field.bit, field.bits);
}

bool whole(const Layer& layer, const Field& field) {
    for (uint16_t bit = 0; bit < field.bits; ++bit)
        if (!layer.masks(static_cast<uint16_t>(field.bit + bit), 1)) return false;
    return true;
}

} // namespace

std::string Pattern::text() const {
    std::string text;
    for (const Layer& layer : layers()) {
        text.append(text.empty() ? "" : " / ").append(traits_of(layer.protocol).name);
        const char* last = "";
        for (const Field& field : fields_of(layer.protocol)) {
            if (field.name == last || !layer.masks(field.bit, field.bits)) continue;
            last = field.name;
            text += fmt::format(" {} {}", field.name, bits_text(layer.value, field));
            if (!whole(layer, field)) text.append("&").append(bits_text(layer.mask, field));
        }
    }
    return text;
}

} // namespace rawqp
