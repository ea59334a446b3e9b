// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/pci/transport_mpqemu.hpp"

#include "app/softhca/pci/socket_io.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <vector>

namespace softhca::pci {
namespace {

// The message format of QEMU 7.2 (include/hw/remote/mpqemu-link.h), in the machine's byte order.
enum class MessageKind : int32_t {
    sync_memory = 0,
    reply = 1,
    config_write = 2,
    config_read = 3,
    bar_write = 4,
    bar_read = 5,
    set_irqfd = 6,
    device_reset = 7,
};

struct Header {
    MessageKind kind;
    uint32_t padding;
    uint64_t size; ///< of what follows
};
static_assert(sizeof(Header) == 16);

constexpr size_t kMaxRegions = 8;
struct MemoryMap {
    uint64_t addresses[kMaxRegions];
    uint64_t sizes[kMaxRegions];
    int64_t offsets[kMaxRegions];
};
struct ConfigAccess {
    uint32_t address;
    uint32_t value;
    int32_t bytes;
};
struct BarAccess {
    uint64_t address; ///< guest-physical
    uint64_t value;
    uint32_t bytes;
    uint8_t memory;
};
static_assert(sizeof(MemoryMap) == 192 && sizeof(ConfigAccess) == 12 && sizeof(BarAccess) == 24);

struct Message {
    Header header{};
    std::array<std::byte, 256> body{};
    std::vector<Fd> fds;

    template <class T> [[nodiscard]] T as() const {
        T value;
        std::memcpy(&value, body.data(), sizeof value);
        return value;
    }
};

Result<bool> receive(int socket, Message& message) {
    message.fds.clear();
    message.body = {};
    auto got = receive_exactly(socket, &message.header, sizeof message.header, message.fds);
    if (!got || !*got) return got;
    if (message.header.size > message.body.size())
        return fail(EPROTO, "QEMU's socket: a message of {} bytes is not of x-pci-proxy-dev",
                    message.header.size);
    return receive_exactly(socket, message.body.data(), message.header.size, message.fds);
}

/// False when QEMU is gone.
bool reply(int socket, uint64_t value) {
    struct {
        Header header;
        uint64_t value;
    } answer{{MessageKind::reply, 0, sizeof value}, value};
    return send(socket, &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer;
}

void sync_memory(Function& function, const Message& message) {
    const auto map = message.as<MemoryMap>();
    function.with_memory([&](GuestMemory& memory) {
        memory.clear();
        for (size_t i = 0; i < std::min(message.fds.size(), kMaxRegions); i++) {
            const auto added =
                memory.add(message.fds[i].get(), static_cast<uint64_t>(map.offsets[i]),
                           map.addresses[i], map.sizes[i]);
            if (!added) std::fprintf(stderr, "softhca-pci: %s\n", added.error().what.c_str());
        }
    });
}

/// False when QEMU is gone.
bool handle(Function& function, int socket, const Message& message) {
    switch (message.header.kind) {
    case MessageKind::sync_memory: sync_memory(function, message); return true;
    case MessageKind::config_write: {
        const auto access = message.as<ConfigAccess>();
        function.config_write(access.address, access.value, static_cast<uint32_t>(access.bytes));
        return reply(socket, 0);
    }
    case MessageKind::config_read: {
        const auto access = message.as<ConfigAccess>();
        return reply(socket,
                     function.config_read(access.address, static_cast<uint32_t>(access.bytes)));
    }
    case MessageKind::bar_write: {
        const auto access = message.as<BarAccess>();
        // The CPU that wrote waits for the reply, not for what the write starts.
        const bool there = reply(socket, 0);
        function.bar_write(access.address - function.bar0(), access.value, access.bytes);
        return there;
    }
    case MessageKind::bar_read: {
        const auto access = message.as<BarAccess>();
        return reply(socket, function.bar_read(access.address - function.bar0(), access.bytes));
    }
    case MessageKind::device_reset: function.reset(); return reply(socket, 0);
    default: return true; // set_irqfd is for INTx, which we do not use
    }
}

} // namespace

void QtestInterrupts::deliver(uint64_t address, uint32_t data) {
    if (!socket_) {
        Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un to{};
        to.sun_family = AF_UNIX;
        std::memcpy(to.sun_path, path_.c_str(), std::min(path_.size(), sizeof to.sun_path - 1));
        if (!fd || connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) < 0 ||
            fcntl(fd.get(), F_SETFL, O_NONBLOCK) < 0) {
            if (!complained_)
                std::fprintf(stderr,
                             "softhca-pci: %s: cannot deliver interrupts (%s); start QEMU "
                             "with -qtest unix:PATH,server=on,wait=off\n",
                             path_.c_str(), std::strerror(errno));
            complained_ = true;
            return;
        }
        socket_ = std::move(fd);
    }
    char line[64];
    const int length = std::snprintf(line, sizeof line, "writel 0x%llx 0x%x\n",
                                     static_cast<unsigned long long>(address), data);
    if (send(socket_.get(), line, static_cast<size_t>(length), MSG_NOSIGNAL) != length)
        std::fprintf(stderr, "softhca-pci: an interrupt was lost (%s)\n", std::strerror(errno));
    char answers[4096];
    while (recv(socket_.get(), answers, sizeof answers, 0) > 0) {
    }
}

Result<void> serve_mpqemu(Function& function, Fd socket) {
    Message message;
    for (;;) {
        const auto got = receive(socket.get(), message);
        if (!got) return tl::unexpected(got.error());
        if (!*got || !handle(function, socket.get(), message)) return {};
    }
}

} // namespace softhca::pci
