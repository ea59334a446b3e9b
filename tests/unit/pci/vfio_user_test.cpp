// SPDX-License-Identifier: BSD-3-Clause
// The vfio-user transport from the client's side of its socket, as used by QEMU's vfio-user-pci.
#include "app/softhca/pci/transport_vfio_user.hpp"
#include "tests/unit/pci/guest.hpp"

#include <cerrno>
#include <linux/vfio.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>

namespace pci_test {
namespace {

struct Header {
    uint16_t id, command;
    uint32_t size, flags, error;
};
enum : uint16_t {
    kVersion = 1,
    kDmaMap,
    kDmaUnmap,
    kInfo,
    kRegionInfo,
    kIrqInfo = 7,
    kSetIrqs,
    kRead,
    kWrite,
    kReset = 13
};
constexpr uint32_t kReply = 1, kError = 0x20, kNoReply = 0x10;

struct DmaMap {
    uint32_t argsz = sizeof(DmaMap), flags = 3;
    uint64_t offset = 0, address = 0, size = 0;
};
struct DmaUnmap {
    uint32_t argsz = sizeof(DmaUnmap), flags = 0;
    uint64_t address = 0, size = 0;
};
struct Access {
    uint64_t offset;
    uint32_t region, count;
};

template <class T> std::vector<uint8_t> bytes_of(const T& value) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(&value);
    return {bytes, bytes + sizeof value};
}

class VfioUserTest : public Guest {
  protected:
    struct Reply {
        uint32_t error = 0;
        std::vector<uint8_t> body;
        template <class T> [[nodiscard]] T as() const {
            T value{};
            EXPECT_GE(body.size(), sizeof value);
            std::memcpy(&value, body.data(), std::min(sizeof value, body.size()));
            return value;
        }
    };

