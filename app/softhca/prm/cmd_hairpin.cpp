// SPDX-License-Identifier: BSD-3-Clause
// Hairpin queues: SQs and RQs without rings, which name each other when they become ready. PD, CQ
// and ring in their contexts are ignored, and so is VLAN stripping.
#include "app/softhca/prm/command_tools.hpp"
#include "app/softhca/prm/queues.hpp"

#include <fmt/format.h>

namespace softhca::prm {
namespace {

// Reserved bits in the kernel's header: the location of a hairpin queue's buffer. Source:
// mlx5_prm.h of DPDK (hairpin_wq_buffer_type, hairpin_data_buffer_type), whose 0 is a buffer inside
// the device.
constexpr Field kSqBufferType{PRM(sqc, hairpin).offset + 7, 3};
constexpr Field kRqBufferType{PRM(rqc, hairpin).offset + 7, 3};

core::HairpinAttr read_attr(Firmware& firmware, const Fields& wq, uint64_t user_index,
                            uint64_t queue_type) {
    return {.size = {.log_packets = static_cast<uint8_t>(wq.get(PRM(wq, log_hairpin_num_packets))),
                     .log_bytes = static_cast<uint8_t>(wq.get(PRM(wq, log_hairpin_data_sz)))},
            .user_index = static_cast<uint32_t>(user_index),
            .listener = firmware.listener(),
            .cookie = queue_type};
}

} // namespace

FwStatus create_hairpin_sq(Firmware& firmware, Command& command) {
    const Fields context = command.input().at(PRM(create_sq_in, ctx));
    const Fields wq = context.at(PRM(sqc, wq));
    if (context.get(kSqBufferType) != 0 || wq.get(PRM(wq, cd_slave)) != 0)
        return FwStatus::bad_parameter;
    core::HairpinAttr attr =
        read_attr(firmware, wq, context.get(PRM(sqc, user_index)), kQueueTypeSq);
    std::vector<Ref> uses;
    const auto domain = read_tis(firmware, context, uses);
    if (!domain) return FwStatus::bad_resource;
    attr.transport_domain = *domain;
    const auto sqn = firmware.device.create_hairpin_sq(attr);
    return sqn ? add_sq(firmware, command, *sqn, std::move(uses)) : to_firmware(sqn.error());
}

FwStatus create_hairpin_rq(Firmware& firmware, Command& command) {
    const Fields context = command.input().at(PRM(create_rq_in, ctx));
    const Fields wq = context.at(PRM(rqc, wq));
    if (context.get(kRqBufferType) != 0 || context.get(PRM(rqc, mem_rq_type)) != 0 ||
        context.get(PRM(rqc, scatter_fcs)) != 0 || wq.get(PRM(wq, cd_slave)) != 0)
        return FwStatus::bad_parameter;
    core::HairpinAttr attr =
        read_attr(firmware, wq, context.get(PRM(rqc, user_index)), kQueueTypeRq);
    attr.delay_drop = context.get(PRM(rqc, delay_drop_en)) != 0;
    const auto q_counter = read_q_counter(firmware, context);
    if (!q_counter) return FwStatus::bad_resource;
    const auto rqn = firmware.device.create_hairpin_rq(attr);
    if (!rqn) return to_firmware(rqn.error());
    (void)firmware.device.bind_q_counter(*rqn, *q_counter);
    return add_object(firmware, command, Kind::rq, *rqn, {.context = context.copy(PRM_BYTES(rqc))});
}

FwStatus read_peer(Firmware& firmware, const HairpinPlaces& at, Object& queue,
                   const StateChange& change, const Fields& context, ReadPeer& peer) {
    const Fields kept(queue.context.data(), queue.context.size());
    if (kept.get(at.hairpin) == 0 || !change.begins()) return FwStatus::ok;
    peer.number = number(context, at.peer);
    const uint64_t vhca = context.get(at.vhca);
    if (vhca == firmware.vhca.id()) {
        const bool exists = firmware.objects.exist({{at.peer_kind, peer.number}});
        return exists ? FwStatus::ok : FwStatus::bad_resource;
    }
    peer.other = find_vhca(vhca);
    if (peer.other.device) return FwStatus::ok;
    firmware.objects.blame(fmt::format(
        "the peer is on vhca {:#x}, this is {:#x}: there is no such port in this process", vhca,
        firmware.vhca.id()));
    return FwStatus::bad_parameter;
}

void keep_peer(const HairpinPlaces& at, Object& queue, const StateChange& change,
               const Fields& context) {
    Fields kept(queue.context.data(), queue.context.size());
    if (kept.get(at.hairpin) == 0) return;
    const bool ends = change.to == core::QueueState::reset;
    if (!ends && !change.begins()) return;
    for (const Field field : {at.peer, at.vhca})
        kept.set(field, ends ? 0 : context.get(field));
}

} // namespace softhca::prm
