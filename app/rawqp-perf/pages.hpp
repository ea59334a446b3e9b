// SPDX-License-Identifier: BSD-3-Clause
// The pages of all memory: packets, rings, and what drivers have in DPDK's heap.
//
//   huge  as DPDK's memory should be: hugetlbfs pages, or transparent ones where EAL has none
//   4k    for systems without: nearly every packet costs TLB misses as well
#pragma once

#include "app/rawqp-perf/distance.hpp"

#include <string>
#include <vector>

namespace perf {

enum class Pages : uint8_t { huge, small };

/// "huge" or "4k"; empty for other words.
std::optional<Pages> parse_pages(const std::string& text);

/// For all memory from now on, including EAL's own where EAL has no huge pages. Throws
/// std::runtime_error where it has hugetlbfs pages and others are requested.
void choose_pages(Pages pages);
[[nodiscard]] Pages chosen_pages();

/// What the kernel reports about the mappings that hold some memory (/proc/self/smaps).
struct Resident {
    size_t bytes = 0, on_huge_pages = 0;
};
Resident resident(const std::vector<MemorySpan>& spans);

/// Memory that EAL has mapped itself.
std::vector<MemorySpan> memory_of_eal();

} // namespace perf
