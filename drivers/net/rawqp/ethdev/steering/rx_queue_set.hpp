// SPDX-License-Identifier: BSD-3-Clause
// The Rx queues of a port as steering sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>

namespace rawqp {

/// What rules can point to, asked when one is made. Control threads.
class RxQueueSet {
  public:
    virtual ~RxQueueSet() = default;
    [[nodiscard]] virtual uint16_t count() const = 0; ///< that the port is configured with
    [[nodiscard]] virtual ibv_wq* wq(uint16_t queue) const = 0; ///< null: it is not set up
    /// Most entries of an indirection table, a power of two.
    [[nodiscard]] virtual size_t table_entries() const = 0;
    /// Has them report flow tags, from their next burst on.
    virtual void use_marks() = 0;
};

} // namespace rawqp
