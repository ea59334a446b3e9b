// SPDX-License-Identifier: BSD-3-Clause
// Objects that are only numbers to us: PDs, transport domains, XRC domains, counters.
#include "app/softhca/prm/command_tools.hpp"

namespace softhca::prm {
namespace {

constexpr core::Number kFirst = 0x40, kLast = 0xffff;

template <Kind kKind> FwStatus alloc_plain(Firmware& firmware, Command& command) {
    return alloc_number(firmware, command, kKind, kFirst, kLast);
}
template <Kind kKind> FwStatus free_plain(Firmware& firmware, Command& command) {
    return forget_object(firmware, kKind, object_number(command));
}

FwStatus alloc_pd(Firmware& firmware, Command& command) {
    const auto pd = firmware.device.alloc_pd();
    if (!pd) return to_firmware(pd.error());
    return add_object(firmware, command, Kind::pd, *pd, {});
}

FwStatus dealloc_pd(Firmware& firmware, Command& command) {
    return destroy_object(firmware, Kind::pd, object_number(command),
                          [&](core::Number pd) { return firmware.device.dealloc_pd(pd); });
}

FwStatus alloc_q_counter(Firmware& firmware, Command& command) {
    const core::Number number = firmware.objects.new_number(Kind::q_counter, 1, 255);
    if (number == 0) return FwStatus::exceeded_limit;
    firmware.objects.add(Kind::q_counter, number, {});
    command.output().set(PRM(alloc_q_counter_out, counter_set_id), number);
    return FwStatus::ok;
}

core::Number q_counter_number(Command& command) {
    return static_cast<core::Number>(
        command.input().get(PRM(dealloc_q_counter_in, counter_set_id)));
}

FwStatus dealloc_q_counter(Firmware& firmware, Command& command) {
    return forget_object(firmware, Kind::q_counter, q_counter_number(command));
}

/// Asking takes the drops of all RQs over into their sets.
FwStatus query_q_counter(Firmware& firmware, Command& command) {
    const auto number =
        static_cast<core::Number>(command.input().get(PRM(query_q_counter_in, counter_set_id)));
    for (const core::Number rqn : firmware.objects.numbers(Kind::rq))
        settle_q_counter(firmware, rqn);
    Object* const counter = firmware.objects.find(Kind::q_counter, number);
    if (!counter) return FwStatus::bad_resource;
    command.output().set(PRM(query_q_counter_out, out_of_buffer), counter->detail);
    if (command.input().get(PRM(query_q_counter_in, clear))) counter->detail = 0;
    return FwStatus::ok;
}

} // namespace

void add_simple_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(ALLOC_PD, alloc_pd, alloc_pd),
        PRM_COMMAND(DEALLOC_PD, dealloc_pd, dealloc_pd),
        PRM_COMMAND(ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain,
                    alloc_plain<Kind::transport_domain>),
        PRM_COMMAND(DEALLOC_TRANSPORT_DOMAIN, dealloc_transport_domain,
                    free_plain<Kind::transport_domain>),
        PRM_COMMAND(ALLOC_XRCD, alloc_xrcd, alloc_plain<Kind::xrcd>),
        PRM_COMMAND(DEALLOC_XRCD, dealloc_xrcd, free_plain<Kind::xrcd>),
        PRM_COMMAND(ALLOC_Q_COUNTER, alloc_q_counter, alloc_q_counter),
        PRM_COMMAND(DEALLOC_Q_COUNTER, dealloc_q_counter, dealloc_q_counter),
        PRM_COMMAND(QUERY_Q_COUNTER, query_q_counter, query_q_counter),
    });
}

} // namespace softhca::prm
