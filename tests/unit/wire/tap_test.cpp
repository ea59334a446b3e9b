// SPDX-License-Identifier: BSD-3-Clause
// TAPs are created in a child process's network namespace, as unprivileged users may do.
#include "app/softhca/wire/tap.hpp"
#include "tests/unit/net/frames.hpp"
#include "tests/unit/wire/child.hpp"
#include "tests/unit/wire/traffic.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <fcntl.h>
#include <filesystem>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace {

using namespace wire_test;
using softhca::wire::attach_tap;
using softhca::wire::create_tap;

constexpr int kNoNamespaces = 77;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                   \
            return 1;                                                                              \
        }                                                                                          \
    } while (false)

/// Runs the body as root of a new network namespace. GTEST_SKIP if the kernel forbids that.
template <class Body> void in_namespace(Body body) {
    Child child([&] {
        const int flags = geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET;
        if (unshare(flags) < 0 || access("/dev/net/tun", R_OK | W_OK) < 0) return kNoNamespaces;
        return body();
    });
    const int status = child.wait();
    if (status == kNoNamespaces)
        GTEST_SKIP() << "needs network namespaces and /dev/net/tun: run as root";
    EXPECT_EQ(status, 0);
}

/// A packet socket on the interface: the link partner.
int packet_socket(const std::string& name) {
    const int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = int(if_nametoindex(name.c_str()));
    return bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 ? fd : -1;
}

ifreq query(const std::string& name, unsigned long what) {
    ifreq request{};
    std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (ioctl(fd, what, &request) < 0) request = {};
    close(fd);
    return request;
}

/// An experimental EtherType distinguishes frames from the namespace's own IPv6 traffic.
std::vector<std::byte> marked(uint64_t number) {
    auto frame = numbered(number);
    frame[12] = std::byte{0x88};
    frame[13] = std::byte{0xb5};
    return frame;
}
bool is_marked(std::span<const std::byte> frame) {
    return frame.size() > 14 && frame[12] == std::byte{0x88} && frame[13] == std::byte{0xb5};
}

TEST(TapWire, FramesPassBothWays) {
    in_namespace([] {
        const auto wire = open("tap:t0", {.mac = {}, .mtu = 9000, .lock_dir = {}});
        CHECK(wire);
        CHECK(query("t0", SIOCGIFMTU).ifr_mtu == 9000);
        CHECK(query("t0", SIOCGIFFLAGS).ifr_flags & IFF_UP);
        const int partner = packet_socket("t0");
        CHECK(partner >= 0);
        std::vector<std::byte> got(10000);
        for (uint64_t number = 0; number < 1000; ++number) {
            const auto frame = marked(number);
            CHECK(::send(partner, frame.data(), frame.size(), 0) == ssize_t(frame.size()));
            auto arrived = await_frame(*wire);
            while (!arrived.empty() && !is_marked(arrived)) {
                wire->pop();
                arrived = await_frame(*wire);
            }
            CHECK(std::vector(arrived.begin(), arrived.end()) == frame);
            CHECK(send(*wire, arrived) == SendResult::sent);
            wire->pop();
            ssize_t length;
            sockaddr_ll from{};
            do { // our own frames are seen as well, as outgoing ones
                socklen_t size = sizeof from;
                length = recvfrom(partner, got.data(), got.size(), 0,
                                  reinterpret_cast<sockaddr*>(&from), &size);
            } while (from.sll_pkttype == PACKET_OUTGOING ||
                     !is_marked({got.data(), size_t(length)}));
            CHECK(std::vector(got.begin(), got.begin() + length) == frame);
        }
        return 0;
    });
}

TEST(TapWire, ShortFramesArePadded) {
    in_namespace([] {
        const auto wire = open("tap:t0");
        CHECK(wire);
        const int partner = packet_socket("t0");
        auto frame = marked(0);
        frame.resize(20);
        CHECK(send(*wire, frame) == SendResult::sent);
        std::vector<std::byte> got(2000);
        ssize_t length;
        do
            length = recv(partner, got.data(), got.size(), 0);
        while (!is_marked({got.data(), size_t(length)}));
        CHECK(length == 60);
        return 0;
    });
}

TEST(TapWire, ShortPacketsOfAConnectionArePadded) {
    in_namespace([] {
        const auto wire = open("tap:t0");
        CHECK(wire);
        const int partner = packet_socket("t0");
        const frames::Bytes packet =
            frames::build({.dst = {2, 0, 0, 0, 0, 9}, .proto = frames::kTcp, .payload = {1}});
        CHECK(send(*wire, frames::view(packet)) == SendResult::sent);
        wire->flush();
        frames::Bytes got(2000);
        ssize_t length;
        do
            length = recv(partner, got.data(), got.size(), 0);
        while (length > 0 && !std::equal(packet.begin(), packet.end(), got.begin()));
        got.resize(size_t(length));
        CHECK(got == frames::padded(packet));
        return 0;
    });
}

