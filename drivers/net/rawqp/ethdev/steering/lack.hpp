// SPDX-License-Identifier: BSD-3-Clause
// What an engine cannot express.
#pragma once

#include "drivers/net/rawqp/ethdev/steering/pattern.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace rawqp {

/// What in a request a refusal is about, if not a header.
enum class Concern : uint8_t {
    none,
    group,
    direction,
    jump,
    mark,
    edits,
    tags,
    count,
    sample,
    meter,
    kernel
};
inline constexpr size_t kConcerns = static_cast<size_t>(Concern::kernel) + 1;

/// Only made into text when somebody wants to read it: if the next engine can express it, nobody
/// does.
struct Lack {
    const Layer* layer = nullptr; ///< of the request; null: not a header
    const char* why = nullptr;
    const Field* field = nullptr; ///< of the layer; `why` says who has no place for it
    int error = 0;                ///< errno with which the device said so
    Concern concern = Concern::none;

    static Lack of(Concern concern, const char* why, int error = 0) {
        return {nullptr, why, nullptr, error, concern};
    }

    [[nodiscard]] std::string what() const;
};

/// The bits of all headers that an engine has places for: several fields may share bits, and it is
/// enough if one of them has a place.
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

/// The first masked field of the pattern for which `who` has no place.
[[nodiscard]] std::optional<Lack> first_lack(const Pattern& pattern, const char* who,
                                             const CarriedBits& carried);

} // namespace rawqp
