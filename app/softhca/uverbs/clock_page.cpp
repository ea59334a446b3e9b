// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/clock_page.hpp"

#include <cerrno>
#include <sys/mman.h>
#include <unistd.h>

namespace softhca::uverbs {

ClockPage::ClockPage() : fd_(memfd_create("softhca-clock", MFD_CLOEXEC)) {
    if (!fd_ || ftruncate(fd_.get(), kBytes) != 0) return;
    void* const page = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (page != MAP_FAILED) clock_ = static_cast<mlx5::be64*>(page);
}

void* ClockPage::map(void* address, size_t length, int flags) const {
    if (clock_ == nullptr || length != kBytes) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    return mmap(address, length, PROT_READ, flags, fd_.get(), 0);
}

} // namespace softhca::uverbs
