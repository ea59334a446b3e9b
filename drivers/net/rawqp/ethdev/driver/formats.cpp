// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/driver/formats.hpp"

#include "drivers/net/rawqp/rings/mlx5/format.hpp"
#include "drivers/net/rawqp/rings/verbs/format.hpp"

#include <array>

namespace rawqp {

std::span<const RingFormat* const> ring_formats() {
    static constexpr std::array kFormats{&kMlx5Format, &kVerbsFormat};
    return kFormats;
}

} // namespace rawqp
