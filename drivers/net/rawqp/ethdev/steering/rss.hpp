// SPDX-License-Identifier: BSD-3-Clause
// Hash QPs: the steering destinations that spread packets over Rx queues.
//
// The kernel allows one L3 and one L4 type in the hash of one RSS QP (mlx5_ib answers EINVAL to a
// mix), so "RSS on IPv4-TCP and IPv6" is a set of QPs, one per traffic class, and a rule is
// installed once per class. A QP without hash fields has an indirection table of one queue.
#pragma once

#include "common/result.hpp"
#include "common/verbs/handles.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/ethdev/ref.hpp"
#include "drivers/net/rawqp/ethdev/rss_state.hpp"
#include "drivers/net/rawqp/ethdev/steering/rx_queue_set.hpp"
#include "drivers/net/rawqp/ethdev/steering/tunnels.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace rawqp {

/// Kinds of packets, each hashed on one set of fields. Most specific last.
enum class TrafficClass : uint8_t { other, ipv4, ipv6, ipv4_tcp, ipv4_udp, ipv6_tcp, ipv6_udp };
inline constexpr std::array kTrafficClasses{
    TrafficClass::other,    TrafficClass::ipv4,     TrafficClass::ipv6,    TrafficClass::ipv4_tcp,
    TrafficClass::ipv4_udp, TrafficClass::ipv6_tcp, TrafficClass::ipv6_udp};

/// What to spread over: queue of each indirection entry (power-of-two length; a single entry means
/// one queue), hash key, and verbs hash fields (IBV_RX_HASH_*; 0: no hashing, first entry takes
/// all).
struct RssDestination {
    std::vector<uint16_t> queues;
    RssKey key = kDefaultRssKey;
    uint64_t hash_fields = 0;
    auto operator<=>(const RssDestination&) const = default;
};

/// Verbs hash fields for packets of `traffic` when the application asks for `rte_rss_types`
/// (RTE_ETH_RSS_*); 0 when that class is not to be hashed.
[[nodiscard]] uint64_t hash_fields_of(TrafficClass traffic, uint64_t rte_rss_types);
/// The RTE_ETH_RSS_* types that hash_fields_of understands.
[[nodiscard]] uint64_t supported_rss_types();

/// A Toeplitz hash.
struct RssHash {
    RssKey key = kDefaultRssKey;
    bool symmetric = false; ///< requested as such
};

/// symmetric_toeplitz_sort, which has a name since DPDK 23.11.
inline constexpr auto kSymmetricSort =
    static_cast<rte_eth_hash_function>(RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ + 1);

/// The hash for a function of ethdev and these types. The default function leaves the choice to the
/// driver; an empty key means that none was given, and the present one stays. Of the device's hash
/// functions verbs can only request Toeplitz: it is made symmetric by its key.
[[nodiscard]] Result<RssHash> hash_for(rte_eth_hash_function function, uint64_t rte_rss_types,
                                       std::span<const uint8_t> given, const RssHash& now);

class RssQps;

/// A destination and, while rules lead there, its hash QP. Equal destinations share one.
struct RssTarget {
    RssQps& qps; ///< which knows it
    RssDestination destination;
    verbs::RwqIndTable table{};
    verbs::Qp qp{}; ///< destroyed before the table that it refers to
    size_t users = 0;
    TunnelCounts tunnels{}; ///< of the rules that lead there

    RssTarget(RssQps& known_by, const RssDestination& to) : qps(known_by), destination(to) {}
    RssTarget(const RssTarget&) = delete;
    RssTarget& operator=(const RssTarget&) = delete;
    ~RssTarget();
};
using RssTargetRef = Ref<RssTarget>;

/// A share of a target's QP, or none; the last one to go destroys the QP.
class HashQp {
  public:
    HashQp() = default;
    HashQp(HashQp&&) = default;
    HashQp& operator=(HashQp&& other) noexcept {
        std::swap(target_, other.target_);
        return *this;
    }
    ~HashQp() {
        if (target_) release();
    }
    [[nodiscard]] ibv_qp* get() const { return target_ ? target_->qp.get() : nullptr; }

  private:
    friend class RssQps;
    explicit HashQp(RssTargetRef target) : target_(std::move(target)) {}
    void release();

    RssTargetRef target_;
};

/// While this lives, a rule leads packets of some tunnels to a target's queues.
class TunnelUse {
  public:
    TunnelUse() = default;
    TunnelUse(const RssTargetRef& target, TunnelKind kind);
    TunnelUse(TunnelUse&&) = default;
    TunnelUse& operator=(TunnelUse&& other) noexcept {
        std::swap(target_, other.target_);
        std::swap(kind_, other.kind_);
        return *this;
    }
    ~TunnelUse() {
        if (target_) forget();
    }

  private:
    void forget();

    RssTargetRef target_;
    TunnelKind kind_ = kNoTunnel;
};

/// Hash QPs and indirection tables by destination. Outlives its targets. Control threads only.
class RssQps {
  public:
    /// Null with errno on failure; see RingFormat::rx_hash_qp.
    using CreateQp = ibv_qp* (*)(const verbs::Api& api, ibv_context* context,
                                 ibv_qp_init_attr_ex& attributes);
    RssQps(const verbs::Api& api, ibv_context* context, ibv_pd* pd, RxQueueSet& queues,
           CreateQp create_qp = nullptr);

    /// The target with this value; the device is not asked.
    [[nodiscard]] RssTargetRef target(const RssDestination& destination);
    /// The target that sends all packets to one queue.
    [[nodiscard]] RssTargetRef target(uint16_t queue);
    /// Checks that its queues exist; the error names one that does not.
    [[nodiscard]] Result<void> check_queues(const RssTarget& target) const;
    /// Its QP, created by the first user.
    [[nodiscard]] Result<HashQp> acquire(const RssTargetRef& target);
    /// Number of live hash QPs (for leak checks).
    [[nodiscard]] size_t size() const { return live_; }
    [[nodiscard]] ibv_context* context() const { return context_; }
    [[nodiscard]] const RxQueueSet& queues() const { return queues_; }

  private:
    friend HashQp;
    friend RssTarget;
    friend TunnelUse;
    void release(RssTarget& target);
    void count_tunnel(const RssTarget& target, TunnelKind kind, bool comes);
    Result<void> create(RssTarget& target);

    const verbs::Api& api_;
    ibv_context* context_;
    ibv_pd* pd_;
    RxQueueSet& queues_;
    CreateQp create_qp_;
    std::vector<TunnelCounts> tunnels_;                ///< by queue: of the targets that include it
    std::map<RssDestination, RssTarget*> targets_;     ///< the existing ones
    RssDestination one_queue_{{0}, kDefaultRssKey, 0}; ///< to look for
    size_t live_ = 0;
};

} // namespace rawqp
