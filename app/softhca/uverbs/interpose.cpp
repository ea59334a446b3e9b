// SPDX-License-Identifier: BSD-3-Clause
// The functions of the C library that this library replaces when it is preloaded. Each checks
// whether the call concerns one of our devices; all others go on to the original unchanged.
//
// They may be called before this library's constructors have run, in signal handlers, after fork(2)
// and while the program exits: the check for "not ours" uses no lock, no allocation and no object
// that is ever destroyed.

// The plain and the 64-bit names are one function on LP64, but both must be defined here.
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include "app/softhca/uverbs/context.hpp"
#include "app/softhca/uverbs/fd_table.hpp"
#include "app/softhca/uverbs/live_files.hpp"
#include "app/softhca/uverbs/netdev.hpp"
#include "app/softhca/uverbs/original.hpp"
#include "app/softhca/uverbs/paths.hpp"
#include "app/softhca/uverbs/sysfs_tree.hpp"
#include "app/softhca/uverbs/within_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace {

using namespace softhca::uverbs;

namespace original {
constinit Original<int(const char*, int, ...)> open{"open"};
constinit Original<int(int, const char*, int, ...)> openat{"openat"};
constinit Original<FILE*(const char*, const char*)> fopen{"fopen"};
constinit Original<DIR*(const char*)> opendir{"opendir"};
constinit Original<int(const char*, int)> access{"access"};
constinit Original<int(int, const char*, int, int)> faccessat{"faccessat"};
constinit Original<int(const char*, struct stat*)> stat{"stat"};
constinit Original<int(const char*, struct stat*)> lstat{"lstat"};
constinit Original<int(int, struct stat*)> fstat{"fstat"};
constinit Original<int(int, const char*, struct stat*, int)> fstatat{"fstatat"};
constinit Original<int(int, const char*, int, unsigned, struct statx*)> statx{"statx"};
constinit Original<ssize_t(const char*, char*, size_t)> readlink{"readlink"};
constinit Original<ssize_t(int, const char*, char*, size_t)> readlinkat{"readlinkat"};
constinit Original<char*(const char*, char*)> realpath{"realpath"};
constinit Original<unsigned(const char*)> if_nametoindex{"if_nametoindex"};
constinit Original<char*(unsigned, char*)> if_indextoname{"if_indextoname"};
constinit Original<int(int, unsigned long, ...)> ioctl{"ioctl"};
constinit Original<void*(void*, size_t, int, int, int, off_t)> mmap{"mmap"};
constinit Original<int(int)> close{"close"};
constinit Original<int(unsigned, unsigned, int)> close_range{"close_range"};
constinit Original<void(int)> closefrom{"closefrom"};
constinit Original<int(int)> dup{"dup"};
constinit Original<int(int, int)> dup2{"dup2"};
constinit Original<int(int, int, int)> dup3{"dup3"};
constinit Original<int(int, int, ...)> fcntl{"fcntl"};
} // namespace original

__attribute__((constructor)) void prepare() {
    init_paths();
    Runtime::note_cpus();
    const auto look_up = [](auto&... functions) { (functions.get(), ...); };
    using namespace original;
    look_up(original::open, original::openat, original::fopen, original::opendir, original::access,
            original::faccessat, original::stat, original::lstat, original::fstat,
            original::fstatat, original::statx, original::readlink, original::readlinkat,
            original::realpath, original::if_nametoindex, original::if_indextoname, original::ioctl,
            original::mmap, original::close, original::close_range, original::closefrom,
            original::dup, original::dup2, original::dup3, original::fcntl);
}

/// The third argument of open(2), which is only passed when a file may be created.
mode_t mode_argument(int flags, va_list arguments) {
    const bool given = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
    return given ? va_arg(arguments, mode_t) : 0;
}

/// Updates a device file if it is one that changes. By descriptor, as relative names may lead
/// there, too.
void freshen(const RedirectedPath& path, int fd) {
    const bool relative = path.get() && path.get()[0] != '/';
    if (fd >= 0 && (path.redirected() || (relative && tree_is_in_use()))) refresh_live_file(fd);
}

/// Makes `fd`, just opened, a uverbs device if `path` names one.
int opened(const RedirectedPath& path, int fd) {
    if (path.uverbs() < 0) freshen(path, fd);
    if (path.uverbs() < 0 || fd < 0) return fd;
    Runtime* runtime = Runtime::get();
    Port* port = runtime ? runtime->port(static_cast<size_t>(path.uverbs())) : nullptr;
    if (const int injected = port ? port->faults.take("open") : 0) {
        original::close(fd);
        return fail_with(injected);
    }
    const Errno error = within_memory([&]() -> Errno {
        const auto context = port ? std::make_shared<Context>(*port) : nullptr;
        const Errno refused = context ? context->become(fd) : ENXIO;
        return refused || fd_table::insert(fd, context) ? refused : EMFILE;
    });
    if (error == 0) return fd;
    original::close(fd);
    return fail_with(error);
}

