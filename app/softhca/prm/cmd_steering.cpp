// SPDX-License-Identifier: BSD-3-Clause
// Software steering: what firmware has to do with the entries that programs write into ICM.
#include "app/softhca/prm/command_tools.hpp"

namespace softhca::prm {
namespace {

/// The device caches no entries, so that there is nothing to wait for.
FwStatus sync_steering(Firmware&, Command&) { return FwStatus::ok; }

} // namespace

void add_steering_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(SYNC_STEERING, sync_steering, sync_steering),
    });
}

} // namespace softhca::prm
