// SPDX-License-Identifier: BSD-3-Clause
// The Rx queues of a port as steering sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>

namespace rawqp {

/// What rules can point to, queried when one is made. Control threads.
class RxQueueSet {
  public:
    virtual ~RxQueueSet() = default;
    [[nodiscard]] virtual uint16_t count() const = 0; ///< that the port is configured with
    [[nodiscard]] virtual ibv_wq* wq(uint16_t queue) const = 0; ///< null: it is not set up
    /// Most entries of an indirection table, a power of two.
    [[nodiscard]] virtual size_t table_entries() const = 0;
    /// Makes them report flow tags, from their next burst on.
    virtual void use_marks() = 0;
    /// Makes this queue report RTE_PTYPE_TUNNEL_* for its tunnelled packets; 0: no longer.
    virtual void name_tunnels(uint16_t queue, uint32_t type) = 0;
    /// Makes them report metadata that rules set, too, if the application has a place for it.
    virtual void use_metadata() = 0;
};

} // namespace rawqp
