// SPDX-License-Identifier: BSD-3-Clause
// Changes of existing memory keys by requests.
#pragma once

#include "app/softhca/core/types.hpp"

#include <optional>

namespace softhca::core {

/// What is not given stays as it is.
struct KeyChange {
    uint32_t lkey = 0; ///< of which key; the variant is ignored if it changes
    std::optional<bool> expects_free{};
    std::optional<bool> free{}; ///< nothing can be done through a free key
    std::optional<uint8_t> variant{};
    std::optional<Number> pd{};
    std::optional<bool> local_write{}, remote_read{}, remote_write{};
};

/// The device, for requests. Used with the device locked.
class KeyOwner {
  public:
    virtual ~KeyOwner() = default;

    /// False, with nothing changed, when there is no such key or PD, the key is the device's own,
    /// or it is free and should not be, or the other way round.
    [[nodiscard]] virtual bool change_key(const KeyChange& change) = 0;
};

} // namespace softhca::core
