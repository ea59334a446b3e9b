// SPDX-License-Identifier: BSD-3-Clause
// What patterns that differ in values only have in common. Most rules are like others but for a few
// bytes: these are all that each of them keeps of its pattern.
#pragma once

#include "drivers/net/rawqp/ethdev/ref.hpp"
#include "drivers/net/rawqp/ethdev/steering/pattern.hpp"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace rawqp {

/// The headers of a pattern, and the bytes of them that hold asked bits: the values are these bytes
/// one after the other, and zeros up to a whole word.
class PatternMask {
  public:
    explicit PatternMask(const Pattern& pattern);

    static constexpr size_t kWord = sizeof(uint64_t);

    /// How many bytes values have.
    [[nodiscard]] size_t bytes() const { return (places_.size() + kWord - 1) / kWord * kWord; }
    /// Those of a pattern with this mask.
    void take(const Pattern& pattern, uint8_t* values) const;
    /// Bits of a layer's byte, and where they are among values.
    struct Source {
        uint8_t byte, mask;
        uint16_t value;
    };
    /// What a layer's bits under this mask are added to.
    [[nodiscard]] std::vector<Source> sources(size_t layer, const LayerBytes& bits_mask) const;
    /// Any pattern with this mask, to be given values.
    [[nodiscard]] const Pattern& headers() const { return headers_; }
    /// Gives a pattern with this mask these values.
    void put(const uint8_t* values, Pattern& pattern) const {
        const std::span<Layer> layers = pattern.layers();
        for (const auto& [layer, byte] : places_)
            layers[layer].value[byte] = *values++;
    }

  private:
    struct Place {
        uint8_t layer, byte;
    };

    Pattern headers_; ///< without values
    std::vector<Place> places_;
};
using PatternMaskRef = Ref<const PatternMask>;

/// One for equal ones, as long as there are rules with it.
class PatternMasks {
  public:
    [[nodiscard]] PatternMaskRef of(const Pattern& pattern);

  private:
    std::map<std::string, PatternMaskRef> known_; ///< by their bytes without values
};

} // namespace rawqp
