// SPDX-License-Identifier: BSD-3-Clause
// A rule as ibv_create_flow takes it: an ibv_flow_attr and its specs, one for each header, with an
// 802.1Q tag in Ethernet's.
#pragma once

#include "drivers/net/rawqp/ethdev/steering/engine.hpp"

#include <span>
#include <vector>

namespace rawqp {

/// Serves one request after the other. Most match the same bits as the one before, with other
/// values: then only the values are written.
class FlowAttr {
  public:
    /// `counters`: null if the packets are not counted. Valid until the next call.
    ibv_flow_attr* write(const SteeringRequest& request, uint8_t ib_port, ibv_counters* counters);
    [[nodiscard]] std::span<const uint8_t> bytes() const { return bytes_; }

  private:
    /// What determines the specs.
    struct Terms {
        ibv_flow_attr_type type = IBV_FLOW_ATTR_NORMAL;
        uint8_t ib_port = 0; ///< 0: nothing has been written
        bool tagged = false, drops = false, counts = false;
        bool operator==(const Terms&) const = default;
    };
    /// A field of a layer, and where its value is.
    struct Place {
        uint8_t layer;
        uint16_t field, bits;
        size_t bit; ///< of all bytes
    };

    [[nodiscard]] bool fits(const Terms& terms, const Pattern& pattern) const;
    void lay_out(const Terms& terms, const Pattern& pattern);
    void lay_out(const Pattern& pattern);
    size_t append(uint32_t type, uint16_t size);

    Terms terms_;
    Pattern pattern_;                    ///< whose masks it has
    std::vector<uint8_t> blank_, bytes_; ///< without values, and with them
    std::vector<Place> places_;
    size_t tag_at_ = 0, counters_at_ = 0; ///< if there are such
    uint8_t specs_ = 0;
};

} // namespace rawqp
