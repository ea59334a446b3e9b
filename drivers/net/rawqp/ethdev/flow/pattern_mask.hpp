// SPDX-License-Identifier: BSD-3-Clause
// What patterns that differ only in values have in common. Most rules differ from others in a few
// bytes: these are all that each rule keeps of its pattern.
#pragma once

#include "drivers/net/rawqp/ethdev/ref.hpp"
#include "drivers/net/rawqp/ethdev/steering/pattern.hpp"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace rawqp {

/// The headers of a pattern, and those of their bytes that hold bits to be matched: the values are
/// these bytes one after the other, zero-padded to a whole word.
class PatternMask {
  public:
    explicit PatternMask(const Pattern& pattern);

    static constexpr size_t kWord = sizeof(uint64_t);

    /// How many bytes the values take.
    [[nodiscard]] size_t bytes() const { return (places_.size() + kWord - 1) / kWord * kWord; }
    /// Takes the values of a pattern with this mask.
    void take(const Pattern& pattern, uint8_t* values) const;
    /// Bits of a layer's byte, and where they are among the values.
    struct Source {
        uint8_t byte, mask;
        uint16_t value;
    };
    /// Where a layer's bits under this mask go among the values.
    [[nodiscard]] std::vector<Source> sources(size_t layer, const LayerBytes& bits_mask) const;
    /// A pattern with this mask, to be given values.
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

/// Shares one mask among equal ones, as long as there are rules with it.
class PatternMasks {
  public:
    [[nodiscard]] PatternMaskRef of(const Pattern& pattern);

  private:
    std::map<std::string, PatternMaskRef> known_; ///< by their bytes without values
};

} // namespace rawqp