/// A device node that must not be opened is not accessible either.
int access_of(const RedirectedPath& path, int result) {
    if (path.uverbs() < 0 || result != 0) return result;
    Runtime* runtime = Runtime::get();
    const Port* port = runtime ? runtime->port(static_cast<size_t>(path.uverbs())) : nullptr;
    const int injected = port ? port->faults.peek("open") : 0;
    return injected ? fail_with(injected) : result;
}

/// Makes a stat(2) result that of the character device `uverbs` (negative: it is none).
int numbered(int uverbs, int result, struct stat* out) {
    if (uverbs < 0 || result != 0) return result;
    out->st_rdev = uverbs_device(static_cast<size_t>(uverbs));
    out->st_mode = (out->st_mode & ~static_cast<mode_t>(S_IFMT)) | S_IFCHR;
    return result;
}

/// Number of the device that is open there, else -1.
int uverbs_of(int fd) {
    const auto context = fd_table::find_as<Context>(fd);
    return context ? static_cast<int>(context->port.index) : -1;
}

int stat_path(const char* name, struct stat* out) {
    const RedirectedPath path(name);
    return numbered(path.uverbs(), original::stat(path.get(), out), out);
}

int lstat_path(const char* name, struct stat* out) {
    const RedirectedPath path(name);
    // The nodes are links here, unlike in a kernel.
    if (path.uverbs() < 0) return original::lstat(path.get(), out);
    return numbered(path.uverbs(), original::stat(path.get(), out), out);
}

int stat_fd(int fd, struct stat* out) {
    return numbered(uverbs_of(fd), original::fstat(fd, out), out);
}

int stat_path_at(int folder, const char* name, struct stat* out, int flags) {
    const RedirectedPath path(name);
    const bool of_fd = flags & AT_EMPTY_PATH && path.is_empty();
    if (path.uverbs() >= 0) flags &= ~AT_SYMLINK_NOFOLLOW;
    return numbered(of_fd ? uverbs_of(folder) : path.uverbs(),
                    original::fstatat(folder, path.get(), out, flags), out);
}

/// After dup(2) and similar calls.
int duplicated(int from, int to) {
    if (to < 0 || from == to || fd_table::duplicated(from, to)) return to;
    original::close(to);
    return fail_with(EMFILE);
}

int control_fd(int fd, int command, void* argument) {
    const int result = original::fcntl(fd, command, argument);
    const bool duplicate = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
    return duplicate ? duplicated(fd, result) : result;
}

int open_path(const char* name, int flags, mode_t mode) {
    const RedirectedPath path(name);
    return opened(path, original::open(path.get(), flags, mode));
}

int open_path_at(int folder, const char* name, int flags, mode_t mode) {
    const RedirectedPath path(name);
    return opened(path, original::openat(folder, path.get(), flags, mode));
}

int ioctl_on(int fd, unsigned long request, void* argument) {
    return original::ioctl(fd, request, argument);
}

void* map(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
    if (const auto context = fd >= 0 ? fd_table::find_as<Context>(fd) : nullptr)
        return context->map(address, length, flags, offset);
    return original::mmap(address, length, protection, flags, fd, offset);
}

} // namespace

extern "C" {

SOFTHCA_EXPORT int open(const char* path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_argument(flags, arguments);
    va_end(arguments);
    return open_path(path, flags, mode);
}

SOFTHCA_EXPORT int open64(const char* path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_argument(flags, arguments);
    va_end(arguments);
    return open_path(path, flags | O_LARGEFILE, mode);
}

SOFTHCA_EXPORT int openat(int folder, const char* path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_argument(flags, arguments);
    va_end(arguments);
    return open_path_at(folder, path, flags, mode);
}

SOFTHCA_EXPORT int openat64(int folder, const char* path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_argument(flags, arguments);
    va_end(arguments);
    return open_path_at(folder, path, flags | O_LARGEFILE, mode);
}

// With _FORTIFY_SOURCE, calls with constant flags become these.
SOFTHCA_EXPORT int __open_2(const char* path, int flags) { return open_path(path, flags, 0); }
SOFTHCA_EXPORT int __open64_2(const char* path, int flags) {
    return open_path(path, flags | O_LARGEFILE, 0);
}
SOFTHCA_EXPORT int __openat_2(int folder, const char* path, int flags) {
    return open_path_at(folder, path, flags, 0);
}
SOFTHCA_EXPORT int __openat64_2(int folder, const char* path, int flags) {
    return open_path_at(folder, path, flags | O_LARGEFILE, 0);
}

SOFTHCA_EXPORT FILE* fopen(const char* path, const char* mode) {
    const RedirectedPath redirected(path);
    FILE* file = original::fopen(redirected.get(), mode);
    if (file) freshen(redirected, fileno(file));
    return file;
}
SOFTHCA_EXPORT FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }
SOFTHCA_EXPORT DIR* opendir(const char* path) {
    return original::opendir(RedirectedPath(path).get());
}

