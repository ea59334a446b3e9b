// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/clock_page.hpp"

#include "app/softhca/clock.hpp"

#include <cerrno>
#include <rdma/mlx5-abi.h>
#include <sys/mman.h>
#include <unistd.h>

namespace softhca::uverbs {
namespace {

/// As mlx5_core fills it for an undisciplined clock: it begins at the system's real time and
/// advances with the device's clock, whose ticks are nanoseconds (Limits::kClockKhz).
void write_info(mlx5_ib_clock_info& info) {
    constexpr uint32_t kShift = 8; // two years until the product with `mult` would overflow
    info.nsec = clock_ns(CLOCK_REALTIME);
    info.cycles = clock_ns();
    info.mult = 1u << kShift;
    info.shift = kShift;
    info.mask = ~uint64_t{0};
    info.overflow_period = uint64_t{1} << 55; // ns
}

} // namespace

ClockPage::ClockPage() : fd_(memfd_create("softhca-clock", MFD_CLOEXEC)) {
    if (!fd_ || ftruncate(fd_.get(), 2 * kBytes) != 0) return;
    void* const pages = mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (pages == MAP_FAILED) return;
    clock_ = static_cast<mlx5::be64*>(pages);
    write_info(*reinterpret_cast<mlx5_ib_clock_info*>(static_cast<std::byte*>(pages) + kBytes));
}

void* ClockPage::map(Part part, void* address, size_t length, int flags) const {
    if (clock_ == nullptr || length != kBytes) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    return mmap(address, length, PROT_READ, flags, fd_.get(), part == Part::info ? kBytes : 0);
}

} // namespace softhca::uverbs
