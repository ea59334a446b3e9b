// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/trace.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace perf {
namespace {

nlohmann::json as_json(const std::vector<MemorySpan>& spans) {
    nlohmann::json all = nlohmann::json::array();
    for (const MemorySpan& span : spans)
        all.push_back({reinterpret_cast<uintptr_t>(span.start), span.bytes});
    return all;
}

/// The pool's description, and the ring of free mbufs.
std::vector<MemorySpan> description_of(const rte_mempool& pool) {
    return {{&pool, static_cast<size_t>(pool.header_size) + sizeof pool},
            {pool.pool_data, size_t{pool.size} * sizeof(void*)}};
}

std::vector<MemorySpan> cache_of(rte_mempool& pool) {
    const rte_mempool_cache* const cache = rte_mempool_default_cache(&pool, rte_lcore_id());
    return cache != nullptr ? std::vector<MemorySpan>{{cache, sizeof *cache}}
                            : std::vector<MemorySpan>{};
}

} // namespace

void write_trace(const std::string& file, const Steps& steps, const TracedMemory& memory) {
    steps.write(file + ".steps");
    std::vector<uintptr_t> mbufs, bursts;
    rte_mempool_obj_iter(
        memory.pool,
        [](rte_mempool*, void* out, void* object, unsigned) {
            static_cast<std::vector<uintptr_t>*>(out)->push_back(
                reinterpret_cast<uintptr_t>(object));
        },
        &mbufs);
    for (const void* const burst : memory.bursts)
        bursts.push_back(reinterpret_cast<uintptr_t>(burst));
    std::stringstream maps;
    maps << std::ifstream("/proc/self/maps").rdbuf();
    auto caches = cache_of(*memory.pool);
    caches.insert(caches.end(), memory.stack.begin(), memory.stack.end());
    const nlohmann::json all{{"maps", maps.str()},
                             {"bursts", bursts},
                             {"mbufs", mbufs},
                             {"mbuf_bytes", memory.pool->elt_size},
                             {"mempool", as_json(description_of(*memory.pool))},
                             {"mempool cache", as_json(caches)},
                             {"heap", as_json(memory.heap)}};
    std::ofstream heap(file + ".heap", std::ios::binary);
    for (const MemorySpan& span : memory.heap)
        heap.write(static_cast<const char*>(span.start), static_cast<std::streamsize>(span.bytes));
    std::ofstream out(file + ".json");
    out << all.dump() << '\n';
    if (!out.flush() || !heap.flush()) throw std::runtime_error("cannot write " + file);
}

} // namespace perf
