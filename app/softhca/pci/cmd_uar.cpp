// SPDX-License-Identifier: BSD-3-Clause
// UARs: the doorbell pages of the BAR.
#include "app/softhca/pci/commands.hpp"
#include "app/softhca/pci/config_space.hpp"
#include "app/softhca/prm/command_tools.hpp"

namespace softhca::pci {
namespace {

using namespace prm;

FwStatus alloc_uar(Firmware& firmware, Command& command) {
    return alloc_number(firmware, command, Kind::uar, BarLayout::kFirstUar,
                        BarLayout::kVars / BarLayout::kPage - 1);
}

FwStatus dealloc_uar(Firmware& firmware, Command& command) {
    return forget_object(firmware, Kind::uar, object_number(command));
}

} // namespace

void add_uar_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(ALLOC_UAR, alloc_uar, alloc_uar),
        PRM_COMMAND(DEALLOC_UAR, dealloc_uar, dealloc_uar),
    });
}

} // namespace softhca::pci
