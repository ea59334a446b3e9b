// SPDX-License-Identifier: BSD-3-Clause
// What a walk through steering entries requires of their format.
#pragma once

#include "app/softhca/core/packet.hpp"
#include "app/softhca/core/ste/entry.hpp"

#include <optional>
#include <vector>

namespace softhca::core::ste {

/// Stateless: one object serves all devices.
class Format {
  public:
    virtual ~Format() = default;

    /// False: it is not a valid entry.
    [[nodiscard]] virtual bool read(RawEntry raw, Entry& entry) const = 0;
    /// What a lookup reads from the packet. False: there is no such lookup.
    [[nodiscard]] virtual bool look_up(uint16_t lookup, const Definers& definers,
                                       const Packet& packet, Tag& tag) const = 0;
    /// The hash of what a table's lookup has read.
    [[nodiscard]] virtual uint32_t hash(const Next& next, const Tag& tag) const = 0;
    /// Appends the steps of one edit in a list: none, or more than one, as headers share places in
    /// the format. False: it is not a valid edit.
    [[nodiscard]] virtual bool read_edit(RawEdit raw, std::vector<HeaderStep>& steps) const = 0;
    /// The bits that definers of a layout may use: fields that are known for packets. Empty: there
    /// is no such layout.
    [[nodiscard]] virtual std::optional<Tag> layout_fields(uint16_t layout) const = 0;
};

} // namespace softhca::core::ste
