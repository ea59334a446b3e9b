// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/icm.hpp"

#include <algorithm>
#include <bit>
#include <sys/mman.h>

namespace softhca::core {
namespace {

/// The first gap of this size, as an offset that is a multiple of the alignment.
uint64_t find_gap(const std::map<uint64_t, uint64_t>& allocated, uint64_t bytes,
                  uint64_t alignment) {
    uint64_t offset = 0;
    for (const auto& [used, used_bytes] : allocated) {
        if (offset + bytes <= used) break;
        offset = (used + used_bytes + alignment - 1) & ~(alignment - 1);
    }
    return offset;
}

/// Also requires a power of two of them.
bool are_whole_blocks(uint64_t bytes) {
    return std::has_single_bit(bytes) && bytes >> kLogIcmBlock != 0;
}

} // namespace

Icm::~Icm() {
    for (size_t kind = 0; kind < spaces_.size(); kind++)
        if (spaces_[kind].memory) munmap(spaces_[kind].memory, kIcmRanges[kind].bytes());
}

std::optional<Icm::Place> Icm::place_of(uint64_t address) {
    for (size_t kind = 0; kind < kIcmRanges.size(); kind++)
        if (address - kIcmRanges[kind].first < kIcmRanges[kind].bytes())
            return Place{static_cast<IcmKind>(kind), address - kIcmRanges[kind].first};
    return {};
}

Outcome<uint64_t> Icm::alloc(IcmKind kind, uint64_t bytes, uint32_t log_alignment) {
    const IcmRange range = kIcmRanges[static_cast<size_t>(kind)];
    if (!are_whole_blocks(bytes)) return refuse(Status::bad_parameter);
    // The range begins at a multiple of its size; only its beginning is one of anything larger.
    const uint64_t wanted = uint64_t{1} << std::min<uint32_t>(log_alignment, range.log_bytes);
    const uint64_t offset = find_gap(space(kind).allocated, bytes, std::max(bytes, wanted));
    if (offset > range.bytes() || bytes > range.bytes() - offset) return refuse(Status::limit);
    if (const auto taken = take(range.first + offset, bytes); !taken) return refuse(taken.error());
    return range.first + offset;
}

Outcome<void> Icm::take(uint64_t address, uint64_t bytes) {
    const auto place = place_of(address);
    if (!place || !are_whole_blocks(bytes) || address % bytes != 0)
        return refuse(Status::bad_parameter);
    const uint64_t room = kIcmRanges[static_cast<size_t>(place->kind)].bytes();
    if (bytes > room - place->offset) return refuse(Status::limit);
    Space& own = space(place->kind);
    const auto after = own.allocated.lower_bound(place->offset);
    if (after != own.allocated.end() && after->first < place->offset + bytes)
        return refuse(Status::busy);
    if (after != own.allocated.begin())
        if (const auto& [first, used] = *std::prev(after); first + used > place->offset)
            return refuse(Status::busy);
    if (!own.memory) {
        void* const memory = mmap(nullptr, room, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return refuse(Status::limit);
        own.memory = static_cast<std::byte*>(memory);
    }
    own.allocated[place->offset] = bytes;
    return {};
}

Outcome<void> Icm::free(uint64_t address) {
    const auto place = place_of(address);
    if (!place) return refuse(Status::bad_resource);
    auto& allocated = space(place->kind).allocated;
    const auto found = allocated.find(place->offset);
    if (found == allocated.end()) return refuse(Status::bad_resource);
    // Private pages come back as zeros.
    madvise(space(place->kind).memory + place->offset, found->second, MADV_DONTNEED);
    allocated.erase(found);
    return {};
}

Outcome<DmaArea> Icm::area(uint64_t address, uint64_t bytes) const {
    const auto place = place_of(address);
    if (!place || bytes == 0) return refuse(Status::bad_resource);
    const Space& space = spaces_[static_cast<size_t>(place->kind)];
    const auto after = space.allocated.upper_bound(place->offset);
    if (after == space.allocated.begin()) return refuse(Status::bad_resource);
    const auto& [first, allocated] = *std::prev(after);
    const uint64_t at = place->offset - first;
    if (at > allocated || bytes > allocated - at) return refuse(Status::bad_resource);
    return DmaArea::contiguous(space.memory + place->offset, bytes);
}

} // namespace softhca::core
