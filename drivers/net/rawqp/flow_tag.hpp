// SPDX-License-Identifier: BSD-3-Clause
// How an rte_flow mark travels: as the flow tag of the steering rule, which the device reports in
// the CQE (mlx5: low 24 bits of sop_drop_qpn; verbs: ibv_wc_read_flow_tag). Shared by the rule
// translator, which writes tags, and the rings, which read them.
#pragma once

#include <cstdint>

namespace rawqp {

inline constexpr uint32_t kFlowTagNone = 0;        ///< what a rule without a tag reports
inline constexpr uint32_t kFlowTagFlag = 0xffffff; ///< FLAG action: RX_FDIR without an id
/// Largest MARK id. Ids are shifted by one, because 0 is a valid id but also the tag of no rule.
inline constexpr uint32_t kMarkMax = kFlowTagFlag - 2;

[[nodiscard]] constexpr uint32_t tag_of_mark(uint32_t mark) { return mark + 1; }
/// For a tag that is neither kFlowTagNone nor kFlowTagFlag.
[[nodiscard]] constexpr uint32_t mark_of_tag(uint32_t tag) { return tag - 1; }

} // namespace rawqp
