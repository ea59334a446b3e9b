// SPDX-License-Identifier: BSD-3-Clause
// Continues interpose.cpp: read(2), for files whose records the kernel under this library would cut
// off, and the device's own, which is no file to read; write(2), for commands to the device.
#undef _FORTIFY_SOURCE

#include "app/softhca/uverbs/fd_table.hpp"
#include "app/softhca/uverbs/original.hpp"

#include <algorithm>
#include <sys/types.h>

namespace {

using namespace softhca::uverbs;

namespace original {
constinit Original<ssize_t(int, void*, size_t)> read{"read"};
constinit Original<ssize_t(int, const void*, size_t)> write{"write"};
} // namespace original

__attribute__((constructor)) void prepare() {
    (void)original::read.get();
    (void)original::write.get();
}

} // namespace

extern "C" {

SOFTHCA_EXPORT ssize_t read(int fd, void* data, size_t room) {
    if (const auto file = fd_table::find(fd))
        if (const auto result = file->on_read(fd, data, room)) {
            if (result->error == 0) return static_cast<ssize_t>(result->bytes);
            return fail_with(result->error);
        }
    return original::read(fd, data, room);
}
SOFTHCA_EXPORT ssize_t __read_chk(int fd, void* data, size_t room, size_t size) {
    return read(fd, data, std::min(room, size));
}
SOFTHCA_EXPORT ssize_t write(int fd, const void* data, size_t size) {
    if (const auto file = fd_table::find(fd))
        if (const auto error = file->on_write(data, size))
            return *error == 0 ? static_cast<ssize_t>(size) : fail_with(*error);
    return original::write(fd, data, size);
}

} // extern "C"
