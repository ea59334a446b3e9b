// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/user_memory.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <sys/mman.h>

namespace softhca::uverbs {
namespace {

constexpr uint64_t kPage = 4096;

uint64_t page_of(uint64_t address) { return address & ~(kPage - 1); }
uint64_t page_after(uint64_t address) { return page_of(address + kPage - 1); }

struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
};

/// One mapping of /proc/self/maps: "start-end rwxp …".
struct Mapping {
    uint64_t start = 0, end = 0;
    bool readable = false, writable = false;
};

std::optional<Mapping> next_mapping(std::FILE* maps) {
    std::array<char, 512> line{};
    if (!std::fgets(line.data(), line.size(), maps)) return std::nullopt;
    const bool whole = std::find(line.begin(), line.end(), '\n') != line.end();
    for (int c = 0; !whole && c != '\n' && c != EOF;)
        c = std::fgetc(maps);
    Mapping mapping;
    char read = '-', write = '-';
    if (std::sscanf(line.data(), "%lx-%lx %c%c", &mapping.start, &mapping.end, &read, &write) != 4)
        return std::nullopt;
    mapping.readable = read == 'r';
    mapping.writable = write == 'w';
    return mapping;
}

} // namespace

bool is_mapped(const void* address, size_t length, bool write) {
    const auto first = reinterpret_cast<uint64_t>(address);
    if (length == 0) return true;
    if (first == 0 || first + length < first) return false;
    uint64_t page = page_of(first);
    const uint64_t end = page_after(first + length);
    static const bool knows = madvise(nullptr, 0, MADV_POPULATE_WRITE) == 0; // Linux 5.14
    if (knows)
        return madvise(reinterpret_cast<void*>(page), end - page,
                       write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0;
    std::array<unsigned char, 1024> resident;
    while (page < end) {
        const uint64_t part = std::min<uint64_t>(end - page, resident.size() * kPage);
        if (mincore(reinterpret_cast<void*>(page), part, resident.data()) < 0) return false;
        page += part;
    }
    return true;
}

bool CallMemory::has(const void* address, size_t length, bool write) {
    const auto first = reinterpret_cast<uint64_t>(address);
    for (const Pages& pages : found_)
        if (pages.first <= first && first < pages.end && length <= pages.end - first &&
            (pages.writable || !write))
            return true;
    if (!is_mapped(address, length, write)) return false;
    if (length != 0)
        found_[next_++ % found_.size()] = {page_of(first), page_after(first + length), write};
    return true;
}

bool is_accessible(uint64_t address, uint64_t length, bool write) {
    if (length == 0) return true;
    if (address == 0 || address + length < address) return false;
    const std::unique_ptr<std::FILE, FileCloser> maps(std::fopen("/proc/self/maps", "re"));
    if (!maps) return is_mapped(reinterpret_cast<void*>(address), length);
    uint64_t next = address; // all before it is accessible
    while (const auto mapping = next_mapping(maps.get())) {
        if (mapping->end <= next) continue;
        if (mapping->start > next || !mapping->readable || (write && !mapping->writable))
            return false;
        next = mapping->end;
        if (next >= address + length) return true;
    }
    return false;
}

std::optional<core::DmaArea> user_area(uint64_t address, uint64_t length, bool write) {
    if (length == 0 || !is_accessible(address, length, write)) return std::nullopt;
    return core::DmaArea::contiguous(reinterpret_cast<void*>(address), length);
}

} // namespace softhca::uverbs
