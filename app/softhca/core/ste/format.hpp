// SPDX-License-Identifier: BSD-3-Clause
// What a walk through steering entries asks of their format.
#pragma once

#include "app/softhca/core/packet.hpp"
#include "app/softhca/core/ste/entry.hpp"

#include <optional>
#include <vector>

namespace softhca::core::ste {

/// Without state: one object serves all devices.
class Format {
  public:
    virtual ~Format() = default;

    /// False: it is no entry.
    [[nodiscard]] virtual bool read(RawEntry raw, Entry& entry) const = 0;
    /// What a lookup sees of the packet. False: there is no such lookup.
    [[nodiscard]] virtual bool look_up(uint16_t lookup, const Definers& definers,
                                       const Packet& packet, Tag& tag) const = 0;
    /// Of what the lookup of a table sees.
    [[nodiscard]] virtual uint32_t hash(const Next& next, const Tag& tag) const = 0;
    /// Adds what an edit of a list does: nothing, or more than one, as headers share places in the
    /// format. False: it is none.
    [[nodiscard]] virtual bool read_edit(RawEdit raw, std::vector<HeaderStep>& steps) const = 0;
    /// The bits that definers of a layout may look at: which are fields, and known of packets.
    /// Nothing: there is no such layout.
    [[nodiscard]] virtual std::optional<Tag> layout_fields(uint16_t layout) const = 0;
};

} // namespace softhca::core::ste
