// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/lack.hpp"

#include "common/verbs/errno_text.hpp"

#include <fmt/format.h>

namespace rawqp {

std::string Lack::what() const {
    if (field != nullptr)
        return fmt::format("field {} cannot be matched{}: {} no place for it: {}", field->name,
                           layer->depth != 0 ? " inside a tunnel" : "", why, field->remedy);
    return error == 0 ? why
                      : fmt::format("{}: {}", why, verbs::errno_text(error, verbs::Attempt::steer));
}

std::optional<Lack> first_lack(const Pattern& pattern, const char* who,
                               const CarriedBits& carried) {
    for (const Layer& layer : pattern.layers()) {
        const LayerBytes left = without(layer.mask, carried.of(layer));
        if (!any(left)) continue;
        for (const Field& field : fields_of(layer.protocol))
            if (any_bit(left, field.bit, field.bits)) return Lack{&layer, who, &field};
    }
    return std::nullopt;
}

} // namespace rawqp
