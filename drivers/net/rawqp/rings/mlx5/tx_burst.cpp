// SPDX-License-Identifier: BSD-3-Clause
// The send bursts on mapped mlx5 rings: the options are chosen once per port.
#include "drivers/net/rawqp/rings/mlx5/isa.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_send.hpp"

#include <utility>

namespace rawqp::mlx5rings {
namespace {

/// The table: each field of TxOptions is a digit of the index.
constexpr size_t kVariants = 2 * 2 * 2 * 3 * 2 * 2;

constexpr TxOptions tx_options(size_t index) {
    const auto digit = [&index](size_t base) {
        const size_t value = index % base;
        index /= base;
        return value;
    };
    TxOptions options{};
    options.multi_segment = digit(2) != 0;
    options.offloads = digit(2) != 0;
    options.long_headers = digit(2) != 0;
    options.inlining = static_cast<Inlining>(digit(3));
    options.multi_packet = digit(2) != 0;
    options.fast_free = digit(2) != 0;
    return settled(options);
}

constexpr size_t index_of(const TxOptions& options) {
    size_t index = options.fast_free;
    index = index * 2 + options.multi_packet;
    index = index * 3 + static_cast<size_t>(options.inlining);
    index = index * 2 + options.long_headers;
    index = index * 2 + options.offloads;
    return index * 2 + options.multi_segment;
}

constexpr auto kBursts = []<size_t... I>(std::index_sequence<I...>) {
    return std::array{kBurst<tx_options(I)>...};
}
(std::make_index_sequence<kVariants>());

/// What packets may request individually.
constexpr uint64_t kPacketOffloads =
    RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM |
    RTE_ETH_TX_OFFLOAD_OUTER_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_VLAN_INSERT | kLongHeaders;

} // namespace

Burst<eth_tx_burst_t> tx_burst(const TxSpec& wanted) {
    TxSpec spec = wanted;
    tx_settle(spec);
    TxOptions options{};
    options.multi_segment = (spec.offloads & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
    options.offloads = (spec.offloads & kPacketOffloads) != 0;
    options.long_headers = (spec.offloads & kLongHeaders) != 0;
    const uint16_t min_inline = min_inline_bytes(spec);
    if (min_inline != 0) options.inlining = Inlining::header;
    if (spec.inline_bytes != 0 || min_inline > kInlineHeader) options.inlining = Inlining::packet;
    options.multi_packet = spec.multi_packet && min_inline == 0;
    options.fast_free = whole_packets_of_one_pool(spec.offloads);
    if ((spec.offloads & RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP) != 0)
        return tx_scheduled_burst(options.inlining, options.multi_packet);
    if (spec.metadata) return tx_metadata_burst(options.inlining, options.multi_packet);
#if defined(__x86_64__)
    if (options.multi_packet && options.inlining == Inlining::none &&
        avx2_allowed(spec.active_simd_bits))
        return tx_avx2_burst(options);
#endif
    return kBursts[index_of(options)];
}

} // namespace rawqp::mlx5rings
