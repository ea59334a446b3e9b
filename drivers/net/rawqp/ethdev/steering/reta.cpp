// SPDX-License-Identifier: BSD-3-Clause
// Redirection table and hash configuration. A change is applied to the running port first and kept
// only if that succeeds.
#include "drivers/net/rawqp/ethdev/steering/reta.hpp"

#include "drivers/net/rawqp/ethdev/names.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"
#include "drivers/net/rawqp/ethdev/steering/ops.hpp"
#include "drivers/net/rawqp/ethdev/steering/port_filters.hpp"
#include "drivers/net/rawqp/ethdev/steering/rss.hpp"

#include <algorithm>
#include <bit>
#include <span>

namespace rawqp {
namespace {

int apply(Port& port, const RssState& wanted) {
    FilterState state = wanted_filters(port);
    state.key = wanted.key;
    state.rss_types = wanted.types;
    state.reta.assign(wanted.reta.begin(), wanted.reta.end());
    if (const Result<void> done = apply_filters(port, state); !done)
        return report(port.name, done.error());
    port.rss = wanted;
    return 0;
}

/// The key of a configuration, if it has one. Before DPDK 23.11, the length is for drivers that
/// know several; applications leave it at 0, and the others assume 40 bytes. Since then, ethdev
/// compares it with hash_key_size.
std::span<const uint8_t> key_of(const rte_eth_rss_conf& conf) {
    if (conf.rss_key == nullptr) return {};
    return {conf.rss_key, conf.rss_key_len != 0 ? conf.rss_key_len : kRssKeyBytes};
}

/// Takes over types, function and key; what the configuration leaves open stays as it was.
Result<void> take(const rte_eth_rss_conf& conf, uint64_t types, const RssHash& before,
                  RssState& rss) {
    const auto hash = hash_for(compat::rss_function(conf), types, key_of(conf), before);
    if (!hash) return fail(hash.error().code, "RSS: {}", hash.error().what);
    rss.key = hash->key;
    rss.symmetric = hash->symmetric;
    rss.types = types;
    return {};
}

template <class Each>
void for_each_entry(rte_eth_rss_reta_entry64* reta, uint16_t size, Each each) {
    for (uint16_t i = 0; i < size; ++i) {
        rte_eth_rss_reta_entry64& group = reta[i / RTE_ETH_RETA_GROUP_SIZE];
        const unsigned bit = i % RTE_ETH_RETA_GROUP_SIZE;
        if ((group.mask >> bit & 1) != 0) each(i, group.reta[bit]);
    }
}

} // namespace

uint16_t reta_size(const Port& port) {
    const uint32_t device = port.attributes.rss_caps.max_rwq_indirection_table_size;
    return static_cast<uint16_t>(std::bit_floor(std::min<uint32_t>(device, kRetaMax)));
}

Result<void> configure_rss(Port& port) {
    const rte_eth_conf& conf = port.dev->data->dev_conf;
    const uint16_t queues = port.dev->data->nb_rx_queues;
    const rte_eth_rss_conf& wanted = conf.rx_adv_conf.rss_conf;
    RssState rss = port.rss;
    if ((conf.rxmode.mq_mode & ~static_cast<unsigned>(RTE_ETH_MQ_RX_RSS_FLAG)) != 0)
        return fail(ENOTSUP, "Rx multi-queue mode {} is not supported: use none or rss",
                    mq_mode_names(conf.rxmode.mq_mode));
    const bool spread = (conf.rxmode.mq_mode & RTE_ETH_MQ_RX_RSS_FLAG) != 0;
    const uint64_t types = spread ? wanted.rss_hf & supported_rss_types() : 0;
    if (Result<void> done = take(wanted, types, {}, rss); !done) return done;

    const size_t entries = std::max<size_t>(reta_size(port), 1);
    const bool fits =
        rss.reta.size() == entries && std::all_of(rss.reta.begin(), rss.reta.end(),
                                                  [&](uint16_t queue) { return queue < queues; });
    if (!fits || port.rx_queues.size() != queues) {
        rss.reta.resize(entries);
        for (size_t i = 0; i < entries; ++i)
            rss.reta[i] = static_cast<uint16_t>(queues == 0 ? 0 : i % queues);
    }
    port.rss = rss;
    return {};
}

int reta_update(rte_eth_dev* dev, rte_eth_rss_reta_entry64* reta, uint16_t size) noexcept {
    Port& port = Port::of(dev);
    if (size != port.rss.reta.size())
        return report(port.name,
                      {EINVAL, fmt::format("a redirection table of {} entries was given: the "
                                           "port's has {}",
                                           size, port.rss.reta.size())});
    RssState wanted = port.rss;
    uint16_t worst = 0;
    for_each_entry(reta, size, [&](uint16_t i, uint16_t queue) {
        wanted.reta[i] = queue;
        worst = std::max(worst, queue);
    });
    if (worst >= dev->data->nb_rx_queues)
        return report(port.name,
                      {EINVAL, fmt::format("the redirection table names Rx queue {}: the port "
                                           "has {}",
                                           worst, dev->data->nb_rx_queues)});
    return apply(port, wanted);
}

int reta_query(rte_eth_dev* dev, rte_eth_rss_reta_entry64* reta, uint16_t size) noexcept {
    const RetaTable& table = SharedPort::of(dev).rss.reta;
    if (size != table.size()) return -EINVAL;
    for_each_entry(reta, size, [&](uint16_t i, uint16_t& queue) { queue = table[i]; });
    return 0;
}

int rss_hash_update(rte_eth_dev* dev, rte_eth_rss_conf* conf) noexcept {
    Port& port = Port::of(dev);
    if ((conf->rss_hf & ~supported_rss_types()) != 0)
        return report(port.name, {ENOTSUP, fmt::format("RSS types {} are not supported",
                                                       rss_type_names(conf->rss_hf &
                                                                      ~supported_rss_types()))});
    RssState wanted = port.rss;
    if (const Result<void> done = take(*conf, conf->rss_hf, {wanted.key, wanted.symmetric}, wanted);
        !done)
        return report(port.name, done.error());
    return apply(port, wanted);
}

int rss_hash_conf_get(rte_eth_dev* dev, rte_eth_rss_conf* conf) noexcept {
    const RssState& rss = SharedPort::of(dev).rss;
    conf->rss_hf = rss.types;
    compat::set_rss_function(*conf, rss.symmetric ? RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ
                                                  : RTE_ETH_HASH_FUNCTION_TOEPLITZ);
    // A caller that wants the types only may leave a buffer that is too short.
    if (conf->rss_key != nullptr && conf->rss_key_len >= rss.key.size())
        std::copy(rss.key.begin(), rss.key.end(), conf->rss_key);
    conf->rss_key_len = static_cast<uint8_t>(rss.key.size());
    return 0;
}

} // namespace rawqp
