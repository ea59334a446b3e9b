// SPDX-License-Identifier: BSD-3-Clause
// Rows of the device's packet pacing table that programs have, allocated as the kernel's driver
// does.
#pragma once

#include "app/softhca/prm/firmware.hpp"
#include "app/softhca/uverbs/buffers.hpp"

#include <array>
#include <cstdint>
#include <mutex>

namespace softhca::uverbs {
class PortFirmware;
}

namespace softhca::uverbs::devx {

/// Thread-safe.
class PacingTable {
  public:
    static constexpr size_t kContextBytes = PRM_BYTES(set_pp_rate_limit_context);
    using Context = std::array<uint8_t, kContextBytes>;

    /// A row for this rate. Users of the same rate share one, unless it is `dedicated` to the user.
    /// ENOSPC: none is left.
    [[nodiscard]] Errno add(PortFirmware& firmware, const Context& context, uint16_t uid,
                            bool dedicated, uint16_t& index);
    void remove(PortFirmware& firmware, uint16_t index);

  private:
    struct Row {
        Context context{};
        uint16_t uid = 0;
        bool dedicated = false;
        unsigned users = 0;
    };
    [[nodiscard]] uint16_t find(const Context& context, uint16_t uid, bool dedicated) const;
    [[nodiscard]] static Errno tell(PortFirmware& firmware, const Row& row, uint16_t index);

    std::mutex mutex_;
    std::array<Row, prm::kPacingRates> rows_{}; ///< the first one means no limit
};

} // namespace softhca::uverbs::devx
