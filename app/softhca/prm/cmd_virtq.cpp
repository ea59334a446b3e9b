// SPDX-License-Identifier: BSD-3-Clause
// Virtio queues (VIRTIO_NET_Q) and their counters (VIRTIO_Q_COUNTERS). There are no events by
// MSI-X, no packed rings, no tunnels of descriptors and no dirty bitmaps.
#include "app/softhca/prm/general_objects.hpp"
#include "app/softhca/prm/queues.hpp"
#include "app/softhca/prm/ring_memory.hpp"
#include "app/softhca/prm/virtio.hpp"

namespace softhca::prm {
namespace {

constexpr Field kObject = PRM(create_virtio_net_q_in, obj_context);
constexpr Field kQueue = PRM(virtio_net_q_object, virtio_q_context);
static_assert(kObject.offset == kGeneralObject.offset);

// Bits of queue_feature_bit_mask_12_3, by VirtioFeatures. Source: mlx5_prm.h of DPDK, virtio_net_q.
constexpr Field kFeatures = PRM(virtio_net_q_object, queue_feature_bit_mask_12_3);
constexpr Field kOtherFeatures = PRM(virtio_net_q_object, queue_feature_bit_mask_2_0);

enum State : uint8_t {
    kInit = MLX5_VIRTIO_NET_Q_OBJECT_STATE_INIT,
    kReady = MLX5_VIRTIO_NET_Q_OBJECT_STATE_RDY,
    kSuspended = MLX5_VIRTIO_NET_Q_OBJECT_STATE_SUSPEND,
    kError = MLX5_VIRTIO_NET_Q_OBJECT_STATE_ERR
};

uint8_t prm_state(core::VirtqState state) {
    switch (state) {
    case core::VirtqState::init: return kInit;
    case core::VirtqState::ready: return kReady;
    case core::VirtqState::suspended: return kSuspended;
    case core::VirtqState::error: return kError;
    }
    return kError;
}

/// error_type of the queue, for which Linux and DPDK have no names. Source: NVIDIA's SNAP
/// (SNAP_VIRTQ_ERROR_TYPE_*).
uint8_t error_type(core::VirtqFault fault) {
    constexpr uint8_t kNone = 0, kBadDescriptor = 2, kInvalidBuffer = 3, kListTooLong = 4,
                      kInternal = 5;
    switch (fault) {
    case core::VirtqFault::none: return kNone;
    case core::VirtqFault::bad_descriptor: return kBadDescriptor;
    case core::VirtqFault::invalid_buffer: return kInvalidBuffer;
    case core::VirtqFault::chain_too_long: return kListTooLong;
    default: return kInternal;
    }
}

/// Memory of the program that the device may use, and does not need. False: it is smaller than the
/// capabilities require.
bool read_umems(const Firmware& firmware, const Fields& queue, std::vector<Ref>& uses) {
    struct Places {
        Field id, bytes, offset;
    };
    constexpr Places kPlaces[] = {
        {PRM(virtio_q, umem_1_id), PRM(virtio_q, umem_1_size), PRM(virtio_q, umem_1_offset)},
        {PRM(virtio_q, umem_2_id), PRM(virtio_q, umem_2_size), PRM(virtio_q, umem_2_offset)},
        {PRM(virtio_q, umem_3_id), PRM(virtio_q, umem_3_size), PRM(virtio_q, umem_3_offset)}};
    bool enough = true;
    for (const Places& at : kPlaces) {
        const UmemPlace umem{
            .valid = true, .id = number(queue, at.id), .offset = queue.get(at.offset)};
        const uint64_t bytes = queue.get(at.bytes);
        add_use(uses, umem);
        enough = enough && bytes >= kVirtqUmemBytes && umem_part(firmware, umem, bytes, true);
    }
    return enough;
}

/// False: it requests something unsupported.
bool read_queue(const Fields& object, const Fields& queue, core::VirtqAttr& attr) {
    const uint64_t features = object.get(kFeatures) >> (kFeatures.width - kVirtioFeatureBits);
    const uint64_t others =
        object.get(kFeatures) & ((1u << (kFeatures.width - kVirtioFeatureBits)) - 1);
    attr.sends = queue.get(PRM(virtio_q, queue_index)) % 2 != 0;
    attr.pd = number(queue, PRM(virtio_q, pd));
    attr.lkey = static_cast<uint32_t>(queue.get(PRM(virtio_q, virtio_q_mkey)));
    attr.entries = static_cast<uint16_t>(queue.get(PRM(virtio_q, queue_size)));
    attr.descriptors = queue.get(PRM(virtio_q, desc_addr));
    attr.available = queue.get(PRM(virtio_q, available_addr));
    attr.used = queue.get(PRM(virtio_q, used_addr));
    attr.next_available =
        static_cast<uint16_t>(object.get(PRM(virtio_net_q_object, hw_available_index)));
    attr.next_used = static_cast<uint16_t>(object.get(PRM(virtio_net_q_object, hw_used_index)));
    attr.version_1 = queue.get(PRM(virtio_q, virtio_version_1_0)) != 0;
    attr.checksums = features & (attr.sends ? kVirtioSendChecksum : kVirtioReceiveChecksum);
    attr.tso_ipv4 = features & kVirtioTsoIpv4;
    attr.tso_ipv6 = features & kVirtioTsoIpv6;
    attr.counters = number(queue, PRM(virtio_q, counter_set_id));
    return others == 0 && object.get(kOtherFeatures) == 0 &&
           object.get(PRM(virtio_net_q_object, state)) == kInit &&
           queue.get(PRM(virtio_q, virtio_q_type)) ==
               MLX5_VIRTIO_EMULATION_VIRTIO_QUEUE_TYPE_SPLIT &&
           queue.get(PRM(virtio_q, full_emulation)) == 0 &&
           queue.get(PRM(virtio_q, offload_type)) == 0;
}

/// The RQ to notify of used chains. False: the mode is not supported.
bool read_events(Firmware& firmware, const Fields& queue, core::VirtqAttr& attr,
                 std::vector<Ref>& uses) {
    const uint64_t mode = queue.get(PRM(virtio_q, event_mode));
    if (mode != MLX5_VIRTIO_Q_EVENT_MODE_QP_MODE)
        return mode == MLX5_VIRTIO_Q_EVENT_MODE_NO_MSIX_MODE;
    const core::Number qp = number(queue, PRM(virtio_q, event_qpn_or_msix));
    uses.push_back({Kind::qp, qp});
    attr.events = event_queue_of(firmware, qp);
    if (attr.events != 0) uses.push_back({Kind::qp, attr.events});
    return attr.events != 0 || !firmware.objects.find(Kind::qp, qp);
}

/// The domain of the TIS, which a receiving queue need not have.
bool read_domain(Firmware& firmware, const Fields& object, core::VirtqAttr& attr,
                 std::vector<Ref>& uses) {
    const core::Number tisn = number(object, PRM(virtio_net_q_object, tisn_or_qpn));
    if (tisn == 0) return !attr.sends;
    uses.push_back({Kind::tis, tisn});
    if (Object* const tis = firmware.objects.find(Kind::tis, tisn))
        attr.transport_domain =
            number(Fields(tis->context.data(), tis->context.size()), PRM(tisc, transport_domain));
    return true;
}

FwStatus create(Firmware& firmware, Command& command) {
    if (command.in.size() < PRM_BYTES(create_virtio_net_q_in)) return FwStatus::bad_input_length;
    const Fields object = command.input().at(kObject), queue = object.at(kQueue);
    core::VirtqAttr attr;
    const bool offered = read_queue(object, queue, attr);
    std::vector<Ref> uses = {{Kind::pd, attr.pd}};
    if (attr.counters != 0) uses.push_back({Kind::virtq_counters, attr.counters});
    const bool enough = read_umems(firmware, queue, uses);
    const bool named = read_domain(firmware, object, attr, uses);
    const bool told = read_events(firmware, queue, attr, uses);
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;
    if (!offered || !enough || !named || !told) return FwStatus::bad_parameter;
    attr.listener = firmware.listener();
    attr.cookie = kVirtioNetQType;
    const auto virtq = firmware.device.create_virtq(attr);
    if (!virtq) return to_firmware(virtq.error());
    return add_object(firmware, command, Kind::virtq, *virtq,
                      {.context = object.copy(PRM_BYTES(virtio_net_q_object)),
                       .uses = std::move(uses),
                       .detail = attr.sends ? kVirtqSends : 0});
}

FwStatus modify(Firmware& firmware, Command& command) {
    if (command.in.size() < PRM_BYTES(modify_virtio_net_q_in)) return FwStatus::bad_input_length;
    const Fields object = command.input().at(PRM(modify_virtio_net_q_in, obj_context));
    const core::Number virtq = general_object_number(command);
    if (!firmware.objects.find(Kind::virtq, virtq)) return FwStatus::bad_resource;
    const uint64_t fields = object.get(PRM(virtio_net_q_object, modify_field_select));
    const uint64_t state = object.get(PRM(virtio_net_q_object, state));
    if (fields != MLX5_VIRTQ_MODIFY_MASK_STATE || (state != kReady && state != kSuspended))
        return FwStatus::bad_parameter;
    const auto modified = firmware.device.modify_virtq(
        virtq, state == kReady ? core::VirtqState::ready : core::VirtqState::suspended);
    return modified ? FwStatus::ok : to_firmware(modified.error());
}

FwStatus query(Firmware& firmware, Command& command) {
    const core::Number number = general_object_number(command);
    const FwStatus answered =
        answer_context(command, firmware.objects.find(Kind::virtq, number), kGeneralObject);
    const auto status = firmware.device.query_virtq(number);
    if (answered != FwStatus::ok || !status) return FwStatus::bad_resource;
    Fields object = command.output().at(kGeneralObject);
    object.set(PRM(virtio_net_q_object, state), prm_state(status->state));
    object.set(PRM(virtio_net_q_object, hw_available_index), status->next_available);
    object.set(PRM(virtio_net_q_object, hw_used_index), status->next_used);
    object.at(kQueue).set(PRM(virtio_q, error_type), error_type(status->fault));
    return FwStatus::ok;
}

FwStatus destroy(Firmware& firmware, Command& command) {
    return destroy_object(firmware, Kind::virtq, general_object_number(command),
                          [&](core::Number virtq) { return firmware.device.destroy_virtq(virtq); });
}

// ---------------------------------------------------------------- counters

FwStatus create_counters(Firmware& firmware, Command& command) {
    const auto counters = firmware.device.create_virtq_counters();
    if (!counters) return to_firmware(counters.error());
    return add_object(firmware, command, Kind::virtq_counters, *counters, {});
}

FwStatus query_counters(Firmware& firmware, Command& command) {
    const core::Number number = general_object_number(command);
    const auto counts = firmware.device.query_virtq_counters(number);
    if (!firmware.objects.find(Kind::virtq_counters, number) || !counts)
        return FwStatus::bad_resource;
    Fields object = command.output().at(kGeneralObject);
    object.set(PRM(virtio_q_counters, received_desc), counts->received);
    object.set(PRM(virtio_q_counters, completed_desc), counts->completed);
    object.set(PRM(virtio_q_counters, error_cqes), counts->other_errors);
    object.set(PRM(virtio_q_counters, bad_desc_errors), counts->bad_descriptors);
    object.set(PRM(virtio_q_counters, exceed_max_chain), counts->chains_too_long);
    object.set(PRM(virtio_q_counters, invalid_buffer), counts->invalid_buffers);
    return FwStatus::ok;
}

FwStatus destroy_counters(Firmware& firmware, Command& command) {
    return destroy_object(
        firmware, Kind::virtq_counters, general_object_number(command),
        [&](core::Number counters) { return firmware.device.destroy_virtq_counters(counters); });
}

} // namespace

const GeneralObject& virtq_objects() {
    static constexpr GeneralObject kHandlers{create, query, destroy, modify};
    return kHandlers;
}

const GeneralObject& virtq_counter_objects() {
    static constexpr GeneralObject kHandlers{create_counters, query_counters, destroy_counters};
    return kHandlers;
}

} // namespace softhca::prm
