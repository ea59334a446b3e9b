// SPDX-License-Identifier: BSD-3-Clause
// UARs: the doorbell pages of the BAR.
#include "app/softhca/core/rings/mlx5/doorbells.hpp"
#include "app/softhca/pci/commands.hpp"
#include "app/softhca/pci/config_space.hpp"
#include "app/softhca/prm/command_tools.hpp"

namespace softhca::pci {
namespace {

using namespace prm;

/// The registers that ring SQs, written by the function (Function::write_uar).
struct alignas(64) UarPage : std::array<std::byte, core::mlx5_rings::kUarBytes> {};

FwStatus alloc_uar(Firmware& firmware, Command& command) {
    const FwStatus status = alloc_number(firmware, command, Kind::uar, BarLayout::kFirstUar,
                                         BarLayout::kVars / BarLayout::kPage - 1);
    if (status != FwStatus::ok) return status;
    const auto number = static_cast<core::Number>(command.output().get(PRM(alloc_uar_out, uar)));
    const auto page = std::make_shared<UarPage>();
    firmware.send_registers[number] = core::mlx5_rings::send_registers(page->data(), page);
    return status;
}

FwStatus dealloc_uar(Firmware& firmware, Command& command) {
    const core::Number number = object_number(command);
    const FwStatus status = forget_object(firmware, Kind::uar, number);
    if (status == FwStatus::ok) firmware.send_registers.erase(number);
    return status;
}

} // namespace

void add_uar_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(ALLOC_UAR, alloc_uar, alloc_uar),
        PRM_COMMAND(DEALLOC_UAR, dealloc_uar, dealloc_uar),
    });
}

} // namespace softhca::pci
