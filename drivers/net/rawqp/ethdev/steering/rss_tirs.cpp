// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/rss_tirs.hpp"

#include "drivers/net/rawqp/ethdev/devx/lro.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rawqp {
namespace {

/// rx_hash_field_select of the PRM for hash fields of verbs.
uint32_t field_select(uint64_t fields) {
    struct Selected {
        uint64_t fields;
        uint32_t bit;
    };
    constexpr Selected kBits[] = {
        {IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6, 1u << 31},
        {IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP, 1u << 30},
        {IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_SRC_IPV6, 1u << 0},
        {IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_DST_IPV6, 1u << 1},
        {IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_SRC_PORT_UDP, 1u << 2},
        {IBV_RX_HASH_DST_PORT_TCP | IBV_RX_HASH_DST_PORT_UDP, 1u << 3},
    };
    uint32_t select = 0;
    for (const Selected& each : kBits)
        if ((fields & each.fields) != 0) select |= each.bit;
    return select;
}

/// Such TIRs replace hash QPs, which look into tunnels where the device can.
void add_lro(const LroTerms& terms, prm::CreateTirIn& in) {
    in.lro = uint32_t{terms.period} << prm::kLroPeriodShift | prm::kLroIpv4 | prm::kLroIpv6 |
             terms.units;
    if (terms.tunnels) in.table = in.table | prm::kTunneledOffload;
}

} // namespace

const RssTir* RssTirs::acquire(PartRef& use, const RssDestination& destination) {
    return tirs_.acquire(use, destination, [this](const RssDestination& of) { return make(of); });
}

DevxObject RssTirs::make_table(const RssDestination& destination) {
    const size_t entries = destination.queues.size();
    prm::CreateRqtIn in{};
    in.head.opcode = static_cast<uint16_t>(prm::Opcode::create_rqt);
    in.most = in.entries = static_cast<uint32_t>(entries);
    std::vector<uint8_t> command(sizeof in + entries * sizeof(net::be32));
    std::memcpy(command.data(), &in, sizeof in);
    for (size_t i = 0; i < entries; ++i)
        net::store_be(&command[sizeof in + i * sizeof(net::be32)],
                      queues_.wq(destination.queues[i])->wq_num);
    DevxObject made = devx_.make_raw(command, "RSS indirection table");
    made.number &= prm::kNarrow;
    return made;
}

RssTir RssTirs::make(const RssDestination& destination) {
    RssTir made;
    for (const uint16_t queue : destination.queues)
        if (queues_.wq(queue) == nullptr) {
            errno = EINVAL;
            return made;
        }
    if (!domain_) domain_ = devx_.make(prm::AllocTransportDomainIn{}, "transport domain");
    if (!domain_) return made;
    prm::CreateTirIn in{};
    in.domain = domain_.number;
    if (destination.hash_fields == 0) {
        in.inline_rq = queues_.wq(destination.queues.front())->wq_num;
    } else {
        made.table = make_table(destination);
        if (!made.table) return made;
        const bool inner = (destination.hash_fields & IBV_RX_HASH_INNER) != 0;
        in.dispatch = prm::kIndirect;
        in.table = made.table.number | (inner ? prm::kTunneledOffload : 0);
        in.domain = domain_.number | prm::kToeplitz;
        std::ranges::copy(destination.key, in.key);
        (inner ? in.inner_fields : in.outer_fields) =
            field_select(destination.hash_fields & ~uint64_t{IBV_RX_HASH_INNER});
    }
    if (lro_) add_lro(*lro_, in);
    made.tir = devx_.make(in, "TIR");
    return made;
}

} // namespace rawqp