SOFTHCA_EXPORT int access(const char* path, int mode) noexcept {
    const RedirectedPath redirected(path);
    return access_of(redirected, original::access(redirected.get(), mode));
}
SOFTHCA_EXPORT int faccessat(int folder, const char* path, int mode, int flags) noexcept {
    const RedirectedPath redirected(path);
    return access_of(redirected, original::faccessat(folder, redirected.get(), mode, flags));
}

SOFTHCA_EXPORT int stat(const char* path, struct stat* out) noexcept {
    return stat_path(path, out);
}
SOFTHCA_EXPORT int stat64(const char* path, struct stat64* out) noexcept {
    return stat_path(path, reinterpret_cast<struct stat*>(out));
}
SOFTHCA_EXPORT int lstat(const char* path, struct stat* out) noexcept {
    return lstat_path(path, out);
}
SOFTHCA_EXPORT int lstat64(const char* path, struct stat64* out) noexcept {
    return lstat_path(path, reinterpret_cast<struct stat*>(out));
}
SOFTHCA_EXPORT int fstat(int fd, struct stat* out) noexcept { return stat_fd(fd, out); }
SOFTHCA_EXPORT int fstat64(int fd, struct stat64* out) noexcept {
    return stat_fd(fd, reinterpret_cast<struct stat*>(out));
}
// The forms before glibc 2.33, of programs and libraries that were built for an older system, such
// as conda's. ThreadSanitizer of clang uses that of fstat(2).
SOFTHCA_EXPORT int __xstat(int, const char* path, struct stat* out) noexcept {
    return stat_path(path, out);
}
SOFTHCA_EXPORT int __xstat64(int, const char* path, struct stat64* out) noexcept {
    return stat_path(path, reinterpret_cast<struct stat*>(out));
}
SOFTHCA_EXPORT int __lxstat(int, const char* path, struct stat* out) noexcept {
    return lstat_path(path, out);
}
SOFTHCA_EXPORT int __lxstat64(int, const char* path, struct stat64* out) noexcept {
    return lstat_path(path, reinterpret_cast<struct stat*>(out));
}
SOFTHCA_EXPORT int __fxstatat(int, int folder, const char* path, struct stat* out,
                              int flags) noexcept {
    return stat_path_at(folder, path, out, flags);
}
SOFTHCA_EXPORT int __fxstatat64(int, int folder, const char* path, struct stat64* out,
                                int flags) noexcept {
    return stat_path_at(folder, path, reinterpret_cast<struct stat*>(out), flags);
}
SOFTHCA_EXPORT int __fxstat(int, int fd, struct stat* out) noexcept { return stat_fd(fd, out); }
SOFTHCA_EXPORT int __fxstat64(int, int fd, struct stat64* out) noexcept {
    return stat_fd(fd, reinterpret_cast<struct stat*>(out));
}
SOFTHCA_EXPORT int fstatat(int folder, const char* path, struct stat* out, int flags) noexcept {
    return stat_path_at(folder, path, out, flags);
}
SOFTHCA_EXPORT int fstatat64(int folder, const char* path, struct stat64* out, int flags) noexcept {
    return stat_path_at(folder, path, reinterpret_cast<struct stat*>(out), flags);
}
static_assert(sizeof(struct stat) == sizeof(struct stat64));
SOFTHCA_EXPORT int statx(int folder, const char* path, int flags, unsigned mask,
                         struct statx* out) noexcept {
    const RedirectedPath redirected(path);
    const bool of_fd = flags & AT_EMPTY_PATH && redirected.is_empty();
    const int uverbs = of_fd ? uverbs_of(folder) : redirected.uverbs();
    if (redirected.uverbs() >= 0) flags &= ~AT_SYMLINK_NOFOLLOW;
    const int result = original::statx(folder, redirected.get(), flags, mask, out);
    if (uverbs < 0 || result != 0) return result;
    const dev_t number = uverbs_device(static_cast<size_t>(uverbs));
    out->stx_rdev_major = major(number);
    out->stx_rdev_minor = minor(number);
    out->stx_mode = static_cast<uint16_t>((out->stx_mode & ~S_IFMT) | S_IFCHR);
    return 0;
}

