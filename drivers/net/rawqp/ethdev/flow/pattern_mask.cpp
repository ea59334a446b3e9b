// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/pattern_mask.hpp"

namespace rawqp {

PatternMask::PatternMask(const Pattern& pattern) : headers_(pattern) {
    for (uint8_t number = 0; Layer & layer : headers_.layers()) {
        layer.value = {};
        layer.item = Layer::kNone; // other rules with other items share the mask
        for (size_t byte = 0; byte < layer.mask.size(); ++byte)
            if (layer.mask[byte] != 0) places_.push_back({number, static_cast<uint8_t>(byte)});
        ++number;
    }
}

void PatternMask::take(const Pattern& pattern, uint8_t* values) const {
    std::fill_n(values, bytes(), uint8_t{0});
    for (const auto& [layer, byte] : places_)
        *values++ = pattern.layers()[layer].value[byte];
}

std::vector<PatternMask::Source> PatternMask::sources(size_t layer,
                                                      const LayerBytes& bits_mask) const {
    std::vector<Source> found;
    for (uint16_t value = 0; const Place& place : places_) {
        if (place.layer == layer && bits_mask[place.byte] != 0)
            found.push_back({place.byte, bits_mask[place.byte], value});
        ++value;
    }
    return found;
}

PatternMaskRef PatternMasks::of(const Pattern& pattern) {
    Pattern headers = pattern;
    for (Layer& layer : headers.layers())
        layer.value = {};
    std::string bytes(headers.bytes(), '\0');
    headers.write(reinterpret_cast<uint8_t*>(bytes.data()));
    const auto at = known_.find(bytes);
    if (at != known_.end()) return at->second;
    std::erase_if(known_, [](const auto& known) { return known.second.use_count() == 1; });
    return known_.emplace(std::move(bytes), make_ref<const PatternMask>(pattern)).first->second;
}

} // namespace rawqp
