// SPDX-License-Identifier: BSD-3-Clause
// The options that receive bursts are chosen by, and the table of an instruction set's bursts.
#pragma once

#include "drivers/net/rawqp/rings/burst_name.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_burst.hpp"

namespace rawqp::mlx5rings {
namespace {

enum class Stamps : uint8_t { none, ticks, real_time };

struct RxOptions {
    bool scattered = false; ///< packets over several mbufs
    bool offloads = false;  ///< checksum, VLAN or hash wanted
    bool crc = false;       ///< may be kept after the packet
    Stamps stamps = Stamps::none;
    bool mark = false; ///< rte_flow marks in use
    bool lro = false;  ///< packets may be several TCP segments
};

/// See RxRing::tell_all.
constexpr RxOptions telling_all(RxOptions options) {
    options.offloads = true;
    options.mark = true;
    return options;
}

/// The options of a variant.
constexpr RxOptions rx_options(RxVariant variant, bool scattered) {
    RxOptions options;
    options.scattered = scattered;
    options.offloads = variant >= RxVariant::offloads;
    options.crc = variant >= RxVariant::crc && variant != RxVariant::lro;
    if (variant == RxVariant::ticks) options.stamps = Stamps::ticks;
    if (variant == RxVariant::real_time) options.stamps = Stamps::real_time;
    options.lro = variant == RxVariant::lro;
    return options;
}

template <class Queue, RxOptions O>
constexpr BurstName kBurstName = burst_name(Queue::kName,
                                            {{O.scattered, "scattered"},
                                             {O.offloads, "offloads"},
                                             {O.crc, "CRC"},
                                             {O.stamps == Stamps::ticks, "time stamps"},
                                             {O.stamps == Stamps::real_time, "real-time stamps"},
                                             {O.lro, "LRO"}});

template <class Queue, RxOptions O> constexpr Burst<eth_rx_burst_t> make_burst() {
    return {Queue::template kReceive<O>, kBurstName<Queue, O>.data()};
}

/// By RxVariant, except LRO. A kind of queue has kName, the text of burst_mode_get, and
/// kReceive<O>, the burst.
template <class Queue, bool Scattered>
constexpr Burst<eth_rx_burst_t> kBursts[] = {
    make_burst<Queue, rx_options(RxVariant::plain, Scattered)>(),
    make_burst<Queue, rx_options(RxVariant::offloads, Scattered)>(),
    make_burst<Queue, rx_options(RxVariant::crc, Scattered)>(),
    make_burst<Queue, rx_options(RxVariant::ticks, Scattered)>(),
    make_burst<Queue, rx_options(RxVariant::real_time, Scattered)>(),
};

/// Those of RxVariant::lro, by whether packets are scattered.
template <class Queue>
constexpr Burst<eth_rx_burst_t> kLroBursts[] = {
    make_burst<Queue, rx_options(RxVariant::lro, false)>(),
    make_burst<Queue, rx_options(RxVariant::lro, true)>(),
};

} // namespace
} // namespace rawqp::mlx5rings
