// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/pages.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <stdexcept>
#include <sys/mman.h>

namespace perf {
namespace {

Pages chosen = Pages::huge;

} // namespace

std::optional<Pages> parse_pages(const std::string& text) {
    if (text == "huge") return Pages::huge;
    if (text == "4k") return Pages::small;
    return {};
}

std::vector<MemorySpan> memory_of_eal() {
    std::vector<MemorySpan> spans;
    rte_memseg_list_walk(
        [](const rte_memseg_list* list, void* out) {
            if (list->external == 0)
                static_cast<std::vector<MemorySpan>*>(out)->push_back({list->base_va, list->len});
            return 0;
        },
        &spans);
    return spans;
}

void choose_pages(Pages pages) {
    chosen = pages;
    if (pages == Pages::huge) return;
    if (rte_eal_has_hugepages() != 0)
        throw std::runtime_error("pages 4k: EAL has reserved hugepages: start it with --no-huge");
    for (const MemorySpan& span : memory_of_eal())
        madvise(const_cast<void*>(span.start), span.bytes, MADV_NOHUGEPAGE);
}

Pages chosen_pages() { return chosen; }

Resident resident(const std::vector<MemorySpan>& spans) {
    std::ifstream file("/proc/self/smaps");
    Resident sum;
    bool counts = false;
    for (std::string line; std::getline(file, line);) {
        uintptr_t start = 0, end = 0;
        size_t kib = 0;
        char rest = 0;
        if (sscanf(line.c_str(), "%zx-%zx %c", &start, &end, &rest) == 3)
            counts = std::any_of(spans.begin(), spans.end(), [&](const MemorySpan& span) {
                const auto at = reinterpret_cast<uintptr_t>(span.start);
                return at < end && start < at + span.bytes;
            });
        else if (counts && sscanf(line.c_str(), "Rss: %zu", &kib) == 1)
            sum.bytes += kib << 10;
        else if (counts && sscanf(line.c_str(), "AnonHugePages: %zu", &kib) == 1)
            sum.on_huge_pages += kib << 10;
        else if (counts && (sscanf(line.c_str(), "Private_Hugetlb: %zu", &kib) == 1 ||
                            sscanf(line.c_str(), "Shared_Hugetlb: %zu", &kib) == 1)) {
            sum.bytes += kib << 10; // not counted as resident
            sum.on_huge_pages += kib << 10;
        }
    }
    return sum;
}

} // namespace perf
