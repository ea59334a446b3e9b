// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/fd_table.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <unistd.h>
#include <unordered_map>

namespace softhca::uverbs::fd_table {
namespace {

constexpr int kMaxFd = 1 << 20; // the kernel's default limit (fs.nr_open)

/// One bit per descriptor. Its pages are only touched near numbers that are in use.
constinit std::array<std::atomic<uint64_t>, kMaxFd / 64> held{};

struct Table {
    std::mutex mutex;
    std::unordered_map<int, std::shared_ptr<OpenFile>> files;
    pid_t owner = getpid();
};

/// Created on first use and never destroyed: other libraries close descriptors until the very end.
constinit std::atomic<Table*> current{nullptr};

Table& table() {
    Table* known = current.load(std::memory_order_acquire);
    if (known) return *known;
    auto* fresh = new Table;
    if (current.compare_exchange_strong(known, fresh)) return *fresh;
    delete fresh;
    return *known;
}

void mark(int fd, bool on) {
    const uint64_t bit = uint64_t{1} << (fd % 64);
    auto& word = held[static_cast<size_t>(fd / 64)];
    on ? word.fetch_or(bit) : word.fetch_and(~bit);
}

} // namespace

bool may_hold(int fd) {
    if (fd < 0 || fd >= kMaxFd) return false;
    const auto& word = held[static_cast<size_t>(fd / 64)];
    return word.load(std::memory_order_relaxed) >> (fd % 64) & 1;
}

bool insert(int fd, std::shared_ptr<OpenFile> file) {
    if (fd < 0 || fd >= kMaxFd) return false;
    Table& all = table();
    if (all.owner != getpid()) return true; // a child of vfork(2): a table of its own, not ours
    const std::lock_guard lock(all.mutex);
    all.files[fd].swap(file); // what was there is destroyed after the lock is given up
    mark(fd, true);
    return true;
}

std::shared_ptr<OpenFile> find(int fd) {
    if (!may_hold(fd)) return nullptr;
    Table& all = table();
    if (all.owner != getpid()) return nullptr;
    const std::lock_guard lock(all.mutex);
    const auto found = all.files.find(fd);
    return found == all.files.end() ? nullptr : found->second;
}

void release(int fd) {
    if (!may_hold(fd)) return;
    Table& all = table();
    if (all.owner != getpid()) return;
    std::shared_ptr<OpenFile> last; // destroyed after the lock is given up
    const std::lock_guard lock(all.mutex);
    const auto found = all.files.find(fd);
    if (found == all.files.end()) return;
    last = std::move(found->second);
    all.files.erase(found);
    mark(fd, false);
}

bool duplicated(int from, int to) {
    auto file = find(from);
    if (file) return insert(to, std::move(file));
    release(to);
    return true;
}

void release_range(unsigned first, unsigned last) {
    last = std::min<unsigned>(last, kMaxFd - 1);
    for (unsigned fd = first; fd <= last; fd++) {
        if (held[fd / 64].load(std::memory_order_relaxed) != 0)
            release(static_cast<int>(fd));
        else
            fd |= 63; // the last of its word
    }
}

void forget_all() {
    // The parent's table is leaked: another thread of the parent may have held its lock.
    if (!current.exchange(nullptr)) return;
    for (auto& word : held)
        if (word.load(std::memory_order_relaxed)) word.store(0, std::memory_order_relaxed);
}

} // namespace softhca::uverbs::fd_table
