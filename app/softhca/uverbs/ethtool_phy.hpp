// SPDX-License-Identifier: BSD-3-Clause
// SIOCETHTOOL for the port's end of the cable, as mlx5e answers: error correction, the plug's
// memory, the LED. Source: Linux, mlx5/core/en_ethtool.c.
#pragma once

#include "app/softhca/core/phy.hpp"

#include <cstdint>
#include <linux/ethtool.h>

namespace softhca::uverbs {

struct Port;

/// ETHTOOL_LINK_MODE_FEC_*_BIT of a mode.
[[nodiscard]] int fec_link_mode(core::Fec fec);
/// The present mode of the port: as set by any program under this softhca, or the default.
[[nodiscard]] core::Fec active_fec(const Port& port);

// The commands: 0 or a positive errno.
/// Whether the port has flow control, as set last.
[[nodiscard]] bool active_pause(const Port& port);
int get_pause(const Port& port, ethtool_pauseparam& out);
int set_pause(Port& port, const ethtool_pauseparam& in);
int get_fec(const Port& port, ethtool_fecparam& out);
int set_fec(Port& port, const ethtool_fecparam& in);
int get_module_info(const Port& port, ethtool_modinfo& out);
int get_module_eeprom(const Port& port, ethtool_eeprom& out);
/// Blocks for that many seconds; 0: until a signal arrives. As in Linux 6.1, one LED blinks at a
/// time.
int identify(const ethtool_value& in);

} // namespace softhca::uverbs
