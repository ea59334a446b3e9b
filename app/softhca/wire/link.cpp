// SPDX-License-Identifier: BSD-3-Clause
// link:NAME: a lossless cable in shared memory between two processes of one user.
//
// Locks on bytes of the shared memory file show which end is in use: the kernel releases them when
// a process dies, however it dies. They are locks of the open file (OFD), so they also distinguish
// two ends within one process.
#include "app/softhca/own_fd.hpp"
#include "app/softhca/wire/cable.hpp"
#include "app/softhca/wire/wires.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>

namespace softhca::wire {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kAlivePeriod = std::chrono::milliseconds(20); // between looks whether the peer lives
constexpr auto kSetupPatience = std::chrono::seconds(2);     // for the other end's plugging in

constexpr off_t kSetupLock = 2; // bytes 0 and 1 belong to the ends

struct flock lock_of(off_t byte, short type) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = byte;
    lock.l_len = 1;
    return lock;
}

bool try_lock(int fd, off_t byte) {
    struct flock lock = lock_of(byte, F_WRLCK);
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

void unlock(int fd, off_t byte) {
    struct flock lock = lock_of(byte, F_UNLCK);
    fcntl(fd, F_OFD_SETLK, &lock);
}

bool locked_by_other(int fd, off_t byte) {
    struct flock lock = lock_of(byte, F_WRLCK);
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool lock_setup(int fd) {
    const auto deadline = Clock::now() + kSetupPatience;
    while (!try_lock(fd, kSetupLock)) {
        if (Clock::now() > deadline) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

/// One end of the shared memory, locked and mapped. The last end removes the file.
class LinkSeat {
  public:
    LinkSeat(std::string file, Fd fd, Cable* cable, unsigned end)
        : file_(std::move(file)), fd_(std::move(fd)), cable_(cable), end_(end) {}
    LinkSeat(LinkSeat&& other) noexcept
        : file_(std::move(other.file_)), fd_(std::move(other.fd_)),
          cable_(std::exchange(other.cable_, nullptr)), end_(other.end_) {}
    LinkSeat& operator=(LinkSeat&&) = delete;
    ~LinkSeat() {
        if (!cable_) return;
        munmap(cable_, sizeof *cable_);
        if (lock_setup(fd_.get()) && !locked_by_other(fd_.get(), 1 - end_))
            shm_unlink(file_.c_str());
    }

    [[nodiscard]] Cable& cable() const { return *cable_; }
    [[nodiscard]] unsigned end() const { return end_; }
    [[nodiscard]] bool other_end_in_use() const { return locked_by_other(fd_.get(), 1 - end_); }

  private:
    std::string file_;
    OwnFd fd_;
    Cable* cable_;
    unsigned end_;
};

/// The seat is a base class before the end, so that it is released only after unplugging.
class LinkWire final : LinkSeat, public CableEnd {
  public:
    explicit LinkWire(LinkSeat seat)
        : LinkSeat(std::move(seat)), CableEnd(LinkSeat::cable(), LinkSeat::end()) {}

  private:
    bool peer_alive() override {
        const auto now = Clock::now();
        if (now - last_look_ < kAlivePeriod) return true; // as far as we know
        last_look_ = now;
        return other_end_in_use();
    }

    Clock::time_point last_look_{};
};

/// Opens the file with the setup lock held; not a file that its last user is just removing.
Result<Fd> open_locked(const std::string& name, const std::string& file) {
    for (;;) { // ends: each time round, another end has come and gone
        Fd fd(shm_open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        if (!fd)
            return fail(errno,
                        "wire link:{}: cannot open shared memory {} ({}); /dev/shm must be "
                        "mounted, and the file must be this user's",
                        name, file, std::strerror(errno));
        if (!lock_setup(fd.get()))
            return fail(EBUSY, "wire link:{}: the other end's process hangs while it plugs in",
                        name);
        struct stat status {};
        if (fstat(fd.get(), &status) == 0 && status.st_nlink > 0) return fd;
    }
}

/// The first end creates a new cable, whatever earlier users left behind; the second joins it.
Result<Cable*> map_cable(const std::string& name, const std::string& file, int fd, bool first) {
    struct stat status {};
    if (first && ftruncate(fd, 0) < 0)
        return fail(errno, "wire link:{}: {}: {}", name, file, std::strerror(errno));
    if (!first && (fstat(fd, &status) < 0 || status.st_size != off_t(sizeof(Cable))))
        return fail(EPROTO, "wire link:{}: the other end is of another softhca version", name);
    // Allocated now: running out of memory later would be a SIGBUS.
    if (const int error = posix_fallocate(fd, 0, sizeof(Cable)); first && error)
        return fail(error,
                    "wire link:{}: no {} bytes in /dev/shm ({}); make it larger (in a "
                    "container: --shm-size)",
                    name, sizeof(Cable), std::strerror(error));
    void* memory = mmap(nullptr, sizeof(Cable), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return fail(errno, "wire link:{}: cannot map {} ({})", name, file, std::strerror(errno));
    madvise(memory, sizeof(Cable), MADV_DONTFORK); // a mapping keeps the file's locks, too
    auto* cable = static_cast<Cable*>(memory);
    if (first) cable->magic = kCableMagic;
    if (cable->magic != kCableMagic) {
        munmap(memory, sizeof(Cable));
        return fail(EPROTO, "wire link:{}: the other end is of another softhca version", name);
    }
    return cable;
}

/// Names in /dev/shm; they contain the user, so that users do not collide.
std::string file_prefix() { return fmt::format("softhca-{}-", geteuid()); }

} // namespace

void remove_dead_links() {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
        const std::string name = entry.path().filename();
        if (!name.starts_with(file_prefix())) continue;
        const Fd fd(shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
        if (fd && try_lock(fd.get(), kSetupLock) && !locked_by_other(fd.get(), 0) &&
            !locked_by_other(fd.get(), 1))
            shm_unlink(name.c_str());
    }
}

OpenedWire open_link(const LinkSpec& spec) {
    const std::string file = fmt::format("/{}{}", file_prefix(), spec.name);
    auto fd = open_locked(spec.name, file);
    if (!fd) return tl::unexpected(fd.error());
    unsigned end = 0;
    while (end < 2 && !try_lock(fd->get(), end))
        ++end;
    if (end == 2)
        return fail(EBUSY, "wire link:{}: both ends are in use by other ports; a link has two ends",
                    spec.name);
    const bool first = !locked_by_other(fd->get(), 1 - end);
    auto cable = map_cable(spec.name, file, fd->get(), first);
    if (!cable) return tl::unexpected(cable.error());
    const int locked = fd->get();
    auto wire = std::make_unique<LinkWire>(LinkSeat(file, std::move(*fd), *cable, end));
    unlock(locked, kSetupLock);
    return wire;
}

} // namespace softhca::wire