    VfioUserTest() {
        function->with_memory([](GuestMemory& memory) { memory.clear(); }); // DMA_MAP will add it
        int pair[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        client = Fd(pair[0]);
        server = std::thread(
            [this, socket = pair[1]] { result = serve_vfio_user(*function, Fd(socket)); });
    }
    ~VfioUserTest() override {
        client = Fd();
        if (server.joinable()) server.join();
    }
    void send_message(uint16_t command, const std::vector<uint8_t>& body,
                      const std::vector<int>& fds = {}, uint32_t flags = 0) {
        Header header{++id, command, static_cast<uint32_t>(sizeof(Header) + body.size()), flags, 0};
        iovec pieces[] = {{&header, sizeof header},
                          {const_cast<uint8_t*>(body.data()), body.size()}};
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 32)] = {};
        msghdr message{};
        message.msg_iov = pieces;
        message.msg_iovlen = 2;
        if (!fds.empty()) {
            message.msg_control = control;
            message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
            cmsghdr* const part = CMSG_FIRSTHDR(&message);
            part->cmsg_level = SOL_SOCKET;
            part->cmsg_type = SCM_RIGHTS;
            part->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
            std::memcpy(CMSG_DATA(part), fds.data(), sizeof(int) * fds.size());
        }
        ASSERT_EQ(sendmsg(client.get(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(header.size));
    }
    Reply ask(uint16_t command, const std::vector<uint8_t>& body,
              const std::vector<int>& fds = {}) {
        send_message(command, body, fds);
        Header header{};
        EXPECT_EQ(recv(client.get(), &header, sizeof header, MSG_WAITALL), 16);
        EXPECT_EQ(header.id, id);
        EXPECT_EQ(header.command, command);
        EXPECT_EQ(header.flags, header.error ? kReply | kError : kReply);
        Reply reply{.error = header.error, .body = std::vector<uint8_t>(header.size - 16)};
        if (!reply.body.empty()) {
            EXPECT_EQ(recv(client.get(), reply.body.data(), reply.body.size(), MSG_WAITALL),
                      static_cast<ssize_t>(reply.body.size()));
        }
        return reply;
    }
    uint32_t map(uint64_t address, uint64_t size, uint64_t offset) {
        const DmaMap region{.offset = offset, .address = address, .size = size};
        return ask(kDmaMap, bytes_of(region), {memory_file.get()}).error;
    }
    uint64_t read(uint32_t region, uint64_t offset, uint32_t count) {
        const Reply reply = ask(kRead, bytes_of(Access{offset, region, count}));
        uint64_t value = 0;
        EXPECT_EQ(reply.body.size(), sizeof(Access) + count);
        std::memcpy(&value, reply.body.data() + sizeof(Access), count);
        return value;
    }
    uint32_t write(uint32_t region, uint64_t offset, uint64_t value, uint32_t count) {
        auto body = bytes_of(Access{offset, region, count});
        const auto data = bytes_of(value);
        body.insert(body.end(), data.begin(), data.begin() + count);
        return ask(kWrite, body).error;
    }
    uint32_t set_irqs(uint32_t flags, uint32_t start, uint32_t count,
                      const std::vector<int>& fds = {}, uint32_t index = VFIO_PCI_MSIX_IRQ_INDEX) {
        vfio_irq_set set{};
        set.argsz = sizeof set;
        set.flags = flags;
        set.index = index;
        set.start = start;
        set.count = count;
        return ask(kSetIrqs, bytes_of(set), fds).error;
    }
    static bool fired(const Fd& eventfd) {
        pollfd waiting{eventfd.get(), POLLIN, 0};
        eventfd_t count = 0;
        return ::poll(&waiting, 1, 0) == 1 && eventfd_read(eventfd.get(), &count) == 0;
    }

    Fd client;
    std::thread server;
    Result<void> result;
    uint16_t id = 0;
};

constexpr uint32_t kConfig = VFIO_PCI_CONFIG_REGION_INDEX;

TEST_F(VfioUserTest, VersionsAndCapabilitiesAreNegotiated) {
    const std::string ours =
        R"({"capabilities":{"max_msg_fds":8,"max_data_xfer_size":1048576,"pgsizes":4096}})";
    std::vector<uint8_t> body = {0, 0, 9, 0};
    body.insert(body.end(), ours.c_str(), ours.c_str() + ours.size() + 1);
    const Reply reply = ask(kVersion, body);
    EXPECT_EQ(reply.as<uint32_t>(), 0u) << "0.0";
    const auto json = nlohmann::json::parse(reinterpret_cast<const char*>(reply.body.data()) + 4);
    EXPECT_EQ(json["capabilities"]["max_msg_fds"], 8) << "no more than the client takes";
    EXPECT_EQ(json["capabilities"]["max_data_xfer_size"], 1048576);
    EXPECT_FALSE(json["capabilities"].contains("pgsizes")) << "the default will do";
    EXPECT_EQ(ask(kVersion, {0, 0, 0, 0}).error, 0u) << "without data";
    EXPECT_EQ(ask(kVersion, {0, 0, 0, 0, '{', '[', 0}).error, 0u);
    EXPECT_EQ(ask(kVersion, {1, 0, 0, 0}).error, static_cast<uint32_t>(EINVAL));
}

TEST_F(VfioUserTest, TheDeviceDescribesItself) {
    const Reply info = ask(kInfo, std::vector<uint8_t>(16));
    EXPECT_EQ(info.body.size(), 16u) << "QEMU has no room for more";
    const auto device_info = info.as<std::array<uint32_t, 4>>();
    EXPECT_EQ(device_info[1], VFIO_DEVICE_FLAGS_RESET | VFIO_DEVICE_FLAGS_PCI);
    EXPECT_EQ(device_info[2], uint32_t{VFIO_PCI_NUM_REGIONS});
    EXPECT_EQ(device_info[3], uint32_t{VFIO_PCI_NUM_IRQS});
    const auto region = [&](uint32_t index) {
        vfio_region_info info{};
        info.argsz = sizeof info;
        info.index = index;
        return ask(kRegionInfo, bytes_of(info));
    };
    EXPECT_EQ(region(0).as<vfio_region_info>().size, BarLayout::kBytes);
    EXPECT_EQ(region(1).as<vfio_region_info>().size, 0u);
    EXPECT_EQ(region(kConfig).as<vfio_region_info>().size, 256u);
    EXPECT_EQ(region(kConfig).as<vfio_region_info>().flags, 3u) << "read, write, no mmap";
    EXPECT_EQ(region(VFIO_PCI_NUM_REGIONS).error, static_cast<uint32_t>(EINVAL));
    const auto irqs = [&](uint32_t index) {
        vfio_irq_info info{};
        info.argsz = sizeof info;
        info.index = index;
        return ask(kIrqInfo, bytes_of(info));
    };
    EXPECT_EQ(irqs(VFIO_PCI_MSIX_IRQ_INDEX).as<vfio_irq_info>().count, BarLayout::kVectors);
    EXPECT_EQ(irqs(VFIO_PCI_INTX_IRQ_INDEX).as<vfio_irq_info>().count, 0u);
    EXPECT_EQ(irqs(VFIO_PCI_NUM_IRQS).error, static_cast<uint32_t>(EINVAL));
}

TEST_F(VfioUserTest, RegionsAreReadAndWritten) {
    EXPECT_EQ(read(kConfig, 0, 4), 0x101715b3u);
    EXPECT_EQ(read(kConfig, 1, 2), 0x1715u) << "unaligned";
    EXPECT_EQ(ask(kRead, bytes_of(Access{0, kConfig, 256})).body.size(), 16u + 256);
    EXPECT_EQ(read(0, 0, 4), net::to_be(uint32_t{35u << 16 | 16})) << "firmware revision";
    EXPECT_EQ(write(kConfig, 4, 0x0006, 2), 0u);
    EXPECT_EQ(read(kConfig, 4, 2), 6u);
    EXPECT_EQ(write(0, 0x10, 0, 4), 0u);
    EXPECT_EQ(write(0, 0x14, net::to_be(uint32_t{0x77000}), 4), 0u);
    EXPECT_EQ(net::to_be(static_cast<uint32_t>(read(0, 0x14, 4))), 0x77056u);
    for (const Access outside :
         {Access{253, kConfig, 4}, Access{BarLayout::kBytes, 0, 1}, Access{~uint64_t{0}, 0, 4},
          Access{0, 1, 1}, Access{0, 99, 1}, Access{0, 0, 2u << 20}}) {
        EXPECT_EQ(ask(kRead, bytes_of(outside)).error, static_cast<uint32_t>(EINVAL));
        EXPECT_EQ(ask(kWrite, bytes_of(outside)).error, static_cast<uint32_t>(EINVAL));
    }
    EXPECT_EQ(ask(kWrite, bytes_of(Access{0, 0, 4})).error, static_cast<uint32_t>(EINVAL))
        << "no data";
}

TEST_F(VfioUserTest, CommandsRunInMemoryThatIsMapped) {
    const auto works = [&] { return execute(REQUEST(QUERY_ISSI, query_issi)).delivery == 0; };
    EXPECT_FALSE(works());
    ASSERT_EQ(map(0, kMemory / 2, 0), 0u);
    EXPECT_TRUE(works());
    ASSERT_EQ(map(kMemory / 2, kMemory / 2, kMemory / 2), 0u);
    EXPECT_EQ(map(0x10000, 0x1000, 0), static_cast<uint32_t>(EEXIST));
    EXPECT_EQ(map(kMemory, 2 * kMemory, 0), static_cast<uint32_t>(EINVAL)) << "file too short";
    EXPECT_EQ(map(~uint64_t{0} - 4095, 8192, 0), static_cast<uint32_t>(EINVAL)) << "wraps";
    // The halves are contiguous in the host's memory: one is unmapped, the other stays.
    EXPECT_EQ(ask(kDmaUnmap, bytes_of(DmaUnmap{.address = 0, .size = kMemory / 2})).error, 0u);
    EXPECT_FALSE(works());
    function->with_memory([&](GuestMemory& memory) {
        EXPECT_EQ(memory.translate(kMemory / 2 - 8, 8), nullptr);
        EXPECT_NE(memory.translate(kMemory / 2, 8), nullptr);
    });
    ASSERT_EQ(map(0, kMemory / 2, 0), 0u);
    EXPECT_TRUE(works());
    EXPECT_EQ(ask(kDmaUnmap, bytes_of(DmaUnmap{.flags = VFIO_DMA_UNMAP_FLAG_ALL})).error, 0u);
    EXPECT_FALSE(works());
    const DmaMap unmappable{.address = 0, .size = 4096};
    EXPECT_EQ(ask(kDmaMap, bytes_of(unmappable)).error, 0u) << "device memory of another";
}

TEST_F(VfioUserTest, VectorsSignalTheirEventfds) {
    constexpr uint32_t kEventfds = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
    constexpr uint32_t kNone = VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER;
    const Fd first(eventfd(0, EFD_CLOEXEC)), second(eventfd(0, EFD_CLOEXEC));
    ASSERT_EQ(set_irqs(kEventfds, 2, 2, {first.get(), second.get()}), 0u);
    function->interrupts().raise(3);
    EXPECT_FALSE(fired(first));
    EXPECT_TRUE(fired(second));
    EXPECT_EQ(set_irqs(kNone, 2, 1), 0u);
    EXPECT_TRUE(fired(first)) << "by the client itself";
    EXPECT_EQ(set_irqs(kEventfds, 3, 1), 0u) << "taken away";
    function->interrupts().raise(3);
    EXPECT_FALSE(fired(second));
    ASSERT_EQ(set_irqs(kEventfds, 3, 1, {second.get()}), 0u);
    EXPECT_TRUE(fired(second)) << "what came meanwhile is not lost";
    EXPECT_EQ(set_irqs(kNone, 0, 0), 0u) << "all off";
    function->interrupts().raise(2);
    EXPECT_FALSE(fired(first));
    const auto invalid = static_cast<uint32_t>(EINVAL);
    EXPECT_EQ(set_irqs(kEventfds, 31, 2, {first.get(), second.get()}), invalid);
    EXPECT_EQ(set_irqs(kEventfds, ~0u, 1, {first.get()}), invalid);
    EXPECT_EQ(set_irqs(kEventfds, 0, 2, {first.get()}), invalid) << "one for two";
    EXPECT_EQ(set_irqs(kEventfds, 0, 1, {first.get()}, VFIO_PCI_INTX_IRQ_INDEX), invalid);
}

TEST_F(VfioUserTest, ResetMakesAFreshDevice) {
    ASSERT_EQ(map(0, kMemory, 0), 0u);
    start_driver();
    EXPECT_EQ(write(kConfig, 4, 0x0006, 2), 0u);
    EXPECT_EQ(ask(kReset, {}).error, 0u);
    EXPECT_EQ(read(kConfig, 4, 2), 0u);
    EXPECT_EQ(net::to_be(static_cast<uint32_t>(read(0, 0x14, 4))), 0x56u);
}

TEST_F(VfioUserTest, UnknownRequestsAreRefusedAndQuietOnesNotAnswered) {
    EXPECT_EQ(ask(16, std::vector<uint8_t>(8)).error, static_cast<uint32_t>(ENOTSUP));
    EXPECT_EQ(ask(kDmaMap, {1, 2, 3}).error, static_cast<uint32_t>(EINVAL));
    send_message(kReset, {}, {}, kNoReply);
    EXPECT_EQ(read(kConfig, 0, 2), 0x15b3u) << "the next answer is this one's";
}

TEST_F(VfioUserTest, AMessageOfImpossibleSizeEndsTheConnection) {
    const Header header{1, kRead, 8, 0, 0};
    ASSERT_EQ(send(client.get(), &header, sizeof header, 0), 16);
    server.join();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, EPROTO);
}

TEST_F(VfioUserTest, AClientThatLeavesEndsTheService) {
    client = Fd();
    server.join();
    EXPECT_TRUE(result);
}

} // namespace
} // namespace pci_test
