// SPDX-License-Identifier: BSD-3-Clause
// QPs with a transport. An Ethernet port's packets do not use them: mlx5_ib creates one at start,
// whose requests change memory keys (UMR). RC QPs connect only to themselves (force loopback),
// which is how programs write ICM; or in pairs, through which virtio queues report events: one
// without queues, which is the device's, and the program's, which has only an RQ.
#include "app/softhca/core/rings/mlx5/doorbells.hpp"
#include "app/softhca/prm/command_tools.hpp"
#include "app/softhca/prm/queues.hpp"
#include "app/softhca/prm/ring_memory.hpp"

#include <algorithm>

namespace softhca::prm {
namespace {

// No SQ or RQ, and so no RC QP, gets these from the core.
constexpr core::Number kFirstQp = 0x800000, kLastQp = 0x80ffff;
static_assert(kFirstQp > core::Limits::kMaxNumber);

enum State : uint8_t { kReset = 0, kInit = 1, kReadyToReceive = 2, kReadyToSend = 3, kError = 6 };

constexpr uint64_t kReliableConnected = 0x0;              // MLX5_QP_ST_RC
constexpr uint64_t kRegisterMemory = 0xc;                 // MLX5_QP_ST_REG_UMR
constexpr uint64_t kNonZeroRq = 0x0, kZeroLengthRq = 0x3; // MLX5_NON_ZERO_RQ, MLX5_ZERO_LEN_RQ

constexpr uint8_t kLogWqebb = 6;
constexpr uint8_t kLogSegment = 4; // of sizes that the context has in data segments

/// Object::detail.
enum class QpRole : uint32_t {
    umr,   ///< has an SQ, and no peer: its requests change memory keys
    loops, ///< has an SQ, and is its own peer
    tells, ///< the device's side of a pair …
    hears  ///< … and the program's, which has an RQ
};
QpRole role_of(const Object& qp) { return static_cast<QpRole>(qp.detail); }
bool has_sq(QpRole role) { return role == QpRole::umr || role == QpRole::loops; }

std::vector<Ref> uses_of(const Fields& context, bool has_queues = true) {
    std::vector<Ref> uses;
    if (has_queues)
        uses.push_back({Kind::uar, static_cast<core::Number>(context.get(PRM(qpc, uar_page)))});
    if (const auto pd = context.get(PRM(qpc, pd)); pd != 0) // that for UMR has none
        uses.push_back({Kind::pd, static_cast<core::Number>(pd)});
    for (const auto cq : {context.get(PRM(qpc, cqn_snd)), context.get(PRM(qpc, cqn_rcv))})
        if (cq != 0) uses.push_back({Kind::cq, static_cast<core::Number>(cq)});
    return uses;
}

FwStatus add_qp(Firmware& firmware, Command& command, core::Number number, const Fields& context,
                std::vector<Ref> uses, QpRole role) {
    return add_object(firmware, command, Kind::qp, number,
                      {.context = context.copy(PRM_BYTES(qpc)),
                       .uses = std::move(uses),
                       .detail = static_cast<uint32_t>(role)});
}

/// The device's side of a pair, which the core does not know.
FwStatus create_telling_qp(Firmware& firmware, Command& command, const Fields& context) {
    const core::Number number = firmware.objects.new_number(Kind::qp, kFirstQp, kLastQp);
    std::vector<Ref> uses = uses_of(context, false);
    if (number == 0) return FwStatus::exceeded_limit;
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;
    return add_qp(firmware, command, number, context, std::move(uses), QpRole::tells);
}

/// What the context says of the SQ of a QP.
core::SqAttr read_sq(Firmware& firmware, const Fields& context) {
    core::SqAttr attr;
    attr.cqn = static_cast<core::Number>(context.get(PRM(qpc, cqn_snd)));
    attr.log_wqebbs = static_cast<uint8_t>(context.get(PRM(qpc, log_sq_size)));
    attr.user_index = static_cast<uint32_t>(context.get(PRM(qpc, user_index)));
    attr.listener = firmware.listener();
    attr.cookie = kQueueTypeQp;
    return attr;
}

FwStatus add_sq_qp(Firmware& firmware, Command& command, const Fields& context,
                   const core::SqAttr& attr, std::vector<Ref> uses, QpRole role) {
    const auto number = firmware.device.create_sq(attr);
    if (!number) return to_firmware(number.error());
    return add_qp(firmware, command, *number, context, std::move(uses), role);
}

/// The driver's QP for UMR. Its ring is in pages that the command lists.
FwStatus create_umr_qp(Firmware& firmware, Command& command, const Fields& context) {
    if (command.uid != 0) return FwStatus::bad_parameter; // it changes the keys of all users
    if (context.get(PRM(qpc, rq_type)) != kZeroLengthRq) return FwStatus::bad_parameter;
    std::vector<Ref> uses = uses_of(context);
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;
    firmware.make_reserved_lkey(); // and with it, the PD of queues that name none
    core::SqAttr attr = read_sq(firmware, context);
    attr.changes_keys = attr.off_wire = true;
    attr.pd = firmware.pd_of(context.get(PRM(qpc, pd)));
    attr.registers =
        firmware.registers_of(static_cast<core::Number>(context.get(PRM(qpc, uar_page))));
    auto ring = ring_area(firmware, command, {},
                          {.at = PRM(create_qp_in, pas[0]).offset / 8,
                           .log_page = static_cast<uint8_t>(context.get(PRM(qpc, log_page_size))),
                           .page_offset = context.get(PRM(qpc, page_offset))},
                          uint64_t{1} << (attr.log_wqebbs + kLogWqebb), false);
    attr.doorbell = core::mlx5_rings::send_doorbell(doorbell_record<mlx5::QueueDoorbell>(
        firmware, {.offset = context.get(PRM(qpc, dbr_addr))}, false));
    if (!ring || !attr.doorbell) return FwStatus::bad_parameter;
    attr.ring = std::move(*ring);
    return add_sq_qp(firmware, command, context, attr, std::move(uses), QpRole::umr);
}

/// For a program's RC QP.
struct QpMemory {
    UmemPlace rings, record;
    std::vector<Ref> uses;
};
FwStatus read_memory(Firmware& firmware, Command& command, const Fields& context,
                     QpMemory& memory) {
    memory.record = {.valid = context.get(PRM(qpc, dbr_umem_valid)) != 0,
                     .id = static_cast<core::Number>(context.get(kQpRecordUmem)),
                     .offset = context.get(PRM(qpc, dbr_addr))};
    memory.rings = {.valid = command.input().get(PRM(create_qp_in, wq_umem_valid)) != 0,
                    .id = static_cast<core::Number>(command.input().get(kQpUmem))};
    // Rings in pages listed by the command belong to the kernel's driver, which does not use RC
    // here.
    if (!memory.rings.valid || !memory.record.valid) return FwStatus::bad_parameter;
    memory.uses = uses_of(context);
    add_use(memory.uses, memory.rings);
    add_use(memory.uses, memory.record);
    return firmware.objects.exist(memory.uses) ? FwStatus::ok : FwStatus::bad_resource;
}

/// The program's side of a pair.
FwStatus create_hearing_qp(Firmware& firmware, Command& command, const Fields& context) {
    QpMemory memory;
    if (const FwStatus status = read_memory(firmware, command, context, memory);
        status != FwStatus::ok)
        return status;
    core::RqAttr attr;
    attr.pd = static_cast<core::Number>(context.get(PRM(qpc, pd)));
    attr.cqn = static_cast<core::Number>(context.get(PRM(qpc, cqn_rcv)));
    attr.log_wqes = static_cast<uint8_t>(context.get(PRM(qpc, log_rq_size)));
    attr.log_wqe_bytes = static_cast<uint8_t>(context.get(PRM(qpc, log_rq_stride)) + kLogSegment);
    attr.user_index = static_cast<uint32_t>(context.get(PRM(qpc, user_index)));
    attr.listener = firmware.listener();
    attr.cookie = kQueueTypeQp;
    auto ring = umem_part(firmware, memory.rings,
                          uint64_t{1} << (attr.log_wqes + attr.log_wqe_bytes), false);
    attr.doorbell = core::mlx5_rings::receive_doorbell(
        doorbell_record<mlx5::QueueDoorbell>(firmware, memory.record, false));
    if (!ring || !attr.doorbell) return FwStatus::bad_parameter;
    attr.ring = std::move(*ring);
    const auto number = firmware.device.create_rq(attr);
    if (!number) return to_firmware(number.error());
    return add_qp(firmware, command, *number, context, std::move(memory.uses), QpRole::hears);
}

/// The send queue follows the receive queue, if the QP has one of its own. That stays empty: nobody
/// else sends to this QP.
FwStatus create_rc_qp(Firmware& firmware, Command& command, const Fields& context) {
    QpMemory memory;
    if (const FwStatus status = read_memory(firmware, command, context, memory);
        status != FwStatus::ok)
        return status;
    core::SqAttr attr = read_sq(firmware, context);
    attr.rc = true;
    attr.pd = static_cast<core::Number>(context.get(PRM(qpc, pd)));
    if (context.get(PRM(qpc, rq_type)) == kNonZeroRq)
        memory.rings.offset = uint64_t{1} << (context.get(PRM(qpc, log_rq_size)) +
                                              context.get(PRM(qpc, log_rq_stride)) + kLogSegment);
    auto ring =
        umem_part(firmware, memory.rings, uint64_t{1} << (attr.log_wqebbs + kLogWqebb), false);
    attr.doorbell = core::mlx5_rings::send_doorbell(
        doorbell_record<mlx5::QueueDoorbell>(firmware, memory.record, false));
    if (!ring || !attr.doorbell) return FwStatus::bad_parameter;
    attr.ring = std::move(*ring);
    return add_sq_qp(firmware, command, context, attr, std::move(memory.uses), QpRole::loops);
}

FwStatus create_reliable_qp(Firmware& firmware, Command& command, const Fields& context) {
    if (context.get(PRM(qpc, no_sq)) == 0) return create_rc_qp(firmware, command, context);
    switch (context.get(PRM(qpc, rq_type))) {
    case kNonZeroRq: return create_hearing_qp(firmware, command, context);
    case kZeroLengthRq: return create_telling_qp(firmware, command, context);
    default: return FwStatus::bad_parameter;
    }
}

FwStatus create_qp(Firmware& firmware, Command& command) {
    const Fields context = command.input().at(PRM(create_qp_in, qpc));
    for (const Field role :
         {PRM(qpc, cd_master), PRM(qpc, cd_slave_send), PRM(qpc, cd_slave_receive)})
        if (context.get(role) != 0) return FwStatus::bad_parameter; // SQs alone wait for each other
    switch (context.get(PRM(qpc, st))) {
    case kRegisterMemory: return create_umr_qp(firmware, command, context);
    case kReliableConnected: return create_reliable_qp(firmware, command, context);
    default: return FwStatus::bad_parameter; // UC, UD …: nothing here would carry their packets
    }
}

/// The QP's core objects follow its state.
FwStatus enter(Firmware& firmware, core::Number number, Object& qp, State to) {
    const QpRole role = role_of(qp);
    const bool sends = has_sq(role);
    if (role != QpRole::tells) {
        const bool ready = to == kReadyToSend || (!sends && to == kReadyToReceive);
        const auto state = ready          ? core::QueueState::ready
                           : to == kError ? core::QueueState::error
                                          : core::QueueState::reset;
        const auto current =
            sends ? firmware.device.query_sq(number) : firmware.device.query_rq(number);
        if (current && *current != state)
            if (const auto set = sends ? firmware.device.modify_sq(number, state)
                                       : firmware.device.modify_rq(number, state);
                !set)
                return to_firmware(set.error());
    }
    qp.state = to;
    return FwStatus::ok;
}

/// The QP's queue may have failed since the last command.
State state_of(const Firmware& firmware, core::Number number, const Object& qp) {
    const QpRole role = role_of(qp);
    const auto state = static_cast<State>(qp.state);
    if (role == QpRole::tells) return state;
    const auto queue =
        has_sq(role) ? firmware.device.query_sq(number) : firmware.device.query_rq(number);
    return queue == core::QueueState::error ? kError : state;
}

template <State kFrom, State kTo> FwStatus step(Firmware& firmware, Command& command) {
    const core::Number number = object_number(command);
    Object* const qp = firmware.objects.find(Kind::qp, number);
    if (!qp) return FwStatus::bad_resource;
    if (state_of(firmware, number, *qp) != kFrom) return FwStatus::bad_resource_state;
    return enter(firmware, number, *qp, kTo);
}

/// Whether an RC QP may have that peer: itself, or the other one of a pair.
bool may_connect(Firmware& firmware, core::Number number, const Object& qp, core::Number peer) {
    const QpRole role = role_of(qp);
    if (role == QpRole::umr) return true; // it has none, whatever the command says
    if (role == QpRole::loops) return peer == number;
    const Object* const other = firmware.objects.find(Kind::qp, peer);
    return other && role_of(*other) == (role == QpRole::tells ? QpRole::hears : QpRole::tells);
}

/// Gives an RC QP its peer.
FwStatus init_to_rtr(Firmware& firmware, Command& command) {
    const core::Number number = object_number(command);
    Object* const qp = firmware.objects.find(Kind::qp, number);
    const Fields context = command.input().at(PRM(init2rtr_qp_in, qpc));
    const auto peer = static_cast<core::Number>(context.get(PRM(qpc, remote_qpn)));
    if (qp && role_of(*qp) != QpRole::umr && !context.get(PRM(qpc, primary_address_path.fl)))
        return FwStatus::bad_parameter;
    if (qp && !may_connect(firmware, number, *qp, peer)) return FwStatus::bad_parameter;
    const FwStatus status = step<kInit, kReadyToReceive>(firmware, command);
    if (status == FwStatus::ok)
        Fields(qp->context.data(), qp->context.size()).set(PRM(qpc, remote_qpn), peer);
    return status;
}

template <State kTo> FwStatus force(Firmware& firmware, Command& command) {
    Object* const qp = firmware.objects.find(Kind::qp, object_number(command));
    if (!qp) return FwStatus::bad_resource;
    return enter(firmware, object_number(command), *qp, kTo);
}

FwStatus query_qp(Firmware& firmware, Command& command) {
    const core::Number number = object_number(command);
    const Object* const qp = firmware.objects.find(Kind::qp, number);
    const FwStatus status = answer_context(command, qp, PRM(query_qp_out, qpc));
    if (qp)
        command.output()
            .at(PRM(query_qp_out, qpc))
            .set(PRM(qpc, state), state_of(firmware, number, *qp));
    return status;
}

FwStatus destroy_qp(Firmware& firmware, Command& command) {
    const core::Number number = object_number(command);
    const Object* const qp = firmware.objects.find(Kind::qp, number);
    const QpRole role = qp ? role_of(*qp) : QpRole::tells;
    if (role == QpRole::tells) return forget_object(firmware, Kind::qp, number);
    return destroy_object(firmware, Kind::qp, number, [&](core::Number queue) {
        return has_sq(role) ? firmware.device.destroy_sq(queue) : firmware.device.destroy_rq(queue);
    });
}

} // namespace

core::Number event_queue_of(Firmware& firmware, core::Number number) {
    const Object* const qp = firmware.objects.find(Kind::qp, number);
    if (!qp || role_of(*qp) != QpRole::tells || qp->state != kReadyToSend) return 0;
    std::vector<uint8_t> context = qp->context;
    const auto peer =
        static_cast<core::Number>(Fields(context.data(), context.size()).get(PRM(qpc, remote_qpn)));
    const Object* const other = firmware.objects.find(Kind::qp, peer);
    return other && role_of(*other) == QpRole::hears ? peer : 0;
}

void add_qp_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(CREATE_QP, create_qp, create_qp),
        PRM_COMMAND(RST2INIT_QP, rst2init_qp, (step<kReset, kInit>)),
        PRM_COMMAND(INIT2INIT_QP, init2init_qp, (step<kInit, kInit>)),
        PRM_COMMAND(INIT2RTR_QP, init2rtr_qp, init_to_rtr),
        PRM_COMMAND(RTR2RTS_QP, rtr2rts_qp, (step<kReadyToReceive, kReadyToSend>)),
        PRM_COMMAND(RTS2RTS_QP, rts2rts_qp, (step<kReadyToSend, kReadyToSend>)),
        PRM_COMMAND(2ERR_QP, qp_2err, force<kError>),
        PRM_COMMAND(2RST_QP, qp_2rst, force<kReset>),
        PRM_COMMAND(QUERY_QP, query_qp, query_qp),
        PRM_COMMAND(DESTROY_QP, destroy_qp, destroy_qp),
    });
}

} // namespace softhca::prm
