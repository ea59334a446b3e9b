// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/ethtool_counters.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace softhca::uverbs {

std::array<NamedCounter, kEthtoolCounters> ethtool_counters(const core::PortCounters& port,
                                                            const core::FrameCounters& frames) {
    const std::array of_port{
        NamedCounter{"rx_packets_phy", port.wire_rx_packets},
        NamedCounter{"rx_bytes_phy", port.wire_rx_bytes},
        NamedCounter{"tx_packets_phy", port.wire_tx_packets},
        NamedCounter{"tx_bytes_phy", port.wire_tx_bytes},
        NamedCounter{"rx_out_of_buffer", port.drop_out_of_buffer},
        NamedCounter{"rx_steer_missed_packets", port.drop_no_match},
        NamedCounter{"rx_oversize_pkts_phy", port.drop_oversize},
        NamedCounter{"rx_undersize_pkts_phy", port.drop_undersize},
        NamedCounter{"tx_discards_phy", port.drop_tx_wire},
        NamedCounter{"tx_errors_phy", port.tx_error_wqes},
        NamedCounter{"link_down_events_phy", port.link_downs},
    };
    std::array<NamedCounter, kEthtoolCounters> counters;
    static_assert(of_port.size() + core::kFrameSizeEnds.size() + 4 * core::kPriorities ==
                  counters.size());
    auto to = std::ranges::copy(of_port, counters.begin()).out;
    uint32_t first = core::kFrameSizeEnds.front();
    for (size_t i = 0; i < core::kFrameSizeEnds.size(); i++) {
        const uint32_t last = core::kFrameSizeEnds[i];
        *to++ = {first == last ? fmt::format("rx_{}_bytes_phy", last)
                               : fmt::format("rx_{}_to_{}_bytes_phy", first, last),
                 frames.rx_sizes[i]};
        first = last + 1;
    }
    for (size_t i = 0; i < core::kPriorities; i++) {
        *to++ = {fmt::format("rx_prio{}_bytes", i), frames.rx_priorities[i].bytes};
        *to++ = {fmt::format("rx_prio{}_packets", i), frames.rx_priorities[i].packets};
        *to++ = {fmt::format("tx_prio{}_bytes", i), frames.tx_priorities[i].bytes};
        *to++ = {fmt::format("tx_prio{}_packets", i), frames.tx_priorities[i].packets};
    }
    return counters;
}

} // namespace softhca::uverbs
