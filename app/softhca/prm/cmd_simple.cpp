// SPDX-License-Identifier: BSD-3-Clause
// Objects that are only numbers here: PDs, transport domains, XRC domains, counters.
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
    const Object* const object = firmware.objects.find(Kind::pd, object_number(command));
    if (object && object->users != 0) refresh_keys(firmware); // some may have left it
    return destroy_object(firmware, Kind::pd, object_number(command),
                          [&](core::Number pd) { return firmware.device.dealloc_pd(pd); });
}

FwStatus alloc_q_counter(Firmware& firmware, Command& command) {
    const auto number = firmware.device.create_q_counter();
    if (!number) return to_firmware(number.error());
    firmware.objects.add(Kind::q_counter, *number, {});
    command.output().set(PRM(alloc_q_counter_out, counter_set_id), *number);
    return FwStatus::ok;
}

FwStatus dealloc_q_counter(Firmware& firmware, Command& command) {
    const auto number =
        static_cast<core::Number>(command.input().get(PRM(dealloc_q_counter_in, counter_set_id)));
    return destroy_object(firmware, Kind::q_counter, number, [&](core::Number counter) {
        return firmware.device.destroy_q_counter(counter);
    });
}

FwStatus query_q_counter(Firmware& firmware, Command& command) {
    const auto number =
        static_cast<core::Number>(command.input().get(PRM(query_q_counter_in, counter_set_id)));
    if (!firmware.objects.find(Kind::q_counter, number)) return FwStatus::bad_resource;
    const auto drops = firmware.device.query_q_counter(
        number, command.input().get(PRM(query_q_counter_in, clear)) != 0);
    if (!drops) return to_firmware(drops.error());
    command.output().set(PRM(query_q_counter_out, out_of_buffer), static_cast<uint32_t>(*drops));
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
