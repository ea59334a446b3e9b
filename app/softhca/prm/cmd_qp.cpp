// SPDX-License-Identifier: BSD-3-Clause
// QPs with a transport. An Ethernet port's packets do not use them: mlx5_ib makes one at start, for
// UMR, and the state machine is all that it needs.
#include "app/softhca/prm/command_tools.hpp"

#include <algorithm>

namespace softhca::prm {
namespace {

// Apart from SQ and RQ numbers, which the core gives out from below.
constexpr core::Number kFirstQp = 0x800000, kLastQp = 0x80ffff;

enum State : uint8_t { kReset = 0, kInit = 1, kReadyToReceive = 2, kReadyToSend = 3, kError = 6 };

constexpr uint64_t kRegisterMemory = 0xc; // MLX5_QP_ST_REG_UMR

FwStatus create_qp(Firmware& firmware, Command& command) {
    const Fields context = command.input().at(PRM(create_qp_in, qpc));
    // RC, UC, UD …: nothing here would carry their packets.
    if (context.get(PRM(qpc, st)) != kRegisterMemory) return FwStatus::bad_parameter;
    const core::Number number = firmware.objects.new_number(Kind::qp, kFirstQp, kLastQp);
    std::vector<Ref> uses = {
        {Kind::uar, static_cast<core::Number>(context.get(PRM(qpc, uar_page)))}};
    if (const auto pd = context.get(PRM(qpc, pd)); pd != 0) // the QP for UMR has none
        uses.push_back({Kind::pd, static_cast<core::Number>(pd)});
    for (const auto cq : {context.get(PRM(qpc, cqn_snd)), context.get(PRM(qpc, cqn_rcv))})
        if (cq != 0) uses.push_back({Kind::cq, static_cast<core::Number>(cq)});
    if (number == 0) return FwStatus::exceeded_limit;
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;
    return add_object(firmware, command, Kind::qp, number,
                      {.context = context.copy(PRM_BYTES(qpc)), .uses = uses});
}

template <State kFrom, State kTo> FwStatus step(Firmware& firmware, Command& command) {
    Object* const qp = firmware.objects.find(Kind::qp, object_number(command));
    if (!qp) return FwStatus::bad_resource;
    if (qp->state != kFrom) return FwStatus::bad_resource_state;
    qp->state = kTo;
    return FwStatus::ok;
}

template <State kTo> FwStatus force(Firmware& firmware, Command& command) {
    Object* const qp = firmware.objects.find(Kind::qp, object_number(command));
    if (!qp) return FwStatus::bad_resource;
    qp->state = kTo;
    return FwStatus::ok;
}

FwStatus query_qp(Firmware& firmware, Command& command) {
    Object* const qp = firmware.objects.find(Kind::qp, object_number(command));
    const FwStatus status = answer_context(command, qp, PRM(query_qp_out, qpc));
    if (qp) command.output().at(PRM(query_qp_out, qpc)).set(PRM(qpc, state), qp->state);
    return status;
}

FwStatus destroy_qp(Firmware& firmware, Command& command) {
    return forget_object(firmware, Kind::qp, object_number(command));
}

} // namespace

void add_qp_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(CREATE_QP, create_qp, create_qp),
        PRM_COMMAND(RST2INIT_QP, rst2init_qp, (step<kReset, kInit>)),
        PRM_COMMAND(INIT2INIT_QP, init2init_qp, (step<kInit, kInit>)),
        PRM_COMMAND(INIT2RTR_QP, init2rtr_qp, (step<kInit, kReadyToReceive>)),
        PRM_COMMAND(RTR2RTS_QP, rtr2rts_qp, (step<kReadyToReceive, kReadyToSend>)),
        PRM_COMMAND(RTS2RTS_QP, rts2rts_qp, (step<kReadyToSend, kReadyToSend>)),
        PRM_COMMAND(2ERR_QP, qp_2err, force<kError>),
        PRM_COMMAND(2RST_QP, qp_2rst, force<kReset>),
        PRM_COMMAND(QUERY_QP, query_qp, query_qp),
        PRM_COMMAND(DESTROY_QP, destroy_qp, destroy_qp),
    });
}

} // namespace softhca::prm
