// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/rss.hpp"

#include "common/verbs/errno_text.hpp"
#include "drivers/net/rawqp/ethdev/names.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

namespace rawqp {

namespace {

constexpr uint64_t kIpv4Types =
    RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_FRAG_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_OTHER;
constexpr uint64_t kIpv6Types =
    RTE_ETH_RSS_IPV6 | RTE_ETH_RSS_IPV6_EX | RTE_ETH_RSS_FRAG_IPV6 | RTE_ETH_RSS_NONFRAG_IPV6_OTHER;
constexpr uint64_t kIpv6Whole = RTE_ETH_RSS_IPV6 | RTE_ETH_RSS_IPV6_EX;
constexpr uint64_t kIpv6Tcp = RTE_ETH_RSS_NONFRAG_IPV6_TCP | RTE_ETH_RSS_IPV6_TCP_EX;
constexpr uint64_t kIpv6Udp = RTE_ETH_RSS_NONFRAG_IPV6_UDP | RTE_ETH_RSS_IPV6_UDP_EX;
constexpr uint64_t kDirections = RTE_ETH_RSS_L3_SRC_ONLY | RTE_ETH_RSS_L3_DST_ONLY |
                                 RTE_ETH_RSS_L4_SRC_ONLY | RTE_ETH_RSS_L4_DST_ONLY;

/// Source and destination, or the one to which the types narrow the layer (asking for both "only"
/// bits is asking for both fields).
uint64_t pick(uint64_t types, uint64_t source_only, uint64_t destination_only, uint64_t source,
              uint64_t destination) {
    const bool only_source = types & source_only;
    const bool only_destination = types & destination_only;
    if (only_source && !only_destination) return source;
    if (only_destination && !only_source) return destination;
    return source | destination;
}

uint64_t l3_fields(uint64_t types, uint64_t source, uint64_t destination) {
    return pick(types, RTE_ETH_RSS_L3_SRC_ONLY, RTE_ETH_RSS_L3_DST_ONLY, source, destination);
}

uint64_t l4_fields(uint64_t types, uint64_t source, uint64_t destination) {
    return pick(types, RTE_ETH_RSS_L4_SRC_ONLY, RTE_ETH_RSS_L4_DST_ONLY, source, destination);
}

/// Whether the key makes a Toeplitz hash symmetric.
bool repeats(const RssKey& key) { return std::equal(key.begin() + 2, key.end(), key.begin()); }

} // namespace

uint64_t supported_rss_types() {
    return kIpv4Types | RTE_ETH_RSS_NONFRAG_IPV4_TCP | RTE_ETH_RSS_NONFRAG_IPV4_UDP | kIpv6Types |
           kIpv6Tcp | kIpv6Udp | kDirections;
}

uint64_t hash_fields_of(TrafficClass traffic, uint64_t rte_rss_types) {
    const uint64_t types = rte_rss_types;
    const uint64_t ipv4 = l3_fields(types, IBV_RX_HASH_SRC_IPV4, IBV_RX_HASH_DST_IPV4);
    const uint64_t ipv6 = l3_fields(types, IBV_RX_HASH_SRC_IPV6, IBV_RX_HASH_DST_IPV6);
    const uint64_t tcp = l4_fields(types, IBV_RX_HASH_SRC_PORT_TCP, IBV_RX_HASH_DST_PORT_TCP);
    const uint64_t udp = l4_fields(types, IBV_RX_HASH_SRC_PORT_UDP, IBV_RX_HASH_DST_PORT_UDP);
    // Packets with ports whose own type is not requested hash on their addresses, if the type that
    // stands for all of IP is requested.
    const uint64_t ipv4_whole = types & RTE_ETH_RSS_IPV4 ? ipv4 : 0;
    const uint64_t ipv6_whole = types & kIpv6Whole ? ipv6 : 0;

    switch (traffic) {
    case TrafficClass::other: return 0;
    case TrafficClass::ipv4: return types & kIpv4Types ? ipv4 : 0;
    case TrafficClass::ipv6: return types & kIpv6Types ? ipv6 : 0;
    case TrafficClass::ipv4_tcp:
        return types & RTE_ETH_RSS_NONFRAG_IPV4_TCP ? ipv4 | tcp : ipv4_whole;
    case TrafficClass::ipv4_udp:
        return types & RTE_ETH_RSS_NONFRAG_IPV4_UDP ? ipv4 | udp : ipv4_whole;
    case TrafficClass::ipv6_tcp: return types & kIpv6Tcp ? ipv6 | tcp : ipv6_whole;
    case TrafficClass::ipv6_udp: return types & kIpv6Udp ? ipv6 | udp : ipv6_whole;
    }
    return 0;
}

Result<RssHash> hash_for(rte_eth_hash_function function, uint64_t rte_rss_types,
                         std::span<const uint8_t> given, const RssHash& now) {
    if (function == kSymmetricSort)
        return fail(ENOTSUP,
                    "hash function symmetric_toeplitz_sort is not supported: the device sorts no "
                    "addresses and ports (what it hashes symmetrically by itself is their OR and "
                    "XOR): use symmetric_toeplitz");
    const bool symmetric = function == RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ;
    const bool any = function == RTE_ETH_HASH_FUNCTION_DEFAULT;
    if (!symmetric && !any && function != RTE_ETH_HASH_FUNCTION_TOEPLITZ)
        return fail(ENOTSUP,
                    "hash function {} is not supported: use toeplitz or symmetric_toeplitz",
                    hash_function_name(function));
    const bool of_both = (rte_rss_types & kDirections) == 0;
    if (symmetric && !of_both)
        return fail(EINVAL, "hash function symmetric_toeplitz takes source and destination: leave "
                            "out the types that take one of them");
    if (!given.empty() && given.size() != kRssKeyBytes)
        return fail(EINVAL, "a hash key has {} bytes, not {}", kRssKeyBytes, given.size());
    RssHash hash = now;
    if (!given.empty())
        std::ranges::copy(given, hash.key.begin());
    else if (symmetric && !repeats(hash.key))
        hash.key = kSymmetricRssKey;
    if (symmetric && !repeats(hash.key))
        return fail(ENOTSUP, "the device hashes symmetrically with a key that repeats its first "
                             "two bytes only, and this one does not: give such a key, or none");
    hash.symmetric = symmetric || (any && now.symmetric && of_both && repeats(hash.key));
    return hash;
}

namespace {
ibv_qp* create_plain_qp(const verbs::Api&, ibv_context* context, ibv_qp_init_attr_ex& attributes) {
    return verbs::create_qp_ex(context, attributes);
}
} // namespace

RssQps::RssQps(const verbs::Api& api, ibv_context* context, ibv_pd* pd, RxQueueSet& queues,
               CreateQp create_qp)
    : api_(api), context_(context), pd_(pd), queues_(queues),
      create_qp_(create_qp != nullptr ? create_qp : create_plain_qp) {}

RssTargetRef RssQps::target(const RssDestination& destination) {
    const auto at = targets_.find(destination);
    if (at != targets_.end()) return RssTargetRef::to(*at->second);
    RssTargetRef fresh = make_ref<RssTarget>(*this, destination);
    targets_.emplace(destination, fresh.get());
    return fresh;
}

RssTargetRef RssQps::target(uint16_t queue) {
    one_queue_.queues.front() = queue;
    return target(one_queue_);
}

Result<HashQp> RssQps::acquire(const RssTargetRef& target) {
    if (target->users == 0)
        if (Result<void> created = create(*target); !created)
            return tl::unexpected(std::move(created.error()));
    ++target->users;
    return HashQp(target);
}

Result<void> RssQps::check_queues(const RssTarget& target) const {
    for (const uint16_t queue : target.destination.queues) {
        if (queue >= queues_.count()) // it had more when the rule or its template was made
            return fail(EINVAL,
                        "there is no Rx queue {}: the port is configured with {}: configure it "
                        "with more, or leave the queue out of the rule and of its template",
                        queue, queues_.count());
        if (queues_.wq(queue) == nullptr)
            return fail(EINVAL, "Rx queue {} is not set up: call rte_eth_rx_queue_setup first",
                        queue);
    }
    return {};
}

Result<void> RssQps::create(RssTarget& target) {
    const RssDestination& destination = target.destination;
    if (!std::has_single_bit(destination.queues.size()))
        return fail(EINVAL, "an indirection table needs a power-of-two number of entries, not {}",
                    destination.queues.size());

    if (auto there = check_queues(target); !there) return there;
    std::vector<ibv_wq*> wqs;
    for (const uint16_t queue : destination.queues)
        wqs.push_back(queues_.wq(queue));

    ibv_rwq_ind_table_init_attr table{};
    table.log_ind_tbl_size = static_cast<uint32_t>(std::countr_zero(wqs.size()));
    table.ind_tbl = wqs.data();
    verbs::RwqIndTable made(ibv_create_rwq_ind_table(context_, &table),
                            {ibv_destroy_rwq_ind_table, "RSS indirection table"});
    if (!made) {
        const int error = errno;
        return fail(error, "cannot create an RSS indirection table of {} entries: {}", wqs.size(),
                    verbs::errno_text(error, verbs::Attempt::steer));
    }

    RssKey key = destination.key;
    ibv_qp_init_attr_ex qp{};
    qp.qp_type = IBV_QPT_RAW_PACKET;
    qp.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    qp.pd = pd_;
    qp.rwq_ind_tbl = made.get();
    qp.rx_hash_conf.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
    qp.rx_hash_conf.rx_hash_key_len = static_cast<uint8_t>(key.size());
    qp.rx_hash_conf.rx_hash_key = key.data();
    qp.rx_hash_conf.rx_hash_fields_mask = destination.hash_fields;
    target.qp = verbs::Qp(create_qp_(api_, context_, qp), {api_.destroy_qp, "hash QP"});
    if (!target.qp) {
        const int error = errno;
        const bool inner = (destination.hash_fields & IBV_RX_HASH_INNER) != 0;
        return fail(error, "cannot create a hash QP over {} entries (hash fields: {}): {}{}",
                    wqs.size(), hash_field_names(destination.hash_fields),
                    verbs::errno_text(error, verbs::Attempt::steer),
                    inner ? "; level 2 of action rss needs datapath=mlx5 and a device that hashes "
                            "what is in tunnels"
                          : "");
    }
    target.table = std::move(made);
    ++live_;
    return {};
}

void RssQps::release(RssTarget& target) {
    if (--target.users != 0) return;
    target.qp.reset();
    target.table.reset();
    --live_;
}

RssTarget::~RssTarget() { qps.targets_.erase(destination); }

void HashQp::release() { target_->qps.release(*target_); }

void RssQps::count_tunnel(const RssTarget& target, TunnelKind kind, bool comes) {
    for (const uint16_t queue : target.destination.queues) {
        if (tunnels_.size() <= queue) tunnels_.resize(queue + size_t{1});
        TunnelCounts& counts = tunnels_[queue];
        if (comes ? counts.add(kind) : counts.remove(kind))
            queues_.name_tunnels(queue, counts.type());
    }
}

TunnelUse::TunnelUse(const RssTargetRef& target, TunnelKind kind)
    : target_(kind != kNoTunnel ? target : nullptr), kind_(kind) {
    if (target_ && target_->tunnels.add(kind_)) target_->qps.count_tunnel(*target_, kind_, true);
}

void TunnelUse::forget() {
    if (target_->tunnels.remove(kind_)) target_->qps.count_tunnel(*target_, kind_, false);
}

} // namespace rawqp
