// SPDX-License-Identifier: BSD-3-Clause
// The frames that rawqp-perf sends: UDP over IPv4, built by hand in an mbuf.
#pragma once

#include "app/rawqp-perf/dpdk.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace perf {

/// Sizes include the FCS, as in benchmarks: 64 is a frame of 60 bytes in memory.
inline constexpr uint32_t kFcs = 4;

/// One size, or a repeating mixture of them.
struct FrameSizes {
    std::string name;            ///< "64", "imix"
    std::vector<uint16_t> bytes; ///< without FCS

    /// "64" … "9000", or "imix": 7 × 64, 4 × 570, 1 × 1518 bytes. Throws CLI::ValidationError.
    static FrameSizes parse(const std::string& text);
};

/// Fills empty mbufs with frames. Frame i comes from port ports[i % ports.size()] and goes to
/// address address(i % addresses).
class FrameWriter {
  public:
    /// `tagged`: with a VLAN tag, which is included in the sizes.
    FrameWriter(const FrameSizes& sizes, rte_ether_addr to, rte_ether_addr from,
                std::vector<uint16_t> ports, bool tagged = false, uint32_t addresses = 1);

    [[nodiscard]] static rte_be32_t address(uint32_t number);

    /// Takes `mbufs.size()` mbufs from the pool; false when it has too few. `first`: the number of
    /// the first frame, for ports and addresses; sizes start over.
    bool make(rte_mempool* pool, std::span<rte_mbuf*> mbufs, uint64_t first = 0) const;

    static uint16_t source_port(const rte_mbuf* mbuf);
    static uint8_t* payload(rte_mbuf* mbuf);
    static bool is_ours(const rte_mbuf* mbuf);

  private:
    /// The beginning of a frame; zeros after the headers.
    using Front = std::array<uint8_t, 64>;
    [[nodiscard]] static Front make_front(uint16_t bytes, rte_ether_addr to, rte_ether_addr from,
                                          bool tagged);
    void write(rte_mbuf* mbuf, size_t index, uint64_t number) const;

    FrameSizes sizes_;
    // Built in advance: headers that are assembled on the stack and summed there wait until all
    // earlier stores, including those to the last frame's far lines, have completed.
    std::vector<Front> fronts_; ///< one for each size, without source port
    std::vector<uint16_t> ports_;
    uint32_t addresses_;
    size_t port_at_; ///< offset of the source port
};

} // namespace perf
