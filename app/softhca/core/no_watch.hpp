// SPDX-License-Identifier: BSD-3-Clause
// What the data path reports of itself when nobody watches: nothing. The data path is compiled
// twice, with NoWatch and with Watch (watch.hpp), the latter for devices that have observers
// (Device::add_observer). So a packet's path is reported by the very code that decides it, and
// costs nothing otherwise. Both are passed by value; this one takes no register.
#pragma once

#include "app/softhca/core/types.hpp"

#include <cstdint>
#include <span>
#include <sys/uio.h>

namespace softhca::core {

class Packet;
class RuleTable;
enum class ReceiveFault : uint8_t;
enum class SendFault : uint8_t;
struct FlowActions;
struct FlowGroup;
struct FlowTable;
struct Metering;
struct Rq;
struct Rule;
struct Sampler;
struct SendRequest;
struct Sq;
struct Target;
struct Tir;
namespace ste {
struct Destination;
struct Entry;
} // namespace ste

struct NoWatch {
    void begin_received(std::span<const iovec>, uint32_t, bool) const {}
    void end_received(bool) const {}
    void begin_sent(const Sq&, const SendRequest&, std::span<const iovec>, uint32_t) const {}
    void begin_sent_by_kernel(std::span<const iovec>, uint32_t) const {}
    void begin_hairpin(const Sq&, std::span<const iovec>, uint32_t) const {}
    void end_hairpin() const {}
    void cancel_sent() const {}
    void end_sent() const {}
    void completed(const Sq&, uint16_t, bool, bool) const {}
    void failed(const Sq&, SendFault, CompletionError) const {}
    void leaves(const Sq&) const {}
    void used(const Sq&) const {}
    void routed(bool, bool) const {}
    void abandoned() const {}

    void asked(FlowDomain, const RuleTable&, const FlowKey&, const Rule*) const {}
    void asked(const FlowTable&, const FlowGroup&, const FlowKey&, const Rule*) const {}
    void missed(const FlowTable&) const {}
    void walks(const FlowTable&) const {}
    void no_entry(uint64_t) const {}
    void compared(uint64_t, const ste::Entry&, std::span<const std::byte>, bool) const {}
    void arrived(const ste::Destination&) const {}
    void follows(const FlowActions&) const {}
    void changed(const Packet&) const {}
    void sampled(const Sampler&, bool) const {}
    void metered(const Metering&, Color) const {}
    void visited_too_many() const {}
    void for_kernel() const {}
    void sniffed() const {}

    void deaf(const Tir&) const {}
    void targeted(const Tir&, const Target&) const {}
    void not_ready(const Rq&) const {}
    void no_room(const Rq&) const {}
    void failed(const Rq&, ReceiveFault) const {}
    void overrun(const Rq&) const {}
    void placed(const Rq&, uint32_t, uint32_t) const {}
    void passed_on(const Rq&, uint32_t) const {}
    void chained(const Rq&, uint32_t) const {}
    void misplaced(const Rq&) const {}
    void coalesced(const Rq&) const {}
    void session_ends(const Rq&) const {}
};

} // namespace softhca::core
