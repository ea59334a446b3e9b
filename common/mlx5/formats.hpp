// SPDX-License-Identifier: BSD-3-Clause
// The ring formats of the mlx5 family: WQE segments, CQEs and doorbell records, as one vocabulary
// for the driver that writes them and the software HCA that reads them.
//
// Sources: rdma-core <infiniband/mlx5dv.h> (mlx5_wqe_*_seg, mlx5_cqe64, mlx5_err_cqe), Linux
// <linux/mlx5/device.h> and <linux/mlx5/qp.h> (CQE header types, checksum bits, doorbell names).
// All multi-byte fields are big-endian.
#pragma once

#include "common/net/endian.hpp"

#include <cstddef>
#include <cstdint>

namespace mlx5 {

using net::be16;
using net::be32;
using net::be64;

inline constexpr uint32_t kWqebb = 64;   ///< WQE basic block: the unit of the SQ producer index
inline constexpr uint32_t kSegment = 16; ///< unit of the WQE `ds` count
inline constexpr uint32_t kMaxWqeSegments = 63; ///< `ds` is a 6-bit field
inline constexpr uint32_t kInvalidLkey = 0x100; ///< ends a receive scatter list (MLX5_INVALID_LKEY)
inline constexpr uint32_t kInlineFlag = 1u << 31; ///< in byte_count: the data follows in the WQE

// ---------------------------------------------------------------- send queue

enum class WqeOpcode : uint8_t {
    nop = 0x00,
    rdma_write = 0x08,
    send = 0x0a,
    tso = 0x0e,
    wait = 0x0f, ///< holds the queue up (wait.hpp)
    rdma_read = 0x10,
    send_enable = 0x17,       ///< lets another queue proceed (wait.hpp)
    umr = 0x25,               ///< changes a memory key
    flow_table_access = 0x2c, ///< writes what steering entries refer to (flow_table_access.hpp)
    access_aso = 0x2d,        ///< reads and writes an ASO object (aso.hpp)
    enhanced_mpw = 0x29,      ///< eMPW: one Ethernet segment, then one data segment per packet
};

/// First segment of each send WQE (mlx5_wqe_ctrl_seg).
struct WqeCtrlSeg {
    be32 opmod_idx_opcode; ///< opmod << 24 | WQE index (producer index of its first WQEBB) << 8 |
                           ///< opcode
    be32 qpn_ds;           ///< SQ number << 8 | size in 16-byte segments
    uint8_t signature;
    uint8_t reserved[2];
    uint8_t fm_ce_se; ///< bits 3:2 = when to report completion (kCqUpdate)
    be32 imm;         ///< or what else the opcode refers to: an object's number
};
static_assert(sizeof(WqeCtrlSeg) == 16);
inline constexpr uint8_t kCqUpdate = 0x08;     ///< MLX5_WQE_CTRL_CQ_UPDATE: always write a CQE
inline constexpr uint8_t kCqUpdateMask = 0x0c; ///< the ce field of fm_ce_se

/// Ethernet segment (mlx5_wqe_eth_seg). Inlined header bytes start at `inline_header` and go on
/// into the following 16-byte segments; with kInsertVlan in `inline_size` the field holds a VLAN
/// TCI.
struct WqeEthSeg {
    be32 swp_offsets;
    uint8_t cs_flags;
    uint8_t swp_flags;
    be16 mss;
    be32 metadata;
    be16 inline_size;         ///< bytes of inline header, or kInsertVlan [| kInsertSvlan]
    uint8_t inline_header[2]; ///< first two inlined bytes, or the big-endian TCI to insert
};
static_assert(sizeof(WqeEthSeg) == 16);
static_assert(offsetof(WqeEthSeg, cs_flags) == 4 && offsetof(WqeEthSeg, mss) == 6);
static_assert(offsetof(WqeEthSeg, inline_size) == 12 && offsetof(WqeEthSeg, inline_header) == 14);
inline constexpr uint8_t kCsL3Inner = 1u << 4;
inline constexpr uint8_t kCsL4Inner = 1u << 5;
inline constexpr uint8_t kCsL3 = 1u << 6;         ///< compute the IPv4 header checksum
inline constexpr uint8_t kCsL4 = 1u << 7;         ///< compute the TCP or UDP checksum
inline constexpr uint16_t kInsertVlan = 1u << 15; ///< Linux: MLX5_ETH_WQE_INSERT_VLAN
inline constexpr uint16_t kInsertSvlan = 1u << 0; ///< an 802.1ad tag: MLX5_ETH_WQE_SVLAN
inline constexpr uint16_t kInlineSizeMask = 0x3ff;

/// Scatter/gather pointer (mlx5_wqe_data_seg), in send and in receive WQEs.
struct WqeDataSeg {
    be32 byte_count; ///< bit 31 set: an inline segment, data follows this word
    be32 lkey;
    be64 addr;
};
static_assert(sizeof(WqeDataSeg) == 16);

/// Where an RDMA request goes (mlx5_wqe_raddr_seg), after the control segment.
struct WqeRaddrSeg {
    be64 raddr;
    be32 rkey;
    be32 reserved;
};
static_assert(sizeof(WqeRaddrSeg) == 16);

/// Header of inline data (mlx5_wqe_inl_data_seg): the bytes follow at once, padded to 16.
struct WqeInlineSeg {
    be32 byte_count; ///< kInlineFlag | bytes
};
static_assert(sizeof(WqeInlineSeg) == 4);

/// Leads each WQE of a striding RQ (mlx5_wqe_srq_next_seg), before one data segment.
struct WqeNextSeg {
    uint8_t reserved0[2];
    be16 next_wqe_index;
    uint8_t signature;
    uint8_t reserved1[11];
};
static_assert(sizeof(WqeNextSeg) == 16);

// ---------------------------------------------------------------- completion queue

enum class CqeOpcode : uint8_t {
    req = 0x0,       ///< a send completed
    resp_send = 0x2, ///< a packet was received
    resize = 0x5,
    req_error = 0xd,
    resp_error = 0xe,
    invalid = 0xf, ///< initial content: owned by the device
};

enum class CqeL3 : uint8_t { none = 0, ipv6 = 1, ipv4 = 2 };
enum class CqeL4 : uint8_t { none = 0, tcp_no_ack = 1, udp = 2, tcp_ack = 3, tcp_ack_data = 4 };

/// What a completion of several TCP segments (LRO) tells; the headers in memory are the first
/// segment's. `check_sum` is then that of the payload.
struct CqeLro {
    uint8_t tcppsh_abort_dupack; ///< kLroPush
    uint8_t min_ttl;
    be16 tcp_win;     ///< of the last segment …
    be32 ack_seq_num; ///< … likewise
};
static_assert(sizeof(CqeLro) == 8);
inline constexpr uint8_t kLroPush = 1u << 6; ///< the last segment has PSH

/// Completion of a send or a receive (mlx5_cqe64).
struct Cqe {
    uint8_t packet_info; ///< kTunnelled, kOuterIpv6; headers below are then the inner ones
    uint8_t reserved0;
    be16 wqe_id; ///< striding RQ: index of the WQE
    CqeLro lro;
    be32 rx_hash_result;
    uint8_t rx_hash_type; ///< 0: not hashed; see kHashSrcIpShift
    uint8_t ml_path;
    uint8_t reserved1[2];
    be16 check_sum; ///< one's complement sum of the bytes after the L2 header
    be16 slid;
    be32 flags_rqpn;
    uint8_t hds_ip_ext; ///< kL3Ok, kL4Ok
    uint8_t l4_l3_type; ///< ip fragment << 7 | CqeL4 << 4 | CqeL3 << 2 | VLAN stripped
    be16 vlan_info;     ///< TCI of the stripped tag
    be32 srqn_uidx;     ///< LRO: segments << 24 | user index of the queue, 24 bits
    be32 metadata;
    uint8_t reserved2[4];
    be32 byte_count;   ///< bytes received; striding RQ: filler << 31 | strides << 16 | bytes
    be64 timestamp;    ///< device clock ticks
    be32 sop_drop_qpn; ///< receive: flow tag in the low 24 bits; send: opcode << 24 | QP number
    be16 wqe_counter;  ///< send: WQE index; receive: WQE counter; striding RQ: stride index
    uint8_t signature;
    uint8_t op_own; ///< CqeOpcode << 4 | kCqeFormat bits | owner; written last
};
static_assert(sizeof(Cqe) == 64);
static_assert(offsetof(Cqe, rx_hash_result) == 12 && offsetof(Cqe, check_sum) == 20);
static_assert(offsetof(Cqe, hds_ip_ext) == 28 && offsetof(Cqe, vlan_info) == 30);
static_assert(offsetof(Cqe, srqn_uidx) == 32 && offsetof(Cqe, byte_count) == 44);
static_assert(offsetof(Cqe, timestamp) == 48 && offsetof(Cqe, sop_drop_qpn) == 56);
static_assert(offsetof(Cqe, wqe_counter) == 60 && offsetof(Cqe, op_own) == 63);
inline constexpr uint8_t kTunnelled = 1u << 0; ///< only where the TIR looks into tunnels
inline constexpr uint8_t kOuterIpv6 = 1u << 1; ///< of a tunnel's outer header; else IPv4
inline constexpr uint8_t kL2Ok = 1u << 0;
inline constexpr uint8_t kL3Ok = 1u << 1; ///< IPv4: header checksum right; in a tunnel both
inline constexpr uint8_t kL4Ok = 1u << 2; ///< TCP/UDP checksum right (or UDP without one); likewise
inline constexpr uint8_t kVlanStripped = 1u << 0;
inline constexpr uint8_t kIpFragment = 1u << 7;
// rx_hash_type: two bits for each field that can be hashed, which say what it is of. 0: not hashed.
// Linux (include/linux/mlx5/device.h) has those of the destination; the source's are below them.
inline constexpr unsigned kHashSrcIpShift = 0, kHashDstIpShift = 2, kHashSrcPortShift = 4,
                          kHashDstPortShift = 6;
inline constexpr uint8_t kHashedIpv4 = 1, kHashedIpv6 = 2; ///< of an address
inline constexpr uint8_t kHashedTcp = 1, kHashedUdp = 2;   ///< of a port …
inline constexpr uint8_t kHashedSpi = 3;                   ///< … or of IPsec, in place of both
inline constexpr uint8_t kOwnerMask = 0x01;
inline constexpr uint8_t kCqeFormatMask = 0x0c;
inline constexpr uint8_t kCqeFormatCompressed = 0x0c; ///< the title of a block of mini CQEs
inline constexpr uint32_t kLroSegmentsShift = 24;     ///< of srqn_uidx
inline constexpr uint32_t kFlowTagMask = 0xffffff;
inline constexpr uint32_t kByteCountMask = 0xffff; ///< of a striding RQ's byte_count

/// What a compressed block keeps of each completion (mlx5_mini_cqe8). `n` completions take `n`
/// entries of the ring: the first holds the title, a CQE whose byte_count is n and whose other
/// fields are common to all; the arrays of eight mini CQEs lie in the entry after the title (0 to
/// 7) and in the entries 8, 16 … after the title. The device leaves the other entries as they are.
/// A block ends where the ring does (net_mlx5's vector reader counts on it).
struct MiniCqe {
    be32 result;     ///< hash format: rx_hash_result; else check_sum << 16 | stride index if any
    be32 byte_count; ///< as in the CQE
};
static_assert(sizeof(MiniCqe) == 8 && offsetof(MiniCqe, byte_count) == 4);
inline constexpr uint32_t kMiniCqes = 8;       ///< in one array
inline constexpr uint32_t kMaxCompressed = 64; ///< completions in one block

/// Failed completion (mlx5_err_cqe): opcode req_error or resp_error.
struct ErrorCqe {
    uint8_t reserved0[32];
    be32 srqn_uidx;
    uint8_t reserved1[16];
    uint8_t hw_error_syndrome;
    uint8_t hw_syndrome_type;
    uint8_t vendor_syndrome;
    uint8_t syndrome; ///< CqeSyndrome
    be32 wqe_opcode_qpn;
    be16 wqe_counter;
    uint8_t signature;
    uint8_t op_own;
};
static_assert(sizeof(ErrorCqe) == 64);
static_assert(offsetof(ErrorCqe, vendor_syndrome) == 54 && offsetof(ErrorCqe, syndrome) == 55);
static_assert(offsetof(ErrorCqe, wqe_opcode_qpn) == 56 && offsetof(ErrorCqe, wqe_counter) == 60);

/// MLX5_CQE_SYNDROME_* of mlx5dv.h.
enum class CqeSyndrome : uint8_t {
    local_length = 0x01,
    local_qp_operation = 0x02,
    local_protection = 0x04,
    flushed = 0x05, ///< the queue was in error before this WQE was executed
    mw_bind = 0x06,
    bad_response = 0x10,
    local_access = 0x11,
    remote_invalid_request = 0x12,
    remote_access = 0x13,
    remote_operation = 0x14,
};

// ---------------------------------------------------------------- doorbell records

/// Doorbell record of a QP, SQ or RQ in host memory. Linux: MLX5_RCV_DBR = 0, MLX5_SND_DBR = 1.
struct QueueDoorbell {
    be32 receive; ///< RQ producer counter, 16 bits used
    be32 send;    ///< SQ producer index in WQEBBs, 16 bits used
};
static_assert(sizeof(QueueDoorbell) == 8);

/// Doorbell record of a CQ. Linux: MLX5_CQ_SET_CI = 0, MLX5_CQ_ARM_DB = 1.
struct CqDoorbell {
    be32 consumer; ///< consumer counter, 24 bits used
    be32 arm;      ///< events so far, modulo 4, << 28 | command << 24 | consumer counter
};
static_assert(sizeof(CqDoorbell) == 8);
inline constexpr uint32_t kCqArmSolicited = 1u << 24; ///< in `arm`: only for solicited completions
inline constexpr uint32_t kCqArmSequenceShift = 28;

} // namespace mlx5