/// Three packets of a connection.
std::vector<frames::Bytes> connection() {
    std::vector<frames::Bytes> packets;
    for (uint16_t i = 0; i < 3; ++i)
        packets.push_back(frames::build({.dst = {2, 0, 0, 0, 0, 9},
                                         .ip_id = i,
                                         .proto = frames::kTcp,
                                         .sequence = 1 + 1000u * i,
                                         .payload = frames::pattern(1000, uint8_t(i))}));
    return packets;
}

/// A packet socket that asks for it sees the header of a super-frame, and may write one.
TEST(TapWire, PacketsOfAConnectionPassAsOneBothWays) {
    in_namespace([] {
        const auto wire = open("tap:t0");
        CHECK(wire);
        const int partner = packet_socket("t0"), on = 1;
        CHECK(setsockopt(partner, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) == 0);
        const auto packets = connection();
        for (const auto& packet : packets)
            CHECK(send(*wire, frames::view(packet)) == SendResult::sent);
        wire->flush();
        CHECK(wire->take_report().merged == 2);
        std::vector<std::byte> super(10 + 65536);
        ssize_t length;
        do
            length = recv(partner, super.data(), super.size(), 0);
        while (length > 0 && length != 10 + ssize_t(packets[0].size()) + 2000);
        CHECK(length > 0);
        CHECK(::send(partner, super.data(), size_t(length), 0) == length);
        for (const auto& packet : packets) {
            auto arrived = await_frame(*wire);
            while (!arrived.empty() && arrived.size() != packet.size()) {
                wire->pop();
                arrived = await_frame(*wire);
            }
            CHECK(std::ranges::equal(arrived, frames::view(packet)));
            wire->pop();
        }
        const auto report = wire->take_report();
        CHECK(report.split == 2 && report.merged == 0 && report.lost == 0);
        return 0;
    });
}

TEST(TapWire, PacketsPassByThemselvesWhereThatIsWanted) {
    in_namespace([] {
        const auto wire = open("tap:t0:plain");
        CHECK(wire);
        const int partner = packet_socket("t0");
        const auto packets = connection();
        for (const auto& packet : packets)
            CHECK(send(*wire, frames::view(packet)) == SendResult::sent);
        CHECK(wire->take_report().merged == 0);
        for (const auto& packet : packets) {
            std::vector<std::byte> got(packet.size() + 1);
            ssize_t length;
            do
                length = recv(partner, got.data(), got.size(), 0);
            while (length > 0 && length != ssize_t(packet.size()));
            CHECK(std::equal(got.begin(), got.end() - 1, frames::view(packet).begin()));
        }
        return 0;
    });
}

TEST(TapWire, HeldPacketsThatAreLostAreReported) {
    in_namespace([] {
        const auto wire = open("tap:t0");
        CHECK(wire);
        ifreq down = query("t0", SIOCGIFFLAGS);
        std::strcpy(down.ifr_name, "t0");
        down.ifr_flags = short(down.ifr_flags & ~IFF_UP);
        CHECK(ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCSIFFLAGS, &down) == 0);
        const auto packets = connection();
        for (const auto& packet : packets)
            CHECK(send(*wire, frames::view(packet)) == SendResult::sent);
        wire->flush();
        const auto report = wire->take_report();
        CHECK(report.lost == 3 && report.lost_bytes == 3 * packets[0].size());
        CHECK(report.merged == 0);
        return 0;
    });
}

TEST(TapWire, CarrierFollowsThePortAndADownInterfaceLosesFrames) {
    in_namespace([] {
        const auto wire = open("tap:t0");
        CHECK(wire);
        CHECK(query("t0", SIOCGIFFLAGS).ifr_flags & IFF_RUNNING);
        wire->set_carrier(false);
        CHECK(await([] { return !(query("t0", SIOCGIFFLAGS).ifr_flags & IFF_RUNNING); }, {}));
        wire->set_carrier(true);
        CHECK(await([] { return query("t0", SIOCGIFFLAGS).ifr_flags & IFF_RUNNING; }, {}));

        return 0;
    });
}

