// SPDX-License-Identifier: BSD-3-Clause
// An opened uverbs device: the kernel's side of a struct ibv_context.
#pragma once

#include "app/softhca/uverbs/devx.hpp"
#include "app/softhca/uverbs/events.hpp"
#include "app/softhca/uverbs/fd_table.hpp"
#include "app/softhca/uverbs/objects.hpp"
#include "app/softhca/uverbs/runtime.hpp"
#include "common/fd.hpp"

#include <cerrno>
#include <mutex>
#include <optional>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <set>
#include <sys/types.h>

namespace softhca::uverbs {

/// Created when the device node is opened. The devices start when the program requests the context
/// (GET_CONTEXT), so that a wire that cannot be opened is an error at once and with its own errno.
/// Closing the last descriptor destroys all objects.
///
/// Commands run one at a time. `device`, `objects` and `events` are for the command functions,
/// which run with the context locked.
class Context final : public OpenFile {
  public:
    explicit Context(Port& context_port);
    ~Context() override;

    /// Replaces the file that the descriptor was opened as with the memory of the doorbell pages,
    /// so that any process that receives the descriptor maps the same pages. Positive errno, or 0.
    [[nodiscard]] Errno become(int fd) const;
    /// Makes room for the doorbell page. Positive errno, or 0.
    [[nodiscard]] Errno add_doorbell_page(uint32_t page);
    /// The registers in that page, as mapped in this process; null: out of memory.
    [[nodiscard]] std::shared_ptr<core::SendRegisters> map_registers(uint32_t page) const;

    /// The RDMA_VERBS_IOCTL call. Returns 0 or a positive errno.
    [[nodiscard]] Errno ioctl(ib_uverbs_ioctl_hdr* header);
    /// As from a device that cannot be read.
    [[nodiscard]] std::optional<ReadResult> on_read(int, void*, size_t) override {
        return ReadResult{.error = EINVAL};
    }
    /// A command of the classic ABI.
    [[nodiscard]] std::optional<int> on_write(const void* data, size_t size) override;
    /// mmap(2) on the descriptor: doorbell pages and the clock. Returns MAP_FAILED and sets errno
    /// as mmap does.
    [[nodiscard]] void* map(void* address, size_t length, int flags, off_t offset);

    /// Pins the memory of a program's queue: its ring, and the page with its doorbell record, which
    /// the queues of a context share. Positive errno, or 0.
    [[nodiscard]] Errno pin_queue(Object& queue, uint64_t ring, uint64_t length, uint64_t doorbell);

    /// The errno with which the named command is to fail without being executed, or 0.
    [[nodiscard]] Errno injected_fault(const char* command) const {
        return port.faults.take(command);
    }
    /// Blocks commands, for code that reads the objects from outside.
    [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
    /// Prints the request and its result to stderr, if the user wants that (-vv).
    void trace(std::string_view what, Errno error) const;

    Port& port;
    const uint64_t serial;          ///< no other context of the process ever has it
    core::Device* device = nullptr; ///< null before GET_CONTEXT
    std::unique_ptr<DevxUser> devx; ///< null: the context has no firmware commands
    ObjectTable objects;
    EventReporter events;
    std::shared_ptr<EventPipe>
        default_async;     ///< of the first async file, for objects that name none
    uint32_t next_uar = 1; ///< see uar_page_after()
    /// Registers of UARs, by the numbers that commands use.
    std::map<uint32_t, std::weak_ptr<core::SendRegisters>> send_registers;
    /// The UAR of that number; null: there is none.
    [[nodiscard]] std::shared_ptr<core::SendRegisters> registers_of(uint32_t uar) const {
        const auto found = send_registers.find(uar);
        return found != send_registers.end() ? found->second.lock() : nullptr;
    }
    core::Number transport_domain = 0; ///< of its queues and TIRs
    std::optional<LoopbackUse> loopback_use;

  private:
    Fd doorbells_; ///< memory; the offsets are those of mmap(2) on the device
    std::mutex mutex_;
    std::map<uint64_t, std::weak_ptr<PinnedPages>> doorbell_pages_; ///< by address
};

inline constexpr unsigned kUarPageShift = 12;
/// mmap(2) offset of a doorbell page. Also its place in the file, which any process that receives
/// the descriptor maps; small, as a resource limit on the size of files (RLIMIT_FSIZE) applies.
[[nodiscard]] constexpr uint64_t uar_offset(uint32_t page) {
    return uint64_t{page} << kUarPageShift;
}
/// The number after this one among those of doorbell pages. The second byte of an offset's page
/// number is a command to mlx5_ib: 0 maps a page by its index, 1 to 8 map other things, and from 9
/// on (MLX5_IB_MMAP_OFFSET_START) the kernel gives offsets itself.
[[nodiscard]] constexpr uint32_t uar_page_after(uint32_t page) {
    constexpr uint32_t kCommand = 0xff00, kOtherThings = 0x100, kOwnOffsets = 0x900;
    const uint32_t command = ++page & kCommand;
    return command >= kOtherThings && command < kOwnOffsets ? (page & ~kCommand) + kOwnOffsets
                                                            : page;
}
static_assert(uar_page_after(0) == 1 && uar_page_after(0xff) == 0x900 &&
              uar_page_after(0x900) == 0x901 && uar_page_after(0x100ff) == 0x10900);
/// Offset of the device clock's page: command MLX5_IB_MMAP_CORE_CLOCK in the page number.
inline constexpr uint64_t kClockOffset = uint64_t{5} << 8 << 12;
/// Likewise of the data that translates its ticks: MLX5_IB_MMAP_CLOCK_INFO, version 1 (index 0).
inline constexpr uint64_t kClockInfoOffset = uint64_t{7} << 8 << 12;

} // namespace softhca::uverbs
