// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/pci/transport_vfio_user.hpp"

#include "app/softhca/control/protocol.hpp"
#include "app/softhca/pci/socket_file.hpp"
#include "app/softhca/pci/socket_io.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <linux/vfio.h>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <vector>

namespace softhca::pci {
namespace {

enum class Request : uint16_t {
    version = 1,
    dma_map = 2,
    dma_unmap = 3,
    device_info = 4,
    region_info = 5,
    irq_info = 7,
    set_irqs = 8,
    region_read = 9,
    region_write = 10,
    device_reset = 13,
};

struct Header {
    uint16_t id;
    Request request;
    uint32_t size; ///< with this header
    uint32_t flags;
    uint32_t error;
};
static_assert(sizeof(Header) == 16);
constexpr uint32_t kTypeMask = 0xf, kReply = 1, kNoReply = 1u << 4, kError = 1u << 5;

struct Version {
    uint16_t major, minor;
};
struct DeviceInfo { ///< vfio_device_info as of the protocol: clients have no room for more
    uint32_t argsz, flags, regions, irqs;
};
struct DmaMap {
    uint32_t argsz, flags;
    uint64_t offset, address, size;
};
struct DmaUnmap {
    uint32_t argsz, flags;
    uint64_t address, size;
};
struct Access {
    uint64_t offset;
    uint32_t region, count;
};
static_assert(sizeof(DeviceInfo) == 16 && sizeof(DmaMap) == 32 && sizeof(DmaUnmap) == 24 &&
              sizeof(Access) == 16);

constexpr uint16_t kMinor = 0;
constexpr uint32_t kMaxTransfer = 1u << 20; // the protocol's default
constexpr uint32_t kMaxMessage = kMaxTransfer + 4096;
constexpr uint32_t kUnmapAll = VFIO_DMA_UNMAP_FLAG_ALL;

struct Message {
    Header header{};
    std::vector<std::byte> body;
    std::vector<Fd> fds;

    /// The struct that the body begins with, filled up with zeros.
    template <class T> [[nodiscard]] T as() const {
        T value{};
        std::memcpy(&value, body.data(), std::min(sizeof value, body.size()));
        return value;
    }
    [[nodiscard]] std::span<const std::byte> behind(size_t head) const {
        return std::span(body).subspan(std::min(head, body.size()));
    }
};

/// An errno value, or 0 and the body of the reply.
struct Outcome {
    int error = 0;
    std::vector<std::byte> body{};
};
template <class T> Outcome answer(const T& value) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
    return {.body = std::vector<std::byte>(bytes, bytes + sizeof value)};
}

class Server {
  public:
    Server(Function& function, Fd socket) : function_(function), socket_(std::move(socket)) {
        function_.interrupts().signal_by([this](uint32_t vector) { events_.signal(vector); });
    }
    ~Server() { function_.interrupts().signal_by({}); }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    [[nodiscard]] Result<void> run();

  private:
    [[nodiscard]] Result<bool> receive(Message& message);
    [[nodiscard]] bool reply(const Message& message, const Outcome& outcome);
    [[nodiscard]] Outcome handle(Message& message);
    [[nodiscard]] Outcome version(const Message& message);
    [[nodiscard]] Outcome map(const Message& message);
    [[nodiscard]] Outcome unmap(const Message& message);
    [[nodiscard]] Outcome region_info(const Message& message);
    [[nodiscard]] Outcome irq_info(const Message& message);
    [[nodiscard]] Outcome set_irqs(Message& message);
    [[nodiscard]] Outcome read(const Message& message);
    [[nodiscard]] Outcome write(const Message& message);

