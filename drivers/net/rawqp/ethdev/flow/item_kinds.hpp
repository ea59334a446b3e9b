// SPDX-License-Identifier: BSD-3-Clause
// The supported rte_flow items, and how to read what one asks for.
#pragma once

#include "drivers/net/rawqp/ethdev/flow/error.hpp"
#include "drivers/net/rawqp/ethdev/steering/protocol.hpp"

#include <array>

namespace rawqp {

/// What rte_flow's default mask covers, for items with a spec and no mask. (rte_flow.h keeps its
/// default masks from C++.)
struct BitRange {
    uint16_t bit = 0, bits = 0;
};

struct ItemKind {
    rte_flow_item_type type;
    Protocol protocol;
    std::array<BitRange, 2> by_default;
    /// The flags that follow the header in the item's struct, in the form that a layer has; kOthers
    /// if there are some that a layer does not have.
    uint8_t (*flags)(const void* item) = nullptr;
};

[[nodiscard]] std::span<const ItemKind> item_kinds();
/// Null: no such header is supported.
[[nodiscard]] const ItemKind* kind_of(rte_flow_item_type type);
/// Errors say what would work.
[[nodiscard]] FlowResult<const ItemKind*> known_kind(const rte_flow_item& item);

/// What an item asks for, with its mask applied.
struct Asked {
    LayerBytes value{}, mask{}, last{};
    uint8_t index = 0; ///< which tag, of an item tag
};
/// Bits of a last that are zero or equal to the spec ask for no range, as rte_flow's guide says.
[[nodiscard]] inline bool asks_for_range(const Asked& asked, const Field& field) {
    return any_bit(asked.last, field.bit, field.bits) &&
           any_bit(asked.last ^ asked.value, field.bit, field.bits);
}
/// An item without a spec has neither mask nor last, as rte_flow's guide says.
[[nodiscard]] FlowResult<void> check_given(const rte_flow_item& item);
/// For an item mark with a spec: checks that such marks exist.
[[nodiscard]] FlowResult<void> check_mark(const ItemKind& kind, const rte_flow_item& item);
/// The bytes of an item's spec in a layer. `index`: of its tag.
[[nodiscard]] LayerBytes read_spec(const ItemKind& kind, const rte_flow_item& item, uint8_t index);
[[nodiscard]] FlowResult<Asked> read_item(const ItemKind& kind, const rte_flow_item& item);

} // namespace rawqp