SOFTHCA_EXPORT ssize_t readlink(const char* path, char* out, size_t size) noexcept {
    return original::readlink(RedirectedPath(path).get(), out, size);
}
SOFTHCA_EXPORT ssize_t __readlink_chk(const char* path, char* out, size_t size, size_t room) {
    return original::readlink(RedirectedPath(path).get(), out, size < room ? size : room);
}
SOFTHCA_EXPORT ssize_t readlinkat(int folder, const char* path, char* out, size_t size) noexcept {
    return original::readlinkat(folder, RedirectedPath(path).get(), out, size);
}

SOFTHCA_EXPORT ssize_t __readlinkat_chk(int folder, const char* path, char* out, size_t size,
                                        size_t room) {
    return readlinkat(folder, path, out, std::min(size, room));
}

SOFTHCA_EXPORT char* realpath(const char* path, char* out) noexcept {
    char* resolved = original::realpath(RedirectedPath(path).get(), out);
    if (resolved) (void)strip_root(resolved);
    return resolved;
}
SOFTHCA_EXPORT char* __realpath_chk(const char* path, char* out, size_t) {
    return realpath(path, out);
}

SOFTHCA_EXPORT unsigned if_nametoindex(const char* name) noexcept {
    const unsigned index = emulated_name_to_index(name);
    return index ? index : original::if_nametoindex(name);
}
SOFTHCA_EXPORT char* if_indextoname(unsigned index, char* name) noexcept {
    return emulated_index_to_name(index, name) ? name : original::if_indextoname(index, name);
}

SOFTHCA_EXPORT int ioctl(int fd, unsigned long request, ...) noexcept {
    va_list arguments;
    va_start(arguments, request);
    void* argument = va_arg(arguments, void*);
    va_end(arguments);
    if (request == RDMA_VERBS_IOCTL) {
        if (const auto context = fd_table::find_as<Context>(fd)) {
            const int error = context->ioctl(static_cast<ib_uverbs_ioctl_hdr*>(argument));
            return error ? fail_with(error) : 0;
        }
    }
    constexpr unsigned long kSocketRequests = 0x89; // SIOC…
    if (request >> 8 == kSocketRequests && *runtime_folder()) {
        if (const auto error = netdev_ioctl(request, argument, ioctl_on, fd))
            return *error ? fail_with(*error) : 0;
    }
    return original::ioctl(fd, request, argument);
}

SOFTHCA_EXPORT void* mmap(void* address, size_t length, int protection, int flags, int fd,
                          off_t offset) noexcept {
    return map(address, length, protection, flags, fd, offset);
}
SOFTHCA_EXPORT void* mmap64(void* address, size_t length, int protection, int flags, int fd,
                            off64_t offset) noexcept {
    return map(address, length, protection, flags, fd, offset);
}

SOFTHCA_EXPORT int close(int fd) {
    fd_table::release(fd);
    return original::close(fd);
}

SOFTHCA_EXPORT int close_range(unsigned first, unsigned last, int flags) noexcept {
    if (flags == 0 || flags == CLOSE_RANGE_UNSHARE) fd_table::release_range(first, last);
    return original::close_range(first, last, flags);
}
SOFTHCA_EXPORT void closefrom(int first) noexcept {
    fd_table::release_range(static_cast<unsigned>(std::max(first, 0)), ~0u);
    original::closefrom(first);
}

SOFTHCA_EXPORT int dup(int fd) noexcept { return duplicated(fd, original::dup(fd)); }
SOFTHCA_EXPORT int dup2(int from, int to) noexcept {
    return duplicated(from, original::dup2(from, to));
}
SOFTHCA_EXPORT int dup3(int from, int to, int flags) noexcept {
    return duplicated(from, original::dup3(from, to, flags));
}
SOFTHCA_EXPORT int fcntl(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void* argument = va_arg(arguments, void*);
    va_end(arguments);
    return control_fd(fd, command, argument);
}
SOFTHCA_EXPORT int fcntl64(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void* argument = va_arg(arguments, void*);
    va_end(arguments);
    return control_fd(fd, command, argument);
}

} // extern "C"
