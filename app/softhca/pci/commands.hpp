// SPDX-License-Identifier: BSD-3-Clause
// The transport's commands: pages lent to the firmware, doorbell pages of the BAR, event queues in
// the guest's memory.
#pragma once

#include "app/softhca/pci/event_queues.hpp"
#include "app/softhca/prm/firmware.hpp"

#include <cstdint>
#include <vector>

namespace softhca::pci {

// Arguments passed by reference outlive the table.
void add_page_commands(prm::CommandTable& table, std::vector<uint64_t>& given_pages);
void add_uar_commands(prm::CommandTable& table);
void add_eq_commands(prm::CommandTable& table, EventQueues& queues);

} // namespace softhca::pci