    Function& function_;
    Fd socket_;
    VectorEvents events_;
};

Result<bool> Server::receive(Message& message) {
    message.fds.clear();
    auto got = receive_exactly(socket_.get(), &message.header, sizeof message.header, message.fds);
    if (!got || !*got) return got;
    const uint32_t size = message.header.size;
    if (size < sizeof(Header) || size > kMaxMessage || (message.header.flags & kTypeMask) != 0)
        return fail(EPROTO,
                    "vfio-user: a message of {} bytes, flags {:#x}, is not of this protocol", size,
                    message.header.flags);
    message.body.resize(size - sizeof(Header));
    return receive_exactly(socket_.get(), message.body.data(), message.body.size(), message.fds);
}

/// False when the client is gone.
bool Server::reply(const Message& message, const Outcome& outcome) {
    if (message.header.flags & kNoReply) return true;
    Header header = message.header;
    header.size = static_cast<uint32_t>(sizeof header + outcome.body.size());
    header.flags = outcome.error ? kReply | kError : kReply;
    header.error = static_cast<uint32_t>(outcome.error);
    std::vector<std::byte> bytes(header.size);
    std::memcpy(bytes.data(), &header, sizeof header);
    std::ranges::copy(outcome.body, bytes.begin() + sizeof header);
    for (size_t done = 0; done < bytes.size();) {
        const ssize_t sent =
            send(socket_.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        done += static_cast<size_t>(sent);
    }
    return true;
}

Outcome Server::handle(Message& message) {
    switch (message.header.request) {
    case Request::version: return version(message);
    case Request::dma_map: return map(message);
    case Request::dma_unmap: return unmap(message);
    case Request::device_info:
        return answer(DeviceInfo{.argsz = sizeof(DeviceInfo),
                                 .flags = VFIO_DEVICE_FLAGS_RESET | VFIO_DEVICE_FLAGS_PCI,
                                 .regions = VFIO_PCI_NUM_REGIONS,
                                 .irqs = VFIO_PCI_NUM_IRQS});
    case Request::region_info: return region_info(message);
    case Request::irq_info: return irq_info(message);
    case Request::set_irqs: return set_irqs(message);
    case Request::region_read: return read(message);
    case Request::region_write: return write(message);
    case Request::device_reset: function_.reset(); return {};
    }
    return {.error = ENOTSUP};
}

/// Of the capabilities, those that the client named are returned, none larger than it named: QEMU
/// takes at most 16 descriptors in a message, and ends at a larger number.
Outcome Server::version(const Message& message) {
    const auto asked = message.as<Version>();
    if (asked.major != 0) return {.error = EINVAL};
    const auto text = message.behind(sizeof asked);
    const nlohmann::json given = nlohmann::json::parse(
        std::string_view(reinterpret_cast<const char*>(text.data()),
                         strnlen(reinterpret_cast<const char*>(text.data()), text.size())),
        nullptr, /*allow_exceptions=*/false);
    const nlohmann::json theirs =
        given.is_object() ? given.value("capabilities", nlohmann::json()) : nlohmann::json();
    nlohmann::json ours = nlohmann::json::object();
    const std::pair<const char*, uint64_t> known[] = {{"max_msg_fds", BarLayout::kVectors},
                                                      {"max_data_xfer_size", kMaxTransfer}};
    for (const auto& [name, most] : known)
        if (theirs.is_object() && theirs.contains(name) && theirs[name].is_number_unsigned())
            ours[name] = std::min(most, theirs[name].get<uint64_t>());
    const std::string json = nlohmann::json{{"capabilities", ours}}.dump();
    Outcome outcome = answer(Version{0, std::min(asked.minor, kMinor)});
    const auto* const bytes = reinterpret_cast<const std::byte*>(json.c_str());
    outcome.body.insert(outcome.body.end(), bytes, bytes + json.size() + 1);
    return outcome;
}

/// A device would not reach memory without a descriptor by DMA, so it is not recorded.
Outcome Server::map(const Message& message) {
    const auto region = message.as<DmaMap>();
    if (message.body.size() < sizeof region || region.size == 0 ||
        region.address + region.size < region.address || message.fds.size() > 1)
        return {.error = EINVAL};
    return function_.with_memory([&](GuestMemory& memory) -> Outcome {
        if (memory.overlaps(region.address, region.size)) return {.error = EEXIST};
        if (message.fds.empty()) return {};
        const auto added =
            memory.add(message.fds[0].get(), region.offset, region.address, region.size);
        return {.error = added ? 0 : added.error().code};
    });
}

Outcome Server::unmap(const Message& message) {
    const auto region = message.as<DmaUnmap>();
    if (message.body.size() < sizeof region) return {.error = EINVAL};
    function_.with_memory([&](GuestMemory& memory) {
        if (region.flags & kUnmapAll)
            memory.clear();
        else
            memory.remove(region.address, region.size);
    });
    return answer(region);
}

uint64_t region_bytes(uint32_t index) {
    return index == VFIO_PCI_BAR0_REGION_INDEX     ? BarLayout::kBytes
           : index == VFIO_PCI_CONFIG_REGION_INDEX ? ConfigSpace::kBytes
                                                   : 0;
}

Outcome Server::region_info(const Message& message) {
    auto info = message.as<vfio_region_info>();
    if (info.index >= VFIO_PCI_NUM_REGIONS) return {.error = EINVAL};
    const uint64_t size = region_bytes(info.index);
    info = {.argsz = sizeof info,
            .flags = size ? VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE : 0u,
            .index = info.index,
            .cap_offset = 0,
            .size = size,
            .offset = 0};
    return answer(info);
}

Outcome Server::irq_info(const Message& message) {
    auto info = message.as<vfio_irq_info>();
    if (info.index >= VFIO_PCI_NUM_IRQS) return {.error = EINVAL};
    const bool msix = info.index == VFIO_PCI_MSIX_IRQ_INDEX;
    info.argsz = sizeof info;
    info.flags = msix ? VFIO_IRQ_INFO_EVENTFD : 0;
    info.count = msix ? BarLayout::kVectors : 0;
    return answer(info);
}

Outcome Server::set_irqs(Message& message) {
    const auto set = message.as<vfio_irq_set>();
    const auto flags = message.behind(sizeof set);
    if (message.body.size() < sizeof set || set.index != VFIO_PCI_MSIX_IRQ_INDEX ||
        !(set.flags & VFIO_IRQ_SET_ACTION_TRIGGER) || set.start > BarLayout::kVectors ||
        set.count > BarLayout::kVectors - set.start)
        return {.error = EINVAL};
    switch (set.flags & VFIO_IRQ_SET_DATA_TYPE_MASK) {
    case VFIO_IRQ_SET_DATA_NONE:
        if (set.count == 0)
            for (uint32_t vector = 0; vector < BarLayout::kVectors; vector++)
                events_.remove(vector);
        for (uint32_t i = 0; i < set.count; i++)
            events_.signal(set.start + i);
        return {};
    case VFIO_IRQ_SET_DATA_BOOL:
        if (flags.size() < set.count) return {.error = EINVAL};
        for (uint32_t i = 0; i < set.count; i++)
            if (flags[i] != std::byte{0}) events_.signal(set.start + i);
        return {};
    case VFIO_IRQ_SET_DATA_EVENTFD:
        if (!message.fds.empty() && message.fds.size() != set.count) return {.error = EINVAL};
        for (uint32_t i = 0; i < set.count; i++) {
            if (message.fds.empty())
                events_.remove(set.start + i);
            else
                events_.assign(set.start + i, std::move(message.fds[i]));
        }
        return {};
    default: return {.error = EINVAL};
    }
}

/// Whether an access lies in its region.
bool is_inside(const Access& access) {
    const uint64_t size = region_bytes(access.region);
    return access.count <= kMaxTransfer && access.count <= size &&
           access.offset <= size - access.count;
}

/// The widest access of 1, 2, 4 or (BAR) 8 bytes that is aligned and not longer than the rest.
uint32_t step(uint64_t offset, uint32_t left, uint32_t widest) {
    while (widest > left || offset % widest != 0)
        widest /= 2;
    return widest;
}

Outcome Server::read(const Message& message) {
    const auto access = message.as<Access>();
    if (message.body.size() < sizeof access || !is_inside(access)) return {.error = EINVAL};
    const bool config = access.region == VFIO_PCI_CONFIG_REGION_INDEX;
    Outcome outcome = answer(access);
    outcome.body.resize(sizeof access + access.count);
    for (uint32_t done = 0; done < access.count;) {
        const uint64_t offset = access.offset + done;
        const uint32_t bytes = step(offset, access.count - done, config ? 4 : 8);
        const uint64_t value = config ? function_.config_read(static_cast<uint32_t>(offset), bytes)
                                      : function_.bar_read(offset, bytes);
        std::memcpy(outcome.body.data() + sizeof access + done, &value, bytes);
        done += bytes;
    }
    return outcome;
}

Outcome Server::write(const Message& message) {
    const auto access = message.as<Access>();
    const auto data = message.behind(sizeof access);
    if (message.body.size() < sizeof access || !is_inside(access) || data.size() < access.count)
        return {.error = EINVAL};
    for (uint32_t done = 0; done < access.count;) {
        const uint64_t offset = access.offset + done;
        const bool config = access.region == VFIO_PCI_CONFIG_REGION_INDEX;
        const uint32_t bytes = step(offset, access.count - done, config ? 4 : 8);
        uint64_t value = 0;
        std::memcpy(&value, data.data() + done, bytes);
        if (config)
            function_.config_write(static_cast<uint32_t>(offset), static_cast<uint32_t>(value),
                                   bytes);
        else
            function_.bar_write(offset, value, bytes);
        done += bytes;
    }
    return answer(access);
}

Result<void> Server::run() {
    Message message;
    for (;;) {
        const auto got = receive(message);
        if (!got) return tl::unexpected(got.error());
        if (!*got || !reply(message, handle(message))) return {};
    }
}

} // namespace

void VectorEvents::assign(uint32_t vector, Fd eventfd) {
    const std::lock_guard lock(mutex_);
    Vector& entry = vectors_[vector];
    entry.eventfd = std::move(eventfd);
    if (std::exchange(entry.pending, false)) eventfd_write(entry.eventfd.get(), 1);
}

void VectorEvents::remove(uint32_t vector) {
    const std::lock_guard lock(mutex_);
    vectors_[vector] = {};
}

void VectorEvents::signal(uint32_t vector) {
    const std::lock_guard lock(mutex_);
    Vector& entry = vectors_[vector];
    if (entry.eventfd)
        eventfd_write(entry.eventfd.get(), 1);
    else
        entry.pending = true;
}

Result<Fd> accept_vfio_user(const std::string& path) {
    // It gets its name once it accepts connections, so a client that waits for the name finds it
    // ready.
    const std::string unready = path + ".new";
    const auto address = control::socket_address(unready);
    if (!address) return tl::unexpected(address.error());
    for (const std::string& name : {path, unready})
        if (auto removed = control::remove_old_socket(name); !removed)
            return tl::unexpected(removed.error());
    const Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!listener ||
        bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) < 0 ||
        listen(listener.get(), 1) < 0 || rename(unready.c_str(), path.c_str()) < 0)
        return fail(errno, "{}: cannot listen for vfio-user ({})", path, std::strerror(errno));
    const SocketFile file(path);
    Fd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) return fail(errno, "{}: accept: {}", path, std::strerror(errno));
    return client;
}

Result<void> serve_vfio_user(Function& function, Fd socket) {
    return Server(function, std::move(socket)).run();
}

} // namespace softhca::pci
