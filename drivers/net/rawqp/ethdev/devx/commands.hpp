// SPDX-License-Identifier: BSD-3-Clause
// Firmware commands by which a process makes its own objects (DevX), as the PRM lays them out
// (Linux: <linux/mlx5/mlx5_ifc.h>, mlx5_ifc_*_bits). Answers start with their status.
#pragma once

#include "common/net/endian.hpp"

#include <cstddef>
#include <cstdint>

namespace rawqp::prm {

using net::be16;
using net::be32;
using net::be64;

enum class Opcode : uint16_t {
    query_hca_cap = 0x100,
    alloc_q_counter = 0x771,
    query_q_counter = 0x773,
    alloc_transport_domain = 0x816,
    create_tir = 0x900,
    modify_rq = 0x909,
    create_rqt = 0x916,
    create_flow_table = 0x930,
    create_flow_group = 0x933,
    set_flow_table_entry = 0x936,
    alloc_flow_counter = 0x939,
    query_flow_counter = 0x93b,
    alloc_packet_reformat_context = 0x93d,
    alloc_modify_header_context = 0x940,
    create_general_object = 0xa00,
    access_register_user = 0xb0c,
};

struct CommandHead {
    be16 opcode;
    be16 uid; ///< the kernel fills it in
    be16 reserved;
    be16 op_mod;
};
static_assert(sizeof(CommandHead) == 8);

struct AnswerHead {
    uint8_t status; ///< 0: done
    uint8_t reserved[3];
    be32 syndrome;
};
static_assert(sizeof(AnswerHead) == 8);

/// Most objects have 24-bit numbers. The bits above them in the answer are something else.
inline constexpr uint32_t kNarrow = 0xffffff, kWide = 0xffffffff, kByte = 0xff;

/// The answer to a command that makes an object.
struct NumberOut {
    AnswerHead head;
    be32 number;
    be32 reserved;
};
static_assert(sizeof(NumberOut) == 16);

/// Queries the device's capabilities of one kind.
struct QueryCapIn {
    static constexpr Opcode kOpcode = Opcode::query_hca_cap;
    CommandHead head; ///< capability_now
    be64 reserved;
};
static_assert(sizeof(QueryCapIn) == 16);
/// op_mod for the present values of a kind (MLX5_CAP_*, HCA_CAP_OPMOD_GET_CUR).
constexpr uint16_t capability_now(uint16_t kind) { return static_cast<uint16_t>(kind << 1 | 1); }

struct AllocFlowCounterIn {
    static constexpr Opcode kOpcode = Opcode::alloc_flow_counter;
    static constexpr uint32_t kNumber = kWide;
    CommandHead head;
    be32 reserved;
    be32 bulk; ///< 0: one counter
};
static_assert(sizeof(AllocFlowCounterIn) == 16);

struct QueryFlowCounterIn {
    static constexpr Opcode kOpcode = Opcode::query_flow_counter;
    CommandHead head;
    be32 reserved[4];
    be32 clear_and_count; ///< 0: one counter, which keeps counting
    be32 counter;
};
static_assert(sizeof(QueryFlowCounterIn) == 32 && offsetof(QueryFlowCounterIn, counter) == 28);

struct QueryFlowCounterOut {
    AnswerHead head;
    be64 reserved;
    be64 packets;
    be64 bytes;
};
static_assert(sizeof(QueryFlowCounterOut) == 32);

// ---------------------------------------------------------------- Q counters

struct AllocQCounterIn {
    static constexpr Opcode kOpcode = Opcode::alloc_q_counter;
    static constexpr uint32_t kNumber = kByte;
    CommandHead head;
    be64 reserved;
};
static_assert(sizeof(AllocQCounterIn) == 16);

struct QueryQCounterIn {
    static constexpr Opcode kOpcode = Opcode::query_q_counter;
    CommandHead head;
    be32 reserved[4];
    be32 clear;
    be32 counter;
};
static_assert(sizeof(QueryQCounterIn) == 32 && offsetof(QueryQCounterIn, counter) == 28);

struct QueryQCounterOut {
    AnswerHead head;
    be32 of_requests[10];
    be32 out_of_buffer; ///< packets for which an RQ had no WQE
    be32 of_connections[51];
};
static_assert(sizeof(QueryQCounterOut) == 256 && offsetof(QueryQCounterOut, out_of_buffer) == 48);

/// The RQ of a verbs WQ.
struct ModifyRqIn {
    static constexpr Opcode kOpcode = Opcode::modify_rq;
    CommandHead head;
    be32 state_and_rq; ///< the state that it is in, kReady, and its number
    be32 reserved;
    be64 fields; ///< fields of the context to change: kCounterSetId
    be64 reserved_2;
    // rqc
    be32 state; ///< to go to
    be32 reserved_3[2];
    be32 counter_set_id; ///< << 24
    be32 reserved_4[8];
    be32 wq[48];
};
static_assert(sizeof(ModifyRqIn) == 272 && offsetof(ModifyRqIn, counter_set_id) == 44);
inline constexpr uint32_t kReady = 1;
inline constexpr uint64_t kCounterSetId = 1 << 3; // MLX5_MODIFY_RQ_IN_MODIFY_BITMASK_*

// ---------------------------------------------------------------- TIRs

struct AllocTransportDomainIn {
    static constexpr Opcode kOpcode = Opcode::alloc_transport_domain;
    static constexpr uint32_t kNumber = kNarrow;
    CommandHead head;
    be64 reserved;
};
static_assert(sizeof(AllocTransportDomainIn) == 16);

/// Numbers of RQs follow, four bytes each.
struct CreateRqtIn {
    CommandHead head;
    be64 reserved[3];
    // rqtc
    be32 reserved_2[5];
    be32 most;
    be32 entries;
    be32 reserved_3[53];
};
static_assert(sizeof(CreateRqtIn) == 272 && offsetof(CreateRqtIn, most) == 52);

struct CreateTirIn {
    static constexpr Opcode kOpcode = Opcode::create_tir;
    static constexpr uint32_t kNumber = kNarrow;
    CommandHead head;
    be64 reserved[3];
    // tirc
    be32 reserved_2;
    be32 dispatch; ///< 0: to the inline RQ; or kIndirect
    be32 reserved_3[2];
    be32 lro; ///< see lro.hpp; 0: packets stay as they are
    be32 reserved_4[2];
    be32 inline_rq;
    be32 table;  ///< | kTunneledOffload
    be32 domain; ///< | kToeplitz
    uint8_t key[40];
    be32 outer_fields;
    be32 inner_fields;
    be32 reserved_5[38];
};
static_assert(sizeof(CreateTirIn) == 272 && offsetof(CreateTirIn, inline_rq) == 60);
static_assert(offsetof(CreateTirIn, lro) == 32 + 0x80 / 8);
static_assert(offsetof(CreateTirIn, key) == 72 && offsetof(CreateTirIn, outer_fields) == 112);
inline constexpr uint32_t kIndirect = 1u << 28, kTunneledOffload = 1u << 29, kToeplitz = 2u << 28;

// ---------------------------------------------------------------- flow tables

/// table_type: fs_flow_table_type of Linux, in the first byte.
struct CreateFlowTableIn {
    static constexpr Opcode kOpcode = Opcode::create_flow_table;
    static constexpr uint32_t kNumber = kNarrow;
    CommandHead head;
    be64 vport;
    be32 table_type;
    be32 reserved;
    be32 context; ///< flags, level << 16, log of the size; misses are dropped, or sent
    be32 miss_table;
    be32 reserved_too[8];
};
static_assert(sizeof(CreateFlowTableIn) == 64 && offsetof(CreateFlowTableIn, context) == 24);
inline constexpr uint32_t kReformatEnabled = 1u << 31, kDecapEnabled = 1u << 30;

inline constexpr size_t kMatchBytes = 512; ///< of fte_match_param

/// Entries first … last of a table, with one mask.
struct CreateFlowGroupIn {
    static constexpr Opcode kOpcode = Opcode::create_flow_group;
    static constexpr uint32_t kNumber = kNarrow;
    CommandHead head;
    be64 vport;
    be32 table_type;
    be32 table;
    be32 reserved;
    be32 first;
    be32 reserved_2;
    be32 last;
    be32 reserved_3[5];
    be32 criteria; ///< blocks of the mask, one bit each
    uint8_t mask[kMatchBytes];
    uint8_t reserved_4[448];
};
static_assert(sizeof(CreateFlowGroupIn) == 1024 && offsetof(CreateFlowGroupIn, last) == 36);
static_assert(offsetof(CreateFlowGroupIn, criteria) == 60);

/// What an entry makes an ASO object do.
struct ExecuteAso {
    be32 object; ///< kAsoValid | number
    /// Register << 28 | kAsoMeter | color before << 1 | which of the object's meters.
    be32 control;
};
static_assert(sizeof(ExecuteAso) == 8);
inline constexpr uint32_t kAsoValid = 1u << 31, kAsoMeter = 2u << 24, kAsoGreen = 2u << 1;

struct SetFteIn {
    static constexpr Opcode kOpcode = Opcode::set_flow_table_entry;
    /// Destinations come first, then counters.
    struct Listed {
        be32 word; ///< type << 24 | number; a counter's number alone
        be32 reserved;
    };
    CommandHead head;
    be64 vport;
    be32 table_type;
    be32 table;
    be32 flags; ///< kAnyLevel
    be32 reserved_0;
    be32 index;
    be32 reserved[7];
    // flow_context
    be32 push_vlan; ///< TPID and TCI
    be32 group;
    be32 tag;
    be32 actions; ///< kAllow …
    be32 destination_count;
    be32 counter_count;
    be32 reformat;
    be32 modify_header;
    be32 reserved_2[8];
    uint8_t value[kMatchBytes];
    ExecuteAso aso[4];
    uint8_t reserved_3[160];
    Listed list[2];
};
static_assert(offsetof(SetFteIn, index) == 32 && offsetof(SetFteIn, push_vlan) == 64);
static_assert(offsetof(SetFteIn, value) == 128 && offsetof(SetFteIn, list) == 832);
static_assert(offsetof(SetFteIn, aso) == 640);
inline constexpr uint32_t kAnyLevel = 1u << 31; ///< the entry may lead to a table of a lower level

// Bits of SetFteIn::actions (Linux: MLX5_FLOW_CONTEXT_ACTION_*).
inline constexpr uint32_t kAllow = 0x1, kDrop = 0x2, kForward = 0x4, kCount = 0x8, kReformat = 0x10,
                          kDecap = 0x20, kModifyHeader = 0x40, kPopVlan = 0x80, kPushVlan = 0x100,
                          kExecuteAso = 0x4000;
/// MLX5_IFC_FLOW_DESTINATION_TYPE_*
inline constexpr uint32_t kToTable = 1, kToTir = 2, kToSampler = 6;

/// The type of general objects is in the head. Tables are named by 24 bits.
struct CreateSamplerIn {
    static constexpr Opcode kOpcode = Opcode::create_general_object;
    static constexpr uint32_t kNumber = kWide;
    CommandHead head;
    be32 reserved[2];
    // sampler_obj
    be32 modified[2];
    be32 type_and_level; ///< table type << 24 | level << 16 | kIgnoreLevel
    be32 ratio;
    be32 copies; ///< table of those packets that are sampled
    be32 all;    ///< table to which all packets go on
    be32 reserved_2[9];
};
static_assert(sizeof(CreateSamplerIn) == 76 && offsetof(CreateSamplerIn, type_and_level) == 24);
inline constexpr uint16_t kSamplerType = 0x20; ///< MLX5_GENERAL_OBJECT_TYPES_SAMPLER
inline constexpr uint32_t kIgnoreLevel = 1;    ///< it may lead to tables of any level

/// Commands of eight bytes each follow.
struct AllocModifyHeaderIn {
    CommandHead head;
    be32 reserved;
    be32 type_and_count; ///< table type << 24 | number of commands
};
static_assert(sizeof(AllocModifyHeaderIn) == 16);

/// The header follows after kReformatDataAt bytes.
struct AllocPacketReformatIn {
    CommandHead head;
    be32 reserved[5];
    be32 type_and_size; ///< kind << 24 | bytes of the header
    be32 parameters;
};
static_assert(sizeof(AllocPacketReformatIn) == 36);
inline constexpr size_t kReformatDataAt = 34;
inline constexpr uint32_t kL2ToL2Tunnel = 2, kL3TunnelToL2 = 3, kL2ToL3Tunnel = 4;

} // namespace rawqp::prm
