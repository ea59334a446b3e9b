// SPDX-License-Identifier: BSD-3-Clause
// Commands for general objects, by type.
#pragma once

#include "app/softhca/prm/virtio.hpp"
#include "tests/unit/prm/request.hpp"

namespace prm_test {

// rdma-core, mlx5_ifc.h: MLX5_OBJ_TYPE_HEADER_MODIFY_ARGUMENT; mlx5_prm.h of DPDK.
inline constexpr uint16_t kArgumentType = 0x23, kVirtqType = 0x0d, kVirtqCountersType = 0x1c;
inline constexpr Field kLogObjectRange{0x63, 5}; ///< in the head of the command

/// Queries or destroys an object.
inline Request about_object(uint16_t opcode, Number number, uint16_t type) {
    return Request(opcode, PRM_BYTES(general_obj_in_cmd_hdr), type)
        .set(PRM(general_obj_in_cmd_hdr, obj_id), number);
}

/// Packets and copies go to the same table.
inline Request sampler_request(Number table, uint64_t ratio) {
    constexpr Field kObject = PRM(create_sampler_obj_in, sampler_object);
    return Request(MLX5_CMD_OP_CREATE_GENERAL_OBJECT, PRM_BYTES(create_sampler_obj_in),
                   MLX5_GENERAL_OBJECT_TYPES_SAMPLER)
        .set(inside(kObject, PRM(sampler_obj, level)), 2)
        .set(inside(kObject, PRM(sampler_obj, ignore_flow_level)), 1)
        .set(inside(kObject, PRM(sampler_obj, sample_ratio)), ratio)
        .set(inside(kObject, PRM(sampler_obj, sample_table_id)), table)
        .set(inside(kObject, PRM(sampler_obj, default_table_id)), table);
}

/// 2^log_range pairs of meters.
inline Request meters_request(uint64_t log_range, Number access_pd) {
    constexpr Field kObject = PRM(create_flow_meter_aso_obj_in, flow_meter_aso_obj);
    return Request(MLX5_CMD_OP_CREATE_GENERAL_OBJECT, PRM_BYTES(create_flow_meter_aso_obj_in),
                   MLX5_GENERAL_OBJECT_TYPES_FLOW_METER_ASO)
        .set(kLogObjectRange, log_range)
        .set(inside(kObject, PRM(flow_meter_aso_obj, meter_aso_access_pd)), access_pd);
}

/// 2^log_range arguments of header edits.
inline Request arguments_request(uint64_t log_range, Number access_pd) {
    constexpr size_t kHeadBytes = 16, kObjectBytes = 20;
    return Request(MLX5_CMD_OP_CREATE_GENERAL_OBJECT, kHeadBytes + kObjectBytes, kArgumentType)
        .set(kLogObjectRange, log_range)
        .set({8 * kHeadBytes + 0x88, 24}, access_pd);
}

inline Request definer_request(uint16_t layout) {
    constexpr Field kObject = PRM(create_match_definer_in, obj_context);
    return Request(MLX5_CMD_OP_CREATE_GENERAL_OBJECT, PRM_BYTES(create_match_definer_in),
                   MLX5_OBJ_TYPE_MATCH_DEFINER)
        .set(inside(kObject, PRM(match_definer, format_id)), layout);
}

inline Request icm_request(uint64_t address, uint64_t log_bytes) {
    constexpr Field kObject = PRM(create_sw_icm_in, sw_icm);
    return Request(MLX5_CMD_OP_CREATE_GENERAL_OBJECT, PRM_BYTES(create_sw_icm_in),
                   MLX5_OBJ_TYPE_SW_ICM)
        .set(inside(kObject, PRM(sw_icm, sw_icm_start_addr)), address)
        .set(inside(kObject, PRM(sw_icm, log_sw_icm_size)), log_bytes);
}

/// The virtio queue with that index in the device: odd ones send.
inline Request virtq_request(Number umem, Number pd, Number tis, uint64_t index = 1) {
    constexpr Field kObject = PRM(create_virtio_net_q_in, obj_context);
    constexpr Field kQueue = inside(kObject, PRM(virtio_net_q_object, virtio_q_context));
    Request request(MLX5_CMD_OP_CREATE_GENERAL_OBJECT, PRM_BYTES(create_virtio_net_q_in),
                    kVirtqType);
    for (const Field id :
         {PRM(virtio_q, umem_1_id), PRM(virtio_q, umem_2_id), PRM(virtio_q, umem_3_id)})
        request.set(inside(kQueue, id), umem);
    for (const Field bytes :
         {PRM(virtio_q, umem_1_size), PRM(virtio_q, umem_2_size), PRM(virtio_q, umem_3_size)})
        request.set(inside(kQueue, bytes), kVirtqUmemBytes);
    return request.set(inside(kQueue, PRM(virtio_q, queue_index)), index)
        .set(inside(kQueue, PRM(virtio_q, queue_size)), 8)
        .set(inside(kQueue, PRM(virtio_q, pd)), pd)
        .set(inside(kQueue, PRM(virtio_q, virtio_version_1_0)), 1)
        .set(inside(kObject, PRM(virtio_net_q_object, tisn_or_qpn)), tis)
        .set(inside(kObject, PRM(virtio_net_q_object, hw_available_index)), 7)
        .set(inside(kObject, PRM(virtio_net_q_object, hw_used_index)), 7);
}

inline Request virtq_change(Number number, uint64_t state,
                            uint64_t fields = MLX5_VIRTQ_MODIFY_MASK_STATE) {
    constexpr Field kObject = PRM(modify_virtio_net_q_in, obj_context);
    return Request(MLX5_CMD_OP_MODIFY_GENERAL_OBJECT, PRM_BYTES(modify_virtio_net_q_in), kVirtqType)
        .set(PRM(general_obj_in_cmd_hdr, obj_id), number)
        .set(inside(kObject, PRM(virtio_net_q_object, modify_field_select)), fields)
        .set(inside(kObject, PRM(virtio_net_q_object, state)), state);
}

} // namespace prm_test
