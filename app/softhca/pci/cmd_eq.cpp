// SPDX-License-Identifier: BSD-3-Clause
// Event queues in the guest's memory.
#include "app/softhca/pci/commands.hpp"
#include "app/softhca/prm/command_tools.hpp"
#include "app/softhca/prm/ring_memory.hpp"

namespace softhca::pci {
namespace {

using namespace prm;

constexpr uint64_t kEqeBytes = 64;
constexpr uint8_t kLogMaxEqEntries = 22;

FwStatus create_eq(EventQueues& queues, Firmware& firmware, Command& command) {
    const Fields in = command.input();
    const Fields context = in.at(PRM(create_eq_in, eq_context_entry));
    if (firmware.objects.full(Kind::eq)) return FwStatus::exceeded_limit;
    EqAttr attr;
    attr.log_entries = static_cast<uint8_t>(context.get(PRM(eqc, log_eq_size)));
    attr.uar = number(context, PRM(eqc, uar_page));
    attr.vector = static_cast<uint32_t>(context.get(PRM(eqc, intr)));
    attr.mask = in.get(PRM(create_eq_in, event_bitmask[0]));
    if (attr.log_entries > kLogMaxEqEntries) return FwStatus::exceeded_limit;
    if (attr.vector >= BarLayout::kVectors) return FwStatus::bad_parameter;
    const std::vector<Ref> uses = {{Kind::uar, attr.uar}};
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;
    auto ring = ring_area(firmware, command, {},
                          {.at = PRM(create_eq_in, pas[0]).offset / 8,
                           .log_page = static_cast<uint8_t>(context.get(PRM(eqc, log_page_size)))},
                          kEqeBytes << attr.log_entries, true);
    if (!ring) return FwStatus::bad_parameter;
    attr.ring = std::move(*ring);
    const uint32_t eqn = queues.create(std::move(attr));
    if (eqn == 0) return FwStatus::exceeded_limit;
    return add_object(firmware, command, Kind::eq, eqn,
                      {.context = context.copy(PRM_BYTES(eqc)), .uses = uses});
}

FwStatus destroy_eq(EventQueues& queues, Firmware& firmware, Command& command) {
    return destroy_object(firmware, Kind::eq, object_number(command) & 0xff,
                          [&](core::Number eqn) -> core::Outcome<void> {
                              if (!queues.destroy(eqn))
                                  return tl::unexpected(core::Status::bad_resource);
                              return {};
                          });
}

FwStatus query_eq(Firmware& firmware, Command& command) {
    return answer_context(command, firmware.objects.find(Kind::eq, object_number(command) & 0xff),
                          PRM(query_eq_out, eq_context_entry));
}

} // namespace

void add_eq_commands(CommandTable& table, EventQueues& queues) {
    const auto create = [&](Firmware& firmware, Command& command) {
        return create_eq(queues, firmware, command);
    };
    const auto destroy = [&](Firmware& firmware, Command& command) {
        return destroy_eq(queues, firmware, command);
    };
    table.insert({
        PRM_COMMAND(CREATE_EQ, create_eq, create),
        PRM_COMMAND(DESTROY_EQ, destroy_eq, destroy),
        PRM_COMMAND(QUERY_EQ, query_eq, query_eq),
    });
}

} // namespace softhca::pci
