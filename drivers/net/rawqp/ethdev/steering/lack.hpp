// SPDX-License-Identifier: BSD-3-Clause
// What an engine has no words for.
#pragma once

#include "drivers/net/rawqp/ethdev/steering/pattern.hpp"

#include <array>
#include <optional>
#include <string>

namespace rawqp {

/// No text is made of it before somebody wants to read it: where the next engine has words, nobody
/// does.
struct Lack {
    const Layer* layer = nullptr; ///< of the request; null: it is no header
    const char* why = nullptr;
    const Field* field = nullptr; ///< of the layer, which `why` says who has no place for
    int error = 0;                ///< with which the device said so

    [[nodiscard]] std::string what() const;
};

/// Of all headers, the bits that an engine has places for: several fields may have the same bits,
/// and one of them with a place is enough.
class CarriedBits {
  public:
    /// `carried(field, depth)`: whether there is a place for it.
    template <class Carried> explicit CarriedBits(Carried carried) {
        for (uint8_t depth = 0; depth < kDepths; ++depth)
            for (size_t protocol = 0; protocol < kProtocols; ++protocol)
                for (const Field& field : fields_of(static_cast<Protocol>(protocol)))
                    if (carried(field, depth))
                        set_all_bits(bits_[depth][protocol], field.bit, field.bits);
    }
    [[nodiscard]] const LayerBytes& of(const Layer& layer) const {
        return bits_[layer.depth][static_cast<size_t>(layer.protocol)];
    }

  private:
    static constexpr uint8_t kDepths = 2; ///< see Layer::depth
    std::array<std::array<LayerBytes, kProtocols>, kDepths> bits_{};
};

/// The first masked field of the pattern that there is no place for. `who` has none.
[[nodiscard]] std::optional<Lack> first_lack(const Pattern& pattern, const char* who,
                                             const CarriedBits& carried);

} // namespace rawqp
