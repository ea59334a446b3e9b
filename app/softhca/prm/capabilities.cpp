// SPDX-License-Identifier: BSD-3-Clause
// The answers of QUERY_HCA_CAP: an Ethernet-only ConnectX-5 without switching and offload engines.
#include "app/softhca/core/icm.hpp"
#include "app/softhca/core/rings/mlx5/ste/format.hpp"
#include "app/softhca/prm/firmware.hpp"
#include "app/softhca/prm/general_objects.hpp"
#include "app/softhca/prm/match.hpp"
#include "app/softhca/prm/virtio.hpp"

namespace softhca::prm {
namespace {

Fields fields_of(Capabilities::Page& page) { return {page.data(), page.size()}; }

// Reserved bits in the kernel's header. Source: mlx5_prm.h of DPDK.
constexpr Field kFlowCountersDump{PRM(cmd_hca_cap, max_flow_counter_15_0).offset + 17, 1};

constexpr Field kAccessRegisterUser{PRM(cmd_hca_cap, log_max_cq_sz).offset + 10, 1};
constexpr Field kNonWireSq{PRM(cmd_hca_cap, log_max_klm_list_size).offset + 6, 1};
constexpr Field kLogMaxStaticSqWq{PRM(cmd_hca_cap, log_max_klm_list_size).offset + 25, 5};
constexpr Field kWaitOnTime{0x68c, 1}; // wait_on_time
// log_max_num_header_modify_argument and log_header_modify_argument_max_alloc. A range may have a
// single one: log_header_modify_argument_granularity is 0.
constexpr Field kLogMaxArguments{0x763, 5}, kLogMaxArgumentsAtOnce{0x773, 5};
static_assert(PRM(cmd_hca_cap, match_definer_format_supported).offset == 0x7c0); // soon after it
constexpr Field kTunnelStatelessGtp{0x2b, 1}; // tunnel_stateless_gtp of Ethernet offloads
constexpr Field kWqeRatePp{0x20, 1};          // wqe_rate_pp of the QoS capabilities
constexpr Field kFlowMeter{7, 1}, kFlowMeterRegisters{0x18, 8}; // flow_meter_old, flow_meter_reg_id
constexpr Field kFlowMeterShares{0x28, 1};                      // flow_meter
// ft_field_support_2_nic_receive, ft_field_bitmask_support_2_nic_receive, likewise of transmit.
// Source: rdma-core, providers/mlx5/mlx5_ifc.h, flow_table_nic_cap.
constexpr Field kMatchFields2[] = {{0x1400, 0x80}, {0x1480, 0x80}, {0x1700, 0x80}, {0x1780, 0x80}};
constexpr Field kLengthsOk{0x17, 4};      // inner_l3_ok, inner_l4_ok, outer_l3_ok, outer_l4_ok
constexpr Field kChecksumsOk{0x1c, 4};    // inner_ipv4_checksum_ok, …, outer_l4_checksum_ok
constexpr Field kLogMaxSamplers{0x48, 8}; // log_max_ft_sampler_num of flow table properties
constexpr Field kNicDirections[] = {PRM(flow_table_nic_cap, flow_table_properties_nic_receive),
                                    PRM(flow_table_nic_cap, flow_table_properties_nic_transmit)};
constexpr uint8_t kColorRegister = 3; ///< reg_c_3: entries put colors into odd ones

void limits(Fields caps) {
    const auto set = [&](Field field, uint64_t value) { caps.set(field, value); };
    set(PRM(cmd_hca_cap, log_max_qp), log_limit(Kind::qp));
    set(PRM(cmd_hca_cap, log_max_qp_sz), 15);
    set(PRM(cmd_hca_cap, log_max_srq), log_limit(Kind::xrc_srq));
    set(PRM(cmd_hca_cap, log_max_srq_sz), kLogMaxSrqEntries);
    set(PRM(cmd_hca_cap, log_max_cq), log_limit(Kind::cq));
    set(PRM(cmd_hca_cap, log_max_cq_sz), core::Limits::kLogMaxCqEntries);
    set(PRM(cmd_hca_cap, log_max_eq), log_limit(Kind::eq));
    set(PRM(cmd_hca_cap, log_max_eq_sz), 22);
    set(PRM(cmd_hca_cap, log_max_mkey), log_limit(Kind::mkey));
    set(PRM(cmd_hca_cap, log_max_mrw_sz), 40);
    set(PRM(cmd_hca_cap, log_max_klm_list_size), core::Limits::kLogMaxKeyParts);
    set(PRM(cmd_hca_cap, max_indirection), core::Limits::kMaxIndirection);
    set(PRM(cmd_hca_cap, log_max_msg), 30);
    set(PRM(cmd_hca_cap, log_max_pd), log_limit(Kind::pd));
    set(PRM(cmd_hca_cap, log_max_xrcd), log_limit(Kind::xrcd));
    set(PRM(cmd_hca_cap, log_max_transport_domain), log_limit(Kind::transport_domain));
    set(PRM(cmd_hca_cap, log_max_rq), log_limit(Kind::rq));
    set(PRM(cmd_hca_cap, log_max_sq), log_limit(Kind::sq));
    set(PRM(cmd_hca_cap, log_max_rmp), log_limit(Kind::rmp));
    set(PRM(cmd_hca_cap, log_max_tir), log_limit(Kind::tir));
    set(PRM(cmd_hca_cap, log_max_tis), log_limit(Kind::tis));
    set(PRM(cmd_hca_cap, log_max_tis_per_sq), 3);
    set(PRM(cmd_hca_cap, log_max_rqt), log_limit(Kind::rqt));
    set(PRM(cmd_hca_cap, log_max_rqt_size), 11);
    set(PRM(cmd_hca_cap, log_max_wq_sz), core::Limits::kLogMaxWqebbs);
    set(PRM(cmd_hca_cap, log_max_stride_sz_rq), 10);
    set(PRM(cmd_hca_cap, log_min_stride_sz_rq), 4);
    set(PRM(cmd_hca_cap, log_max_stride_sz_sq), 6);
    set(PRM(cmd_hca_cap, log_min_stride_sz_sq), 6);
    set(PRM(cmd_hca_cap, max_wqe_sz_sq), core::Limits::kMaxSendWqeBytes);
    set(PRM(cmd_hca_cap, max_wqe_sz_sq_dc), core::Limits::kMaxSendWqeBytes);
    set(PRM(cmd_hca_cap, max_wqe_sz_rq), kMaxReceiveWqeBytes);
    set(PRM(cmd_hca_cap, log_max_l2_table), 8);
    set(PRM(cmd_hca_cap, log_max_vlan_list), 9);
    set(PRM(cmd_hca_cap, log_max_current_uc_list), 7);
    set(PRM(cmd_hca_cap, log_max_current_mc_list), 7);
    set(PRM(cmd_hca_cap, max_flow_counter_15_0), core::Limits::kMaxFlowCounters & 0xffff);
    set(PRM(cmd_hca_cap, max_flow_counter_31_16), core::Limits::kMaxFlowCounters >> 16);
    set(PRM(cmd_hca_cap, log_max_flow_counter_bulk), kLogMaxQueriedCounters);
    set(kFlowCountersDump, 1);
    set(PRM(cmd_hca_cap, flow_counter_bulk_alloc), kCounterBulks);
    set(PRM(cmd_hca_cap, max_qp_cnt), 16);
    set(PRM(cmd_hca_cap, max_tc), 1);
    set(PRM(cmd_hca_cap, general_obj_types), MLX5_HCA_CAP_GENERAL_OBJECT_TYPES_SAMPLER |
                                                 MLX5_HCA_CAP_GENERAL_OBJECT_TYPES_FLOW_METER_ASO);
}

/// Announces that general objects of this type can be created.
void announce_objects(Fields general, uint64_t type) {
    constexpr Field kTypes = PRM(cmd_hca_cap, general_obj_types);
    general.set({kTypes.offset + kTypes.width - 1 - type, 1}, 1);
}

void general(Fields caps) {
    const auto set = [&](Field field, uint64_t value) { caps.set(field, value); };
    limits(caps);
    set(PRM(cmd_hca_cap, port_type), 1); // Ethernet
    set(PRM(cmd_hca_cap, num_ports), 1);
    set(PRM(cmd_hca_cap, eth_net_offloads), 1);
    set(PRM(cmd_hca_cap, nic_flow_table), 1);
    set(PRM(cmd_hca_cap, cqe_version), 1);
    set(PRM(cmd_hca_cap, cmdif_checksum), 3);
    set(PRM(cmd_hca_cap, basic_cyclic_rcv_wqe), 1);
    set(PRM(cmd_hca_cap, end_pad), 1);
    set(PRM(cmd_hca_cap, cq_oi), 1);
    set(PRM(cmd_hca_cap, cqe_128_always), 1); // large CQEs for small data: MLX5DV_…_CQE_PAD
    set(PRM(cmd_hca_cap, cq_resize), 1);
    set(PRM(cmd_hca_cap, striding_rq), 1);
    set(PRM(cmd_hca_cap, qos), 1);
    set(PRM(cmd_hca_cap, rq_delay_drop), 1);
    set(PRM(cmd_hca_cap, general_notification_event), 1);
    set(PRM(cmd_hca_cap, ext_stride_num_range), 1);
    set(PRM(cmd_hca_cap, cq_moderation), 1);
    set(PRM(cmd_hca_cap, scqe_break_moderation), 1);
    set(PRM(cmd_hca_cap, block_lb_mc), 1);
    set(PRM(cmd_hca_cap, disable_local_lb_uc), 1);
    set(PRM(cmd_hca_cap, disable_local_lb_mc), 1);
    set(PRM(cmd_hca_cap, sctr_data_cqe), 1);
    set(PRM(cmd_hca_cap, driver_version), 1);
    set(PRM(cmd_hca_cap, vport_counters), 1);
    set(PRM(cmd_hca_cap, pcam_reg), 1);
    set(PRM(cmd_hca_cap, mcam_reg), 1);
    set(PRM(cmd_hca_cap, beacon_led), 1);
    set(PRM(cmd_hca_cap, dump_fill_mkey), 1);
    set(PRM(cmd_hca_cap, modify_rq_counter_set_id), 1);
    set(PRM(cmd_hca_cap, local_ca_ack_delay), kLocalAckDelay);
    // The driver considers a device without these transports broken.
    set(PRM(cmd_hca_cap, xrc), 1);
    set(PRM(cmd_hca_cap, rc), 1);
    set(PRM(cmd_hca_cap, uc), 1);
    set(PRM(cmd_hca_cap, ud), 1);
    // Memory regions by CREATE_MKEY: UMR cannot build them here.
    set(PRM(cmd_hca_cap, umr_modify_entity_size_disabled), 1);
    set(PRM(cmd_hca_cap, umr_modify_atomic_disabled), 1);
    set(PRM(cmd_hca_cap, cqe_compression), 1);
    set(PRM(cmd_hca_cap, mini_cqe_resp_stride_index), 1);
    set(PRM(cmd_hca_cap, cqe_compression_max_num), 64);
    set(PRM(cmd_hca_cap, cqe_compression_timeout), 16);
    set(PRM(cmd_hca_cap, fixed_buffer_size), 1);
    set(PRM(cmd_hca_cap, uar_4k), 1);
    set(PRM(cmd_hca_cap, uar_sz), 5); // 32 MB of BAR
    set(PRM(cmd_hca_cap, num_of_uars_per_page), 1);
    set(PRM(cmd_hca_cap, flex_parser_protocols),
        MLX5_FLEX_PARSER_GENEVE_ENABLED | MLX5_FLEX_PARSER_MPLS_OVER_GRE_ENABLED |
            MLX5_FLEX_PARSER_MPLS_OVER_UDP_ENABLED | MLX5_FLEX_PARSER_VXLAN_GPE_ENABLED |
            MLX5_FLEX_PARSER_ICMP_V4_ENABLED | MLX5_FLEX_PARSER_ICMP_V6_ENABLED |
            MLX5_FLEX_PARSER_GTPU_ENABLED);
    set(PRM(cmd_hca_cap, log_pg_sz), 12);
    set(PRM(cmd_hca_cap, bf), 1);
    set(PRM(cmd_hca_cap, log_bf_reg_size), 9);
    set(PRM(cmd_hca_cap, device_frequency_khz), core::Limits::kClockKhz);
    set(PRM(cmd_hca_cap, device_frequency_mhz), core::Limits::kClockKhz / 1000);
}

/// Queues that wait for times and for each other. WQEs state their index (wqe_index_ignore_cap is
/// 0): the only ones that need not are queues that are rung by registers alone (net_mlx5's with
/// tx_pp), and doorbells are records here.
void cross_channel(Fields caps) {
    caps.set(PRM(cmd_hca_cap, cd), 1);
    caps.set(kNonWireSq, 1);
    caps.set(kLogMaxStaticSqWq, core::Limits::kLogMaxWqebbs);
    caps.set(kWaitOnTime, 1);
}

/// Queues whose packets leave again by the device alone. Their memory is the device's own: neither
/// locked nor the host's (hairpin_data_buffer_locked, hairpin_sq_wq_in_host_mem are 0).
void hairpin(Fields caps) {
    caps.set(PRM(cmd_hca_cap, hairpin), 1);
    caps.set(PRM(cmd_hca_cap, log_max_hairpin_queues), core::Limits::kLogMaxHairpins);
    caps.set(PRM(cmd_hca_cap, log_max_hairpin_wq_data_sz), core::Limits::kLogMaxHairpinBytes);
    caps.set(PRM(cmd_hca_cap, log_min_hairpin_wq_data_sz), core::Limits::kLogMinHairpinBytes);
    caps.set(PRM(cmd_hca_cap, log_max_hairpin_num_packets), core::Limits::kLogMaxHairpinPackets);
}

/// Virtio queues, and doorbell pages for them (VARs). The device reads available rings whether they
/// are rung or not.
void virtio_emulation(Capabilities& caps) {
    constexpr uint8_t kLogPage = 12; // unit of log_doorbell_bar_size
    constexpr Field kFeatures = PRM(virtio_emulation_cap, device_features_bits_mask);
    Fields general = fields_of(caps.maximum[CapType::general]);
    for (const uint64_t type : {kVirtioNetQType, kVirtioQCountersType})
        announce_objects(general, type);
    // The kernel's mask of the events that programs may receive, which otherwise has no object
    // events.
    general.set(PRM(cmd_hca_cap, event_cap), 1);
    Fields events = fields_of(caps.maximum[CapType::device_event]);
    events.set({PRM(device_event_cap, user_affiliated_events[0]).offset, 64}, kUserObjectEvents);
    events.set({PRM(device_event_cap, user_unaffiliated_events[0]).offset, 64}, kUserEvents);

    Fields virtio = fields_of(caps.maximum[CapType::virtio_emulation]);
    virtio.set(PRM(virtio_emulation_cap, eth_frame_offload_type), 1);
    virtio.set(PRM(virtio_emulation_cap, virtio_version_1_0), 1);
    virtio.set(kFeatures,
               (kVirtioTsoIpv4 | kVirtioTsoIpv6 | kVirtioSendChecksum | kVirtioReceiveChecksum)
                   << (kFeatures.width - kVirtioFeatureBits));
    virtio.set(PRM(virtio_emulation_cap, event_mode), 1u << MLX5_VIRTIO_Q_EVENT_MODE_NO_MSIX_MODE |
                                                          1u << MLX5_VIRTIO_Q_EVENT_MODE_QP_MODE);
    virtio.set(PRM(virtio_emulation_cap, virtio_queue_type),
               MLX5_VIRTIO_EMULATION_CAP_VIRTIO_QUEUE_TYPE_SPLIT);
    virtio.set(PRM(virtio_emulation_cap, log_doorbell_stride), kLogVarBytes);
    virtio.set(PRM(virtio_emulation_cap, log_doorbell_bar_size),
               kLogVars + kLogVarBytes - kLogPage);
    virtio.set(PRM(virtio_emulation_cap, doorbell_bar_offset), kVarsAt);
    virtio.set(PRM(virtio_emulation_cap, max_num_virtio_queues), 1u << log_limit(Kind::virtq));
    for (const Field bytes : {PRM(virtio_emulation_cap, umem_1_buffer_param_b),
                              PRM(virtio_emulation_cap, umem_2_buffer_param_b),
                              PRM(virtio_emulation_cap, umem_3_buffer_param_b)})
        virtio.set(bytes, kVirtqUmemBytes);
}

void user_contexts(Fields caps) {
    caps.set(PRM(cmd_hca_cap, log_max_uctx), log_limit(Kind::uctx));
    caps.set(PRM(cmd_hca_cap, log_max_umem), log_limit(Kind::umem));
    caps.set(PRM(cmd_hca_cap, uctx_cap), kRawTransmit);
    caps.set(kAccessRegisterUser, 1);
}

/// Programs may write steering entries into ICM, through RC QPs that loop back.
void software_steering(Capabilities& caps) {
    using core::ste::Place;
    Fields general = fields_of(caps.maximum[CapType::general]);
    general.set(PRM(cmd_hca_cap, roce), 1);
    using core::mlx5_rings::FlexParser;
    const std::pair<Field, FlexParser> parsers[] = {
        {PRM(cmd_hca_cap, flex_parser_id_icmp_dw0), FlexParser::icmp_dw0},
        {PRM(cmd_hca_cap, flex_parser_id_icmp_dw1), FlexParser::icmp_dw1},
        {PRM(cmd_hca_cap, flex_parser_id_icmpv6_dw0), FlexParser::icmpv6_dw0},
        {PRM(cmd_hca_cap, flex_parser_id_icmpv6_dw1), FlexParser::icmpv6_dw1},
        {PRM(cmd_hca_cap, flex_parser_id_outer_first_mpls_over_gre), FlexParser::mpls_over_gre},
        {PRM(cmd_hca_cap, flex_parser_id_outer_first_mpls_over_udp_label),
         FlexParser::mpls_over_udp},
    };
    for (const auto& [field, parser] : parsers)
        general.set(field, static_cast<uint64_t>(parser));
    fields_of(caps.maximum[CapType::roce]).set(PRM(roce_cap, fl_rc_qp_when_roce_disabled), 1);

    general.set(PRM(cmd_hca_cap, device_memory), 1);
    announce_objects(general, MLX5_OBJ_TYPE_SW_ICM);
    Fields memory = fields_of(caps.maximum[CapType::device_memory]);
    const auto& steering = core::kIcmRanges[static_cast<size_t>(core::IcmKind::steering)];
    const auto& edits = core::kIcmRanges[static_cast<size_t>(core::IcmKind::header_edits)];
    memory.set(PRM(device_mem_cap, log_sw_icm_alloc_granularity), core::kLogIcmBlock);
    memory.set(PRM(device_mem_cap, steering_sw_icm_start_address), steering.first);
    memory.set(PRM(device_mem_cap, log_steering_sw_icm_size), steering.log_bytes);
    memory.set(PRM(device_mem_cap, header_modify_sw_icm_start_address), edits.first);
    memory.set(PRM(device_mem_cap, log_header_modify_sw_icm_size), edits.log_bytes);

    Fields tables = fields_of(caps.maximum[CapType::flow_table]);
    tables.set(PRM(flow_table_nic_cap, sw_steering_nic_rx_action_drop_icm_address),
               address_of(Place::drop));
    tables.set(PRM(flow_table_nic_cap, sw_steering_nic_tx_action_drop_icm_address),
               address_of(Place::drop));
    tables.set(PRM(flow_table_nic_cap, sw_steering_nic_tx_action_allow_icm_address),
               address_of(Place::send));
    for (const Field direction : kNicDirections) {
        tables.at(direction).set(PRM(flow_table_prop_layout, sw_owner), 1);
        tables.at(direction).set(kLogMaxSamplers, log_limit(Kind::sampler));
    }
}

/// Header edits by patterns in ICM, and arguments.
void edit_patterns(Capabilities& caps) {
    Fields memory = fields_of(caps.maximum[CapType::device_memory]);
    const auto& patterns = core::kIcmRanges[static_cast<size_t>(core::IcmKind::edit_patterns)];
    memory.set(PRM(device_mem_cap, header_modify_pattern_sw_icm_start_address), patterns.first);
    memory.set(PRM(device_mem_cap, log_header_modify_pattern_sw_icm_size), patterns.log_bytes);

    Fields general = fields_of(caps.maximum[CapType::general]);
    announce_objects(general, kModifyArgumentType);
    general.set(kLogMaxArguments, core::Limits::kLogMaxEditArguments);
    general.set(kLogMaxArgumentsAtOnce, core::Limits::kLogMaxEditArgumentsAtOnce);
}

/// What entries of format 1 have in addition to format 0: definers, integrity, patterns of header
/// edits, and meters.
void steering_format_1(Capabilities& caps) {
    Fields general = fields_of(caps.maximum[CapType::general]);
    general.set(PRM(cmd_hca_cap, steering_format_version), 1);
    general.set(PRM(cmd_hca_cap, max_num_match_definer),
                core::ste::Definers::kEnd - core::ste::Definers::kFirst);
    general.set(PRM(cmd_hca_cap, match_definer_format_supported),
                core::mlx5_rings::definer_layouts());

    edit_patterns(caps);

    const Fields tables = fields_of(caps.maximum[CapType::flow_table]);
    for (const Field direction : kNicDirections) { // writers of entries must know their format
        tables.at(direction).set(PRM(flow_table_prop_layout, sw_owner), 0);
        tables.at(direction).set(PRM(flow_table_prop_layout, sw_owner_v2), 1);
    }
    // All tables match these; entries of format 0 do not, and net_mlx5 would fail with them.
    for (const Field& fields : kMatchFields2)
        for (const Field& integrity : {kLengthsOk, kChecksumsOk})
            tables.at(fields).set(integrity, 0xf);

    // These tell net_mlx5 that its rules may meter, which register has a packet's color, and that
    // the rest of that register is its own.
    Fields qos = fields_of(caps.maximum[CapType::qos]);
    qos.set(kFlowMeter, 1);
    qos.set(kFlowMeterRegisters, 1u << kColorRegister);
    qos.set(kFlowMeterShares, 1);
}

void ethernet(Fields caps) {
    const auto set = [&](Field field, uint64_t value) { caps.set(field, value); };
    set(PRM(per_protocol_networking_offload_caps, csum_cap), 1);
    set(PRM(per_protocol_networking_offload_caps, vlan_cap), 1);
    set(PRM(per_protocol_networking_offload_caps, wqe_vlan_insert), 1);
    set(PRM(per_protocol_networking_offload_caps, self_lb_en_modifiable), 1);
    set(PRM(per_protocol_networking_offload_caps, scatter_fcs), 1);
    set(PRM(per_protocol_networking_offload_caps, multi_pkt_send_wqe), 1);
    set(PRM(per_protocol_networking_offload_caps, enhanced_multi_pkt_send_wqe), 1);
    set(PRM(per_protocol_networking_offload_caps, max_lso_cap), 18);
    set(PRM(per_protocol_networking_offload_caps, wqe_inline_mode), 2); // not required
    set(PRM(per_protocol_networking_offload_caps, rss_ind_tbl_cap), 11);
    // Message length includes TCP header and payload (lro_max_msg_sz_mode 0 of mlx5_prm.h).
    set(PRM(per_protocol_networking_offload_caps, lro_cap), 1);
    set(PRM(per_protocol_networking_offload_caps, lro_psh_flag), 1);
    set(PRM(per_protocol_networking_offload_caps, lro_time_stamp), 1);
    set(PRM(per_protocol_networking_offload_caps, lro_min_mss_size),
        core::Limits::kLroMinSegmentBytes);
    for (size_t i = 0; i < std::size(core::Limits::kLroPeriodsUs); i++)
        set({PRM(per_protocol_networking_offload_caps, lro_timer_supported_periods[0]).offset +
                 32 * i,
             32},
            core::Limits::kLroPeriodsUs[i]);
    set(PRM(per_protocol_networking_offload_caps, tunnel_stateless_vxlan), 1);
    set(PRM(per_protocol_networking_offload_caps, max_vxlan_udp_ports), net::VxlanPorts::kMost);
    set(PRM(per_protocol_networking_offload_caps, tunnel_stateless_gre), 1);
    set(PRM(per_protocol_networking_offload_caps, tunnel_stateless_geneve_rx), 1);
    set(PRM(per_protocol_networking_offload_caps, tunnel_stateless_geneve_tx), 1);
    set(PRM(per_protocol_networking_offload_caps, tunnel_stateless_mpls_over_gre), 1);
    set(PRM(per_protocol_networking_offload_caps, tunnel_stateless_mpls_over_udp), 1);
    set(kTunnelStatelessGtp, 1);
}

/// Everything that flow groups may match. A capability has one bit per field.
void match_fields(Fields fields) {
    for (const MatchField& field : prm::match_fields())
        if (field.capability != MatchField::kNotAnnounced) fields.set({field.capability, 1}, 1);
}

void flow_table_type(Fields table) {
    const auto set = [&](Field field, uint64_t value) { table.set(field, value); };
    set(PRM(flow_table_prop_layout, ft_support), 1);
    set(PRM(flow_table_prop_layout, flow_counter), 1);
    set(PRM(flow_table_prop_layout, flow_modify_en), 1);
    set(PRM(flow_table_prop_layout, modify_root), 1);
    set(PRM(flow_table_prop_layout, identified_miss_table_mode), 1);
    set(PRM(flow_table_prop_layout, flow_table_modify), 1);
    set(PRM(flow_table_prop_layout, log_max_ft_size), core::Limits::kLogMaxFlowTableSize);
    set(PRM(flow_table_prop_layout, max_ft_level), core::Limits::kMaxFlowTableLevels);
    set(PRM(flow_table_prop_layout, log_max_ft_num), 16);
    set(PRM(flow_table_prop_layout, log_max_flow_counter), kLogMaxDestinations);
    set(PRM(flow_table_prop_layout, log_max_destination), kLogMaxDestinations);
    set(PRM(flow_table_prop_layout, log_max_flow), 20);
    match_fields(table.at(PRM(flow_table_prop_layout, ft_field_support)));
    match_fields(table.at(PRM(flow_table_prop_layout, ft_field_bitmask_support)));
}

/// What entries may do to headers.
void rewriting(Fields table) {
    const auto set = [&](Field field, uint64_t value) { table.set(field, value); };
    for (const Field field :
         {PRM(flow_table_prop_layout, pop_vlan), PRM(flow_table_prop_layout, push_vlan),
          PRM(flow_table_prop_layout, pop_vlan_2), PRM(flow_table_prop_layout, push_vlan_2),
          PRM(flow_table_prop_layout, reformat_and_vlan_action),
          PRM(flow_table_prop_layout, reformat_and_modify_action),
          PRM(flow_table_prop_layout, reformat_and_fwd_to_table)})
        set(field, 1);
    set(PRM(flow_table_prop_layout, log_max_modify_header_context),
        core::Limits::kLogMaxHeaderEdits);
    set(PRM(flow_table_prop_layout, max_modify_header_actions), core::Limits::kMaxEditsOfRule);
}

void flow_tables(Fields caps) {
    caps.set(PRM(flow_table_nic_cap, nic_rx_multi_path_tirs), 1);
    caps.set(PRM(flow_table_nic_cap, allow_sniffer_and_nic_rx_shared_tir), 1);
    caps.set(PRM(flow_table_nic_cap, encap_general_header), 1);
    caps.set(PRM(flow_table_nic_cap, log_max_packet_reformat_context),
             core::Limits::kLogMaxReformats);
    caps.set(PRM(flow_table_nic_cap, max_encap_header_size), core::Limits::kMaxReformatBytes);
    const Fields receive = caps.at(PRM(flow_table_nic_cap, flow_table_properties_nic_receive));
    const Fields transmit = caps.at(PRM(flow_table_nic_cap, flow_table_properties_nic_transmit));
    for (const Fields& table :
         {receive, transmit,
          caps.at(PRM(flow_table_nic_cap, flow_table_properties_nic_receive_sniffer)),
          caps.at(PRM(flow_table_nic_cap, flow_table_properties_nic_transmit_sniffer))})
        flow_table_type(table);
    for (const Fields& table : {receive, transmit})
        rewriting(table);
    const auto allow = [](Fields table, Field field) { table.set(field, 1); };
    for (const Fields& table : {receive, transmit})
        for (const Field action : {PRM(flow_table_prop_layout, execute_aso),
                                   PRM(flow_table_prop_layout, ignore_flow_level)})
            allow(table, action);
    allow(receive, PRM(flow_table_prop_layout, decap));
    for (const Fields& table : {receive, transmit})
        allow(table, PRM(flow_table_prop_layout, reformat));
    allow(receive, PRM(flow_table_prop_layout, reformat_l3_tunnel_to_l2));
    allow(transmit, PRM(flow_table_prop_layout, reformat_l2_to_l3_tunnel));
}

void pacing(Fields caps) {
    caps.set(PRM(qos_cap, packet_pacing), 1);
    caps.set(PRM(qos_cap, packet_pacing_uid), 1);
    caps.set(PRM(qos_cap, packet_pacing_min_rate), core::Limits::kMinRateKbps);
    caps.set(PRM(qos_cap, packet_pacing_max_rate), core::Limits::kMaxRateKbps);
    caps.set(PRM(qos_cap, packet_pacing_rate_table_size), kPacingRates);
    caps.set(kWqeRatePp, 1);
}

/// Flow meters, as ASO objects.
void meters(Fields caps) {
    caps.set(PRM(qos_cap, log_meter_aso_max_alloc), core::Limits::kLogMaxMeterPairsAtOnce);
    caps.set(PRM(qos_cap, log_max_num_meter_aso), core::Limits::kLogMaxMeterPairs);
}

} // namespace

Capabilities make_capabilities(Users users, uint16_t vhca_id, uint8_t steering_format) {
    Capabilities caps;
    general(fields_of(caps.maximum[CapType::general]));
    fields_of(caps.maximum[CapType::general]).set(PRM(cmd_hca_cap, vhca_id), vhca_id);
    hairpin(fields_of(caps.maximum[CapType::general]));
    cross_channel(fields_of(caps.maximum[CapType::general]));
    if (users != Users::none) user_contexts(fields_of(caps.maximum[CapType::general]));
    ethernet(fields_of(caps.maximum[CapType::ethernet]));
    flow_tables(fields_of(caps.maximum[CapType::flow_table]));
    if (users != Users::none) virtio_emulation(caps);
    // RC QPs require the RoCE capability, which would make a kernel treat the port as a RoCE port.
    if (users == Users::steering) software_steering(caps);
    pacing(fields_of(caps.maximum[CapType::qos]));
    meters(fields_of(caps.maximum[CapType::qos]));
    if (users == Users::steering && steering_format >= 1) steering_format_1(caps);
    caps.current = caps.maximum;
    return caps;
}

} // namespace softhca::prm
