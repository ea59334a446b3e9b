// SPDX-License-Identifier: BSD-3-Clause
// Registers behind ACCESS_REG: each is read, or written and read back, by one function.
#pragma once

#include "app/softhca/prm/firmware.hpp"

namespace softhca::prm {

/// `reg` is what the driver sent, and becomes the answer.
using Register = FwStatus (*)(Firmware&, bool write, Fields reg);

/// PPCNT.
[[nodiscard]] FwStatus port_counters(Firmware& firmware, bool write, Fields reg);
/// PTYS: speeds.
[[nodiscard]] FwStatus port_type(Firmware& firmware, bool write, Fields reg);
/// PPLM: forward error correction.
[[nodiscard]] FwStatus port_fec(Firmware& firmware, bool write, Fields reg);
/// PMLP: the mapping of the port's lanes to plugs.
[[nodiscard]] FwStatus module_lanes(Firmware& firmware, bool write, Fields reg);
/// MCIA: the memory of the plug.
[[nodiscard]] FwStatus module_memory(Firmware& firmware, bool write, Fields reg);
/// MCQS: the parts that the firmware consists of.
[[nodiscard]] FwStatus firmware_component(Firmware& firmware, bool write, Fields reg);
/// MCQI: what is known of such a part.
[[nodiscard]] FwStatus firmware_version(Firmware& firmware, bool write, Fields reg);
/// MFRL: what it takes to activate firmware that was stored.
[[nodiscard]] FwStatus firmware_reset(Firmware& firmware, bool write, Fields reg);

} // namespace softhca::prm
