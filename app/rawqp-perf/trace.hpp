// SPDX-License-Identifier: BSD-3-Clause
// What is needed to interpret a trace of steps (steps.hpp): what is at which addresses.
#pragma once

#include "app/rawqp-perf/distance.hpp"
#include "app/rawqp-perf/steps.hpp"

#include <string>
#include <vector>

namespace perf {

struct TracedMemory {
    std::vector<const void*> bursts; ///< burst functions of a port
    rte_mempool* pool = nullptr;
    std::vector<MemorySpan> stack = {}; ///< of mbufs, of a loop without a driver
    std::vector<MemorySpan> heap = {};  ///< of the rings, and what the driver keeps alongside them
};

/// FILE.steps, FILE.heap (the contents of `memory.heap`) and FILE.json. Throws std::runtime_error.
void write_trace(const std::string& file, const Steps& steps, const TracedMemory& memory);

} // namespace perf
