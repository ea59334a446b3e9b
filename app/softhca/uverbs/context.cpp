// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/context.hpp"

#include "app/softhca/core/rings/mlx5/doorbells.hpp"
#include "app/softhca/uverbs/commands.hpp"
#include "app/softhca/uverbs/within_memory.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace softhca::uverbs {

namespace {

uint64_t next_serial() {
    static std::atomic<uint64_t> last{0};
    return ++last;
}

} // namespace

Context::Context(Port& context_port)
    : port(context_port), serial(next_serial()),
      doorbells_(memfd_create("softhca-doorbells", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    // The program has the descriptor, too, and the device reads these pages.
    if (doorbells_) std::ignore = fcntl(doorbells_.get(), F_ADD_SEALS, F_SEAL_SHRINK);
    port.contexts.add(*this);
}

Context::~Context() {
    port.contexts.remove(*this);
    if (!device) return;
    objects.destroy_all(*device);
}

Errno Context::become(int fd) const {
    const int flags = fcntl(fd, F_GETFD);
    // The system call itself: descriptors that the program duplicates are recorded.
    if (flags < 0 || !doorbells_ ||
        syscall(SYS_dup3, doorbells_.get(), fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0)
        return errno;
    return 0;
}

Errno Context::add_doorbell_page(uint32_t page) {
    const auto end = static_cast<off_t>(uar_offset(page + 1));
    return ftruncate(doorbells_.get(), end) == 0 ? 0 : errno;
}

std::shared_ptr<core::SendRegisters> Context::map_registers(uint32_t page) const {
    constexpr size_t kBytes = core::mlx5_rings::kUarBytes;
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, doorbells_.get(),
                              static_cast<off_t>(uar_offset(page)));
    if (memory == MAP_FAILED) return nullptr;
    const std::shared_ptr<void> owner(memory, [](void* gone) { munmap(gone, kBytes); });
    return core::mlx5_rings::send_registers(static_cast<std::byte*>(memory), owner);
}

Errno Context::ioctl(ib_uverbs_ioctl_hdr* header) {
    CallMemory memory;
    // Check for writable at once, as it must be in the end.
    if (!memory.has(header, sizeof *header, true) && !memory.has(header, sizeof *header))
        return EFAULT;
    const size_t size = sizeof *header + header->num_attrs * sizeof header->attrs[0];
    constexpr size_t kMaxBytes = 4096; // a page
    if (header->length != size || size > kMaxBytes) return EINVAL;
    if (header->reserved1 || header->reserved2) return EPROTONOSUPPORT;
    if (header->driver_id != RDMA_DRIVER_MLX5) return EINVAL;
    if (!memory.has(header, size, true)) return EFAULT; // handles are answered there
    const std::lock_guard lock(mutex_);
    return within_memory([&] { return run_method(*this, IoctlAttributes(*header, memory)); });
}

std::optional<int> Context::on_write(const void* data, size_t size) {
    const std::lock_guard lock(mutex_);
    return within_memory([&] { return run_written(*this, data, size); });
}

void* Context::map(void* address, size_t length, int flags, off_t offset) {
    const auto place = static_cast<uint64_t>(offset);
    if (place == kClockOffset)
        return port.clock.map(ClockPage::Part::clock, address, length, flags);
    if (place == kClockInfoOffset)
        return port.clock.map(ClockPage::Part::info, address, length, flags);
    bool allocated = false;
    if (length == size_t{1} << kUarPageShift) {
        const std::lock_guard lock(mutex_);
        objects.for_each<DoorbellPage>(
            [&](const DoorbellPage& page) { allocated |= uar_offset(page.page) == place; });
    }
    if (!allocated) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    // Also readable where a real doorbell page is not: the same memory, and nobody depends on a
    // fault.
    return mmap(address, length, PROT_READ | PROT_WRITE, flags, doorbells_.get(), offset);
}

Errno Context::pin_queue(Object& queue, uint64_t ring, uint64_t length, uint64_t doorbell) {
    if (const Errno error = queue.pages.pin(ring, length)) return error;
    std::erase_if(doorbell_pages_, [](const auto& known) { return known.second.expired(); });
    constexpr uint64_t kPage = 4096;
    auto& known = doorbell_pages_[doorbell / kPage];
    queue.doorbell_page = known.lock();
    if (queue.doorbell_page) return 0;
    known = queue.doorbell_page = std::make_shared<PinnedPages>();
    return queue.doorbell_page->pin(doorbell, 1);
}

void Context::trace(std::string_view what, Errno error) const {
    constexpr int kEveryCommand = 2;
    const Runtime* runtime = Runtime::get();
    if (!runtime || runtime->config().verbose < kEveryCommand) return;
    const std::string line = fmt::format("softhca: {}: {}: {}\n", port.config.device, what,
                                         error ? std::strerror(error) : "ok");
    std::fputs(line.c_str(), stderr);
}

} // namespace softhca::uverbs
