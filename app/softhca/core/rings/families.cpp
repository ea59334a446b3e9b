// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/rings/mlx5/format.hpp"

namespace softhca::core {

const RingFormat& rings_of(Family family) {
    switch (family) {
    case Family::mlx5: break;
    }
    return mlx5_rings::format();
}

} // namespace softhca::core
