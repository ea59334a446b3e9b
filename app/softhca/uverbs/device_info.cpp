// SPDX-License-Identifier: BSD-3-Clause
// The device's description of itself: context, device and port attributes.
#include "app/softhca/core/mkey.hpp"
#include "app/softhca/identity.hpp"
#include "app/softhca/link_rate.hpp"
#include "app/softhca/uverbs/commands.hpp"
#include "app/softhca/uverbs/sysfs_tree.hpp"

#include "common/net/endian.hpp"

#include <cerrno>
#include <infiniband/verbs.h>

namespace softhca::uverbs {
namespace {

using core::Limits;

constexpr uint32_t kRawPacket = 1u << IBV_QPT_RAW_PACKET; // in masks of supported QP types
// mlx5_ib adds flags for transports that no program can use here (XRC, RC_RNR_NAK_GEN,
// CHANGE_PHY_PORT), whatever the device says.
constexpr uint32_t kCapFlags = IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
                               IBV_DEVICE_RAW_IP_CSUM | IBV_DEVICE_MANAGED_FLOW_STEERING;
constexpr uint32_t kMaxSge = 30;
constexpr uint32_t kDataSegmentBytes = 16;

uint64_t guid_of(const PortConfig& port) {
    uint64_t raw;
    std::memcpy(&raw, guid_bytes(port.mac).data(), sizeof raw);
    return raw; // already in the big-endian order of the ABI
}

ib_uverbs_query_device_resp device_attributes(const PortConfig& port) {
    ib_uverbs_query_device_resp out{};
    out.fw_ver =
        uint64_t{kFirmwareMajor} << 32 | uint64_t{kFirmwareMinor} << 16 | kFirmwareSubminor;
    out.node_guid = out.sys_image_guid = guid_of(port);
    out.max_mr_size = ~uint64_t{0};
    out.page_size_cap = ~uint64_t{0xfff};
    out.vendor_id = kVendorId;
    out.vendor_part_id = pci_device(port.steering_format.value_or(0));
    out.max_qp = 1u << kLogMaxQps;
    static_assert(kLogMaxQps == Limits::kLogMaxSqs, "a QP that sends is an SQ");
    out.max_qp_wr = 1u << Limits::kLogMaxWqebbs;
    out.device_cap_flags = kCapFlags;
    out.max_sge = kMaxSge;
    out.max_sge_rd = kMaxSge;
    out.max_cq = 1u << Limits::kLogMaxCqs;
    out.max_cqe = (1u << Limits::kLogMaxCqEntries) - 1;
    out.max_mr = Limits::kMaxMkeys;
    out.max_pd = 1u << Limits::kLogMaxPds;
    out.max_qp_rd_atom = out.max_qp_init_rd_atom = 1;
    out.max_res_rd_atom = out.max_qp_rd_atom * out.max_qp;
    out.max_mcast_grp = 1;
    out.max_ah = INT32_MAX;
    out.max_srq = 1u << kLogMaxSrqs;
    out.max_srq_wr = (1u << kLogMaxSrqEntries) - 1;
    out.max_srq_sge = kMaxReceiveWqeBytes / kDataSegmentBytes - 1;
    out.max_pkeys = 128;
    out.local_ca_ack_delay = kLocalAckDelay;
    out.phys_port_cnt = 1;
    return out;
}

mlx5_ib_query_device_resp driver_attributes() {
    mlx5_ib_query_device_resp out{};
    out.tso_caps = {.max_tso = Limits::kMaxTsoBytes, .supported_qpts = kRawPacket};
    out.rss_caps.rx_hash_function = MLX5_RX_HASH_FUNC_TOEPLITZ;
    out.rss_caps.rx_hash_fields_mask =
        MLX5_RX_HASH_SRC_IPV4 | MLX5_RX_HASH_DST_IPV4 | MLX5_RX_HASH_SRC_IPV6 |
        MLX5_RX_HASH_DST_IPV6 | MLX5_RX_HASH_SRC_PORT_TCP | MLX5_RX_HASH_DST_PORT_TCP |
        MLX5_RX_HASH_SRC_PORT_UDP | MLX5_RX_HASH_DST_PORT_UDP | MLX5_RX_HASH_INNER;
    out.cqe_comp_caps = {.max_num = mlx5::kMaxCompressed,
                         .supported_format = MLX5_IB_CQE_RES_FORMAT_HASH |
                                             MLX5_IB_CQE_RES_FORMAT_CSUM |
                                             MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX};
    out.mlx5_ib_support_multi_pkt_send_wqes = MLX5_IB_ALLOW_MPW | MLX5_IB_SUPPORT_EMPW;
    out.flags = MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD;
    out.packet_pacing_caps = {.qp_rate_limit_min = Limits::kMinRateKbps,
                              .qp_rate_limit_max = Limits::kMaxRateKbps,
                              .supported_qpts = kRawPacket,
                              .cap_flags = 0,
                              .reserved = {}};
    out.tunnel_offloads_caps = MLX5_IB_TUNNELED_OFFLOADS_VXLAN | MLX5_IB_TUNNELED_OFFLOADS_GRE |
                               MLX5_IB_TUNNELED_OFFLOADS_GENEVE |
                               MLX5_IB_TUNNELED_OFFLOADS_MPLS_GRE |
                               MLX5_IB_TUNNELED_OFFLOADS_MPLS_UDP;
    out.striding_rq_caps = {.min_single_stride_log_num_of_bytes = Limits::kLogMinStrideBytes,
                            .max_single_stride_log_num_of_bytes = Limits::kLogMaxStrideBytes,
                            .min_single_wqe_log_num_of_strides = kMinLogStrides,
                            .max_single_wqe_log_num_of_strides = Limits::kLogMaxStrides,
                            .supported_qpts = kRawPacket,
                            .reserved = 0};
    return out;
}

/// The largest IB MTU that RoCE could use within an Ethernet MTU; 0: none. Source: Linux,
/// iboe_get_mtu().
uint8_t ib_mtu(unsigned mtu) {
    constexpr unsigned kRoceHeaders = 96;
    for (const auto code : {IBV_MTU_4096, IBV_MTU_2048, IBV_MTU_1024, IBV_MTU_512, IBV_MTU_256})
        if (mtu >= (128u << code) + kRoceHeaders) return static_cast<uint8_t>(code);
    return 0;
}

} // namespace

Errno attach(Context& context, core::Device& device, bool devx) {
    // Programs that prefer DevX (firmware commands) accept the refusal and retry without.
    if (devx)
        if (const Errno error = open_devx(context)) return error;
    context.device = &device;
    context.transport_domain =
        context.devx ? context.devx->transport_domain() : context.port.loopback.new_domain();
    context.loopback_use.emplace(context.port.loopback, LocalLoopback::Use::context, device);
    if (context.port.clock.clock()) device.show_clock(context.port.clock.clock());
    return 0;
}

Errno get_context(Context& context, const WriteCommand& driver) {
    if (context.device) return EINVAL;
    const auto request = driver.driver_in.as<mlx5_ib_alloc_ucontext_req_v2>();
    if (driver.driver_in.size() < sizeof(mlx5_ib_alloc_ucontext_req)) return EINVAL;
    if (request.flags & ~uint32_t{MLX5_IB_ALLOC_UCTX_DEVX} || request.comp_mask) return EOPNOTSUPP;
    // This device has only dynamic doorbell pages and writes only CQEs of version 1: rdma-core 26.
    if (!(request.lib_caps & MLX5_LIB_CAP_DYN_UAR) || request.max_cqe_version < 1)
        return EOPNOTSUPP;

    Runtime* runtime = Runtime::get();
    if (!runtime) return ENODEV;
    const auto started = runtime->start(context.port);
    if (!started) return started.error().code ? started.error().code : EIO;
    const bool devx = request.flags & MLX5_IB_ALLOC_UCTX_DEVX;
    if (const Errno error = attach(context, **started, devx)) return error;

    mlx5_ib_alloc_ucontext_resp out = context_attributes(context);
    driver.driver_out.put(out);
    return 0;
}

Errno get_context_and_events(Context& context, const WriteCommand& command) {
    if (const Errno error = get_context(context, command)) return error;
    Fd user_fd;
    if (const Errno error = open_async_file(context, user_fd)) return error;
    ib_uverbs_get_context_resp out{};
    out.num_comp_vectors = kCompletionVectors;
    out.async_fd = static_cast<uint32_t>(user_fd.release());
    command.out.put(out);
    return 0;
}

mlx5_ib_alloc_ucontext_resp context_attributes(const Context& context) {
    mlx5_ib_alloc_ucontext_resp out{};
    out.qp_tab_size = 1u << 18;
    out.bf_reg_size = 512;
    out.tot_bfregs = 0; // none but those that are requested
    out.cache_line_size = 64;
    out.max_sq_desc_sz = Limits::kMaxSendWqeBytes;
    out.max_rq_desc_sz = kMaxReceiveWqeBytes;
    out.max_send_wqebb = 1u << Limits::kLogMaxWqebbs;
    out.max_recv_wr = 1u << Limits::kLogMaxRqWqes;
    out.max_srq_recv_wr = 1u << kLogMaxSrqEntries;
    out.num_ports = 1;
    if (context.port.clock.clock()) {
        out.comp_mask |= MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET;
        out.hca_core_clock_offset = 0;
        out.clock_info_versions = 1u << MLX5_IB_CLOCK_INFO_V1;
    }
    out.dump_fill_mkey = core::kDumpFillKey;
    out.comp_mask |= MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY;
    out.cqe_version = 1;
    out.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE;
    out.eth_min_inline = MLX5_USER_INLINE_MODE_NONE;
    out.log_uar_size = kUarPageShift;
    out.num_uars_per_page = 1;
    out.num_dyn_bfregs = 1024;
    return out;
}

uint64_t device_cap_flags() {
    return kCapFlags | IBV_DEVICE_RAW_SCATTER_FCS | IBV_DEVICE_PCI_WRITE_END_PADDING;
}

Errno query_device(Context& context, const WriteCommand& command) {
    command.out.put(device_attributes(context.port.config));
    return 0;
}

Errno query_device_ex(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_ex_query_device>();
    if (request.comp_mask || request.reserved) return EINVAL;
    ib_uverbs_ex_query_device_resp out{};
    out.base = device_attributes(context.port.config);
    out.timestamp_mask = ~uint64_t{0} >> 1;
    out.hca_core_clock = Limits::kClockKhz;
    out.device_cap_flags_ex = device_cap_flags();
    out.rss_caps = {.supported_qpts = kRawPacket,
                    .max_rwq_indirection_tables = 1u << Limits::kLogMaxRqts,
                    .max_rwq_indirection_table_size = Limits::kMaxRqtSize,
                    .reserved = 0};
    out.max_wq_type_rq = 1u << Limits::kLogMaxRqs;
    out.cq_moderation_caps = {.max_cq_moderation_count = UINT16_MAX,
                              .max_cq_moderation_period = kMaxCqPeriod,
                              .reserved = 0};
    out.raw_packet_caps = IBV_RAW_PACKET_CAP_CVLAN_STRIPPING | IBV_RAW_PACKET_CAP_SCATTER_FCS |
                          IBV_RAW_PACKET_CAP_IP_CSUM | IBV_RAW_PACKET_CAP_DELAY_DROP;
    command.out.put(out);

    mlx5_ib_query_device_resp driver = driver_attributes();
    command.driver_out.put(driver);
    return 0;
}

ib_uverbs_query_port_resp port_attributes(const Port& port) {
    const bool up = port.link_up();
    const LinkRate rate = link_rate(port.config.speed_mbps);
    const core::Device* device = port.device.load();
    ib_uverbs_query_port_resp out{};
    out.max_msg_sz = 1u << 30; // and no GIDs: this port has no RoCE
    out.pkey_tbl_len = 1;
    out.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    out.max_mtu = IBV_MTU_4096;
    out.active_mtu = ib_mtu(device ? device->mtu() : port.config.mtu);
    out.active_width = rate.width;
    out.active_speed = rate.speed;
    constexpr uint8_t kLinkUp = 5, kDisabled = 3;
    out.phys_state = up ? kLinkUp : kDisabled;
    out.link_layer = IBV_LINK_LAYER_ETHERNET;
    return out;
}

Errno query_port(Context& context, const WriteCommand& command) {
    if (command.in.as<ib_uverbs_query_port>().port_num != 1) return EINVAL;
    command.out.put(port_attributes(context.port));
    return 0;
}

} // namespace softhca::uverbs
