// SPDX-License-Identifier: BSD-3-Clause
// The objects that programs have on a device, as RDMA netlink reports them.
#pragma once

#include "app/softhca/uverbs/census.hpp"
#include "app/softhca/uverbs/nldev_message.hpp"

#include <functional>

namespace softhca::uverbs {

/// One object in a table.
struct ResourceRow {
    uint32_t number = 0;
    uint8_t port = 0; ///< of a QP
    std::function<void(NldevMessage&)> fill;
};

/// One kind of object: the command that lists it and the attributes that hold it.
struct ResourceKind {
    rdma_nldev_command command;
    const char* name; ///< in the summary
    rdma_nldev_attr table, entry, number;
    bool per_device; ///< otherwise of a port
    /// All of them on a device. `with_keys`: for readers that may see them.
    std::vector<ResourceRow> (*rows)(const std::vector<ProcessEntry>& census,
                                     const std::string& device, bool with_keys);
};

/// Null when `command` does not list a kind of object.
[[nodiscard]] const ResourceKind* resource_kind(unsigned command);
/// In the kernel's order.
void fill_summary(NldevMessage& message, const std::vector<ProcessEntry>& census,
                  const std::string& device);

} // namespace softhca::uverbs