TEST(TapWire, AnInterfaceThatIsDownIsAnUnpluggedCable) {
    in_namespace([] {
        const auto wire = open("tap:t0");
        CHECK(wire && wire->carrier());
        CHECK(std::system("ip link set t0 down") == 0);
        CHECK(await([&] { return !wire->carrier(); }, {wire.get()}, std::chrono::seconds(5)));
        CHECK(send(*wire, marked(0)) == SendResult::lost);

        // Also if the interface is in another namespace than the device.
        const int home = ::open("/proc/self/ns/net", O_RDONLY);
        CHECK(unshare(CLONE_NEWNET) == 0);
        const auto up =
            "nsenter --net=/proc/self/fd/" + std::to_string(home) + " ip link set t0 up";
        CHECK(std::system(up.c_str()) == 0);
        wire->look_at_carrier();
        CHECK(wire->carrier());
        CHECK(send(*wire, marked(0)) == SendResult::sent);
        return 0;
    });
}

TEST(TapWire, ADeletedInterfaceIsAnUnpluggedCable) {
    in_namespace([] {
        const auto wire = open("tap:t0");
        CHECK(wire && wire->carrier());
        CHECK(std::system("ip link delete t0") == 0);
        CHECK(await([&] { return !wire->carrier(); }, {wire.get()}, std::chrono::seconds(5)));
        CHECK(wire->peek().empty());
        CHECK(send(*wire, marked(0)) == SendResult::lost);
        return 0;
    });
}

TEST(TapWire, InheritedTapIsUsedByOneAtATime) {
    in_namespace([] {
        char folder[] = "/tmp/rawqp-unit-XXXXXX";
        CHECK(mkdtemp(folder));
        const auto tap = create_tap({.name = "kn%d", .mtu = 1500, .mac = {{2, 0, 0, 0, 0, 7}}});
        CHECK(tap);
        CHECK(tap->name == "kn0");
        CHECK(query("kn0", SIOCGIFHWADDR).ifr_hwaddr.sa_data[5] == 7);
        auto first = attach_tap(tap->fd.get(), tap->name, folder);
        CHECK(first);
        const auto second = attach_tap(tap->fd.get(), tap->name, folder);
        CHECK(!second && second.error().code == EBUSY);
        first->reset();
        CHECK(attach_tap(tap->fd.get(), tap->name, folder));
        std::filesystem::remove_all(folder);
        return 0;
    });
}

TEST(TapWire, AForkedChildDoesNotHoldTheTapOfItsDeadParent) {
    in_namespace([] {
        char folder[] = "/tmp/rawqp-unit-XXXXXX";
        CHECK(mkdtemp(folder));
        const auto tap = create_tap({.name = "t0", .mtu = 1500, .mac = {}, .up = true});
        CHECK(tap);
        CHECK(leaves_an_orphan([&] { return attach_tap(tap->fd.get(), "t0", folder); }));
        const bool is_free = bool(attach_tap(tap->fd.get(), "t0", folder));
        std::filesystem::remove_all(folder);
        CHECK(is_free);
        return 0;
    });
}

TEST(TapWire, ErrorsTellWhatToDo) {
    in_namespace([] {
        const auto wire = open("tap:t0");
        CHECK(wire);
        CHECK(error_of("tap:t0").find("another program uses") != std::string::npos);
        CHECK(error_of("tap:lo").find("is not a TAP") != std::string::npos);
        const auto gone = attach_tap(987, "t1", "");
        CHECK(!gone && gone.error().what.find("close_fds=False") != std::string::npos);
        return 0;
    });
}

/// A user who may not change the TAP uses it as it is, if the port's frames fit.
TEST(TapWire, OneThatAnAdministratorMadeIsLargeEnough) {
    in_namespace([] {
        constexpr uid_t kNobody = 65534;
        if (geteuid() != 0) return kNoNamespaces;
        {
            const auto tap = create_tap({.name = "t0", .mtu = 1000, .mac = {}, .up = true});
            CHECK(tap && ioctl(tap->fd.get(), TUNSETOWNER, kNobody) == 0);
            CHECK(ioctl(tap->fd.get(), TUNSETPERSIST, 1) == 0);
        }
        CHECK(setresuid(kNobody, kNobody, kNobody) == 0);
        if (access("/dev/net/tun", R_OK | W_OK) < 0) return kNoNamespaces;
        const auto small = create_tap({.name = "t0", .mtu = 1001, .mac = {}, .up = true});
        CHECK(!small && small.error().what.find("cannot set the MTU of TAP t0") == 0);
        CHECK(create_tap({.name = "t0", .mtu = 1000, .mac = {}, .up = true}));
        return 0;
    });
}

} // namespace
