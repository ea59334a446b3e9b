// SPDX-License-Identifier: BSD-3-Clause
// Continues interpose.cpp, for what shells and ls(1) also do: the working folder among the device
// files, extended attributes, and functions that access files from within the C library, where
// interposed ones are not called.
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include "app/softhca/uverbs/original.hpp"
#include "app/softhca/uverbs/paths.hpp"

#include <climits>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

namespace {

using namespace softhca::uverbs;

using Filter = int (*)(const dirent*);
using Compare = int (*)(const dirent**, const dirent**);

namespace original {
constinit Original<int(const char*)> chdir{"chdir"};
constinit Original<char*(char*, size_t)> getcwd{"getcwd"};
constinit Original<char*()> get_current_dir_name{"get_current_dir_name"};
constinit Original<int(const char*, dirent***, Filter, Compare)> scandir{"scandir"};
constinit Original<ssize_t(const char*, const char*, void*, size_t)> getxattr{"getxattr"};
constinit Original<ssize_t(const char*, const char*, void*, size_t)> lgetxattr{"lgetxattr"};
constinit Original<ssize_t(const char*, char*, size_t)> listxattr{"listxattr"};
constinit Original<ssize_t(const char*, char*, size_t)> llistxattr{"llistxattr"};
} // namespace original

__attribute__((constructor)) void prepare() {
    const auto look_up = [](auto&... functions) { (functions.get(), ...); };
    look_up(original::chdir, original::getcwd, original::get_current_dir_name, original::scandir,
            original::getxattr, original::lgetxattr, original::listxattr, original::llistxattr);
}

/// Whether the working folder is among the device files; `path` then becomes its name there.
bool is_among_ours(char (&path)[PATH_MAX]) {
    return original::getcwd(path, sizeof path) && strip_root(path);
}

/// As getcwd(3): room for at least `size` bytes where the caller passes no buffer.
char* give_out(const char* path, char* out, size_t size) {
    const size_t length = std::strlen(path) + 1;
    if (!out && size == 0) size = length;
    if (size < length) {
        errno = size ? ERANGE : EINVAL;
        return nullptr;
    }
    if (!out) out = static_cast<char*>(std::malloc(size));
    if (out) std::memcpy(out, path, length);
    return out;
}

} // namespace

extern "C" {

SOFTHCA_EXPORT int chdir(const char* path) noexcept {
    return original::chdir(RedirectedPath(path).get());
}

SOFTHCA_EXPORT char* getcwd(char* out, size_t size) noexcept {
    char path[PATH_MAX];
    return is_among_ours(path) ? give_out(path, out, size) : original::getcwd(out, size);
}
SOFTHCA_EXPORT char* __getcwd_chk(char* out, size_t size, size_t) { return getcwd(out, size); }
/// Elsewhere it may be the name in $PWD, of a link to the folder.
SOFTHCA_EXPORT char* get_current_dir_name() noexcept {
    char path[PATH_MAX];
    return is_among_ours(path) ? give_out(path, nullptr, 0) : original::get_current_dir_name();
}

SOFTHCA_EXPORT int scandir(const char* path, dirent*** out, Filter filter, Compare compare) {
    return original::scandir(RedirectedPath(path).get(), out, filter, compare);
}
static_assert(sizeof(dirent) == sizeof(dirent64));
SOFTHCA_EXPORT int scandir64(const char* path, dirent64*** out, int (*filter)(const dirent64*),
                             int (*compare)(const dirent64**, const dirent64**)) {
    return scandir(path, reinterpret_cast<dirent***>(out), reinterpret_cast<Filter>(filter),
                   reinterpret_cast<Compare>(compare));
}

SOFTHCA_EXPORT ssize_t getxattr(const char* path, const char* name, void* out,
                                size_t size) noexcept {
    return original::getxattr(RedirectedPath(path).get(), name, out, size);
}
SOFTHCA_EXPORT ssize_t lgetxattr(const char* path, const char* name, void* out,
                                 size_t size) noexcept {
    return original::lgetxattr(RedirectedPath(path).get(), name, out, size);
}
SOFTHCA_EXPORT ssize_t listxattr(const char* path, char* out, size_t size) noexcept {
    return original::listxattr(RedirectedPath(path).get(), out, size);
}
SOFTHCA_EXPORT ssize_t llistxattr(const char* path, char* out, size_t size) noexcept {
    return original::llistxattr(RedirectedPath(path).get(), out, size);
}

SOFTHCA_EXPORT int euidaccess(const char* path, int mode) noexcept {
    return faccessat(AT_FDCWD, path, mode, AT_EACCESS);
}
SOFTHCA_EXPORT int eaccess(const char* path, int mode) noexcept { return euidaccess(path, mode); }

} // extern "C"
