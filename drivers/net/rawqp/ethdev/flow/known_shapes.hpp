// SPDX-License-Identifier: BSD-3-Clause
// Rules of rte_flow_create that differ from earlier ones in values only, as most do. The driver
// makes a template of what they have in common, so that the next one need not be translated again.
#pragma once

#include "drivers/net/rawqp/ethdev/flow/templates.hpp"

#include <array>
#include <memory>
#include <span>
#include <vector>

namespace rawqp {

/// What a rule asks for without its values: position, items and their masks, kinds of actions.
struct KnownShape {
    std::vector<uint8_t> bytes; ///< equal shapes have equal ones
    size_t rules = 0;           ///< of this shape so far
    std::unique_ptr<rte_flow_pattern_template> pattern;
    std::unique_ptr<rte_flow_actions_template> actions;
    std::unique_ptr<rte_flow_template_table> table; ///< null: there is no template for it
};

class KnownShapes {
  public:
    /// The rule's shape, which is remembered from now on. Null: templates do not serve such rules,
    /// or it varies in more than the values that templates leave open.
    [[nodiscard]] KnownShape* find(const rte_flow_attr& attr, const rte_flow_item* items,
                                   const rte_flow_action* actions);
    void clear() { shapes_.clear(); }

  private:
    static constexpr size_t kMost = 8, kMostBytes = 512;

    std::vector<std::unique_ptr<KnownShape>> shapes_; ///< the latest first
    std::array<uint8_t, kMostBytes> bytes_;           ///< of the rule at hand
};

} // namespace rawqp
