// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/pci/guest_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <sys/stat.h>

namespace softhca::pci {
namespace {

constexpr uint8_t kEverythingShift = 16; // small enough for the map of a PC's first megabyte
std::byte scratch[1u << kEverythingShift];

} // namespace

Result<void> GuestMemory::add(int fd, uint64_t offset, uint64_t address, uint64_t size) {
    struct stat file {};
    if (fstat(fd, &file) < 0)
        return fail(errno, "guest memory: cannot look at its file ({})", std::strerror(errno));
    const auto file_size = static_cast<uint64_t>(file.st_size);
    if (size == 0 || offset > file_size || size > file_size - offset || address + size < address)
        return fail(EINVAL, "guest memory at {:#x}: {:#x} bytes from {:#x} are not in its file",
                    address, size, offset);
    Mapping& mapping = files_[{file.st_dev, file.st_ino}];
    if (mapping.size < file_size) {
        void* const base = mmap(nullptr, file_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (base == MAP_FAILED)
            return fail(errno,
                        "guest memory: cannot map {} bytes ({}); start QEMU with "
                        "memory-backend-memfd,share=on",
                        file_size, std::strerror(errno));
        mapping = {static_cast<std::byte*>(base), file_size}; // an outgrown mapping stays in use
    }
    regions_.push_back({address, size, mapping.base + offset});
    std::ranges::sort(regions_, {}, &Region::address);
    std::vector<Region> merged;
    for (const Region& region : regions_) {
        const bool joins = !merged.empty() &&
                           merged.back().address + merged.back().size == region.address &&
                           merged.back().host + merged.back().size == region.host;
        if (joins)
            merged.back().size += region.size;
        else
            merged.push_back(region);
    }
    regions_ = std::move(merged);
    return {};
}

bool GuestMemory::overlaps(uint64_t address, uint64_t size) const {
    return std::ranges::any_of(regions_, [&](const Region& region) {
        return region.address < address + size && address < region.address + region.size;
    });
}

void GuestMemory::remove(uint64_t address, uint64_t size) {
    const uint64_t end = address + size < address ? ~uint64_t{0} : address + size;
    std::vector<Region> left;
    for (const Region& region : regions_) {
        const uint64_t region_end = region.address + region.size;
        if (region.address < address)
            left.push_back(
                {region.address, std::min(region_end, address) - region.address, region.host});
        if (region_end > end) {
            const uint64_t from = std::max(region.address, end);
            left.push_back({from, region_end - from, region.host + (from - region.address)});
        }
    }
    regions_ = std::move(left);
}

std::byte* GuestMemory::translate(uint64_t address, uint64_t size) const {
    for (const Region& region : regions_)
        if (address >= region.address && size <= region.size &&
            address - region.address <= region.size - size)
            return region.host + (address - region.address);
    return nullptr;
}

std::optional<core::DmaArea> GuestMemory::area(std::span<const uint64_t> pages, uint8_t page_shift,
                                               uint64_t offset, uint64_t length) const {
    constexpr uint8_t kMaxShift = 40;
    if (page_shift > kMaxShift || offset >> page_shift != 0) return {};
    const uint64_t page = uint64_t{1} << page_shift;
    if (length == 0 || offset + length < length ||
        offset + length > uint64_t{pages.size()} << page_shift)
        return {};
    std::vector<std::byte*> hosts;
    hosts.reserve(pages.size());
    for (const uint64_t address : pages) {
        // A single page may be larger than the part that is used, and than the memory behind it.
        const uint64_t used = pages.size() == 1 ? offset + length : page;
        hosts.push_back(translate(address & ~(page - 1), used));
        if (!hosts.back()) return {};
    }
    return core::DmaArea::paged(std::move(hosts), page_shift, offset, length);
}

core::DmaArea GuestMemory::everything() const {
    constexpr uint64_t kPage = uint64_t{1} << kEverythingShift;
    // No RAM is higher, but BARs of other devices may be, which are memory to QEMU, too: firmware
    // puts them as high as the CPU has addresses, and the table has an entry for each page below.
    constexpr uint64_t kHighest = uint64_t{1} << 41;
    uint64_t end = 0;
    for (const Region& region : regions_)
        if (region.address + region.size <= kHighest) end = region.address + region.size;
    std::vector<std::byte*> pages;
    for (uint64_t address = 0; address < end; address += kPage) {
        std::byte* const host = translate(address, kPage);
        pages.push_back(host ? host : scratch);
    }
    const uint64_t length = uint64_t{pages.size()} << kEverythingShift;
    return core::DmaArea::paged(std::move(pages), kEverythingShift, 0, length);
}

} // namespace softhca::pci
