// SPDX-License-Identifier: BSD-3-Clause
// Common parts of the commands for send and receive queues.
#pragma once

#include "app/softhca/prm/descriptions.hpp"
#include "app/softhca/prm/firmware.hpp"

#include <optional>

namespace softhca::prm {

/// The Q counter in an RQ's context; 0: none.
[[nodiscard]] std::optional<core::Number> read_q_counter(Firmware& firmware, const Fields& context);
/// The transport domain of the TIS in an SQ's context; the TIS is added to what the SQ uses.
/// Without a TIS, the kernel's domain; empty: there is no such TIS.
[[nodiscard]] std::optional<core::Number> read_tis(Firmware& firmware, const Fields& context,
                                                   std::vector<Ref>& uses);
/// The end of CREATE_SQ: the SQ exists, and is destroyed again if there is no such rate.
[[nodiscard]] FwStatus add_sq(Firmware& firmware, Command& command, core::Number sqn,
                              std::vector<Ref> uses);

/// What QUERY_TIR says of a TIR that no command made.
[[nodiscard]] std::vector<uint8_t> tir_context(const core::TirAttr& attr);
/// Likewise QUERY_RQT, of a table without room for more than these.
[[nodiscard]] std::vector<uint8_t> rqt_context(const std::vector<core::Number>& rqns);
/// Likewise of queues (descriptions.cpp).
[[nodiscard]] std::vector<uint8_t> cq_context(const CqDescription& cq, core::Number eqn);
[[nodiscard]] std::vector<uint8_t> sq_context(const SqDescription& sq);
[[nodiscard]] std::vector<uint8_t> rq_context(const RqDescription& rq);
/// The context says of that part what the queue is now; commands may have changed others.
void update(std::vector<uint8_t>& context, const CqDescription& cq, CqPart part);
void update(std::vector<uint8_t>& context, const RqDescription& rq, RqPart part);

/// The RQ that receives the QP's messages: the device's side of a connected pair; 0: there is none.
[[nodiscard]] core::Number event_queue_of(Firmware& firmware, core::Number qp);

/// Object::detail of a sending virtio queue.
inline constexpr uint32_t kVirtqSends = 1;

// ---------------------------------------------------------------- hairpin queues

/// Where the context of an SQ or RQ says that it is a hairpin queue, and names its peer.
struct HairpinPlaces {
    Field hairpin, peer, vhca;
    Kind peer_kind;
};
inline constexpr HairpinPlaces kHairpinSq{PRM(sqc, hairpin), PRM(sqc, hairpin_peer_rq),
                                          PRM(sqc, hairpin_peer_vhca), Kind::rq};
inline constexpr HairpinPlaces kHairpinRq{PRM(rqc, hairpin), PRM(rqc, hairpin_peer_sq),
                                          PRM(rqc, hairpin_peer_vhca), Kind::sq};

[[nodiscard]] FwStatus create_hairpin_sq(Firmware& firmware, Command& command);
[[nodiscard]] FwStatus create_hairpin_rq(Firmware& firmware, Command& command);

/// A state change as requested by MODIFY_SQ or MODIFY_RQ.
struct StateChange {
    core::QueueState from, to;
    [[nodiscard]] bool begins() const {
        return from == core::QueueState::reset && to == core::QueueState::ready;
    }
};
/// The peer of a hairpin queue that is being started, from the command's context; number 0: there
/// is none to read. If the peer belongs to another function, that function stays while this lives.
struct ReadPeer {
    core::Number number = 0;
    FoundVhca other;
};
[[nodiscard]] FwStatus read_peer(Firmware& firmware, const HairpinPlaces& at, Object& queue,
                                 const StateChange& change, const Fields& context, ReadPeer& peer);
/// Makes QUERY_* report the peer from now on, until the queue is reset.
void keep_peer(const HairpinPlaces& at, Object& queue, const StateChange& change,
               const Fields& context);

} // namespace softhca::prm
