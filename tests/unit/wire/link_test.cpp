// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/wire/cable.hpp"
#include "tests/unit/wire/child.hpp"
#include "tests/unit/wire/traffic.hpp"

#include <fcntl.h>
#include <sys/mman.h>

namespace {

using namespace wire_test;
using softhca::wire::open_wire;

/// A link that no other run of this test uses.
std::string link(const char* name) { return fmt::format("link:unit-{}-{}", getpid(), name); }

std::string file_of(const std::string& spec) {
    return fmt::format("/softhca-{}-{}", geteuid(), spec.substr(5));
}

bool file_exists(const std::string& spec) {
    return access(("/dev/shm" + file_of(spec)).c_str(), F_OK) == 0;
}

/// In a child: opens the end and waits for the peer.
std::unique_ptr<Wire> open_in_child(const std::string& spec) {
    auto wire = open_wire(spec, {});
    if (!wire) _exit(101);
    if (!await([&] { return (*wire)->carrier(); }, {wire->get()})) _exit(102);
    return std::move(*wire);
}

TEST(LinkWire, TwoProcessesLoseNothing) {
    const std::string spec = link("lossless");
    constexpr uint64_t kCount = 1'000'000;
    Child echo([&] {
        const auto wire = open_in_child(spec);
        for (uint64_t number = 0; number < kCount; ++number) {
            if (receive_numbered(*wire, number, number + 1) == number) return 1;
            if (!send_numbered(*wire, number, number + 1)) return 2;
        }
        return 0;
    });
    const auto wire = open(spec);
    ASSERT_TRUE(await([&] { return wire->carrier(); }, {wire.get()}));
    uint64_t sent = 0, received = 0;
    const auto deadline = Clock::now() + kPatience;
    while (received < kCount && Clock::now() < deadline) {
        while (sent < kCount && send(*wire, numbered(sent)) == SendResult::sent)
            ++sent;
        wire->flush();
        while (received < kCount && !wire->peek().empty()) {
            ASSERT_EQ(receive_numbered(*wire, received, received + 1), received + 1);
            ++received;
        }
        std::this_thread::yield();
    }
    EXPECT_EQ(received, kCount);
    EXPECT_EQ(echo.wait(), 0);
}

TEST(LinkWire, ThreadsOfOneProcessToo) {
    const auto a = open(link("threads")), b = open(link("threads"));
    expect_lossless(*a, *b, 200'000);
}

TEST(LinkWire, HasTwoEnds) {
    const auto a = open(link("two")), b = open(link("two"));
    EXPECT_NE(error_of(link("two")).find("both ends are in use"), std::string::npos);
}

TEST(LinkWire, AForkedChildHoldsNoEndOfItsDeadParent) {
    const std::string spec = link("orphan");
    const auto wire = open(spec);
    ASSERT_TRUE(leaves_an_orphan([&] { return open_in_child(spec); }));
    EXPECT_TRUE(await([&] { return !wire->carrier(); }, {wire.get()}, std::chrono::seconds(5)));
    EXPECT_EQ(error_of(spec), "");
}

TEST(LinkWire, LastOneOutRemovesTheFile) {
    const std::string spec = link("file");
    auto a = open(spec), b = open(spec);
    a.reset();
    EXPECT_TRUE(file_exists(spec));
    b.reset();
    EXPECT_FALSE(file_exists(spec));
}

TEST(LinkWire, NobodyThereIsNoCarrier) {
    const auto a = open(link("alone"));
    EXPECT_FALSE(a->carrier());
    EXPECT_EQ(send(*a, numbered(0)), SendResult::lost);
    EXPECT_TRUE(a->peek().empty());
}

TEST(LinkWire, LastFramesOfAnEndedProcessArrive) {
    const std::string spec = link("last");
    const auto wire = open(spec);
    Child sender([&] { return send_numbered(*open_in_child(spec), 0, 100) ? 0 : 1; });
    EXPECT_EQ(sender.wait(), 0);
    EXPECT_EQ(receive_numbered(*wire, 0, 100), 100u);
    EXPECT_FALSE(wire->carrier());
}

/// The child serves its end until it is killed; the test's end must notice, and go on with the next
/// child.
TEST(LinkWire, KilledPeerIsNoticedAndMayComeBack) {
    const std::string spec = link("killed");
    const auto wire = open(spec);
    for (int life = 0; life < 3; ++life) {
        Child peer([&] {
            const auto end = open_in_child(spec);
            send_numbered(*end, 0, 100);
            for (uint64_t number = 0;; ++number)
                receive_numbered(*end, number, number + 1);
            return 0;
        });
        ASSERT_TRUE(await([&] { return wire->carrier(); }, {wire.get()})) << "life " << life;
        ASSERT_TRUE(send_numbered(*wire, 0, 5000));
        ASSERT_EQ(receive_numbered(*wire, 0, 100), 100u) << "life " << life;
        EXPECT_EQ(peer.end(SIGKILL), 128 + SIGKILL);
        EXPECT_TRUE(await([&] { return !wire->carrier(); }, {wire.get()}, std::chrono::seconds(5)));
        EXPECT_EQ(send(*wire, numbered(0)), SendResult::lost);
    }
    const auto other = open(spec);
    EXPECT_TRUE(other->peek().empty()) << "frames for a dead peer reached its successor";
    expect_lossless(*wire, *other, 10'000);
}

/// A sender that waits for room must not wait for a dead peer.
TEST(LinkWire, KilledPeerFreesAWaitingSender) {
    const std::string spec = link("waiting");
    const auto wire = open(spec);
    Child peer([&] {
        const auto end = open_in_child(spec);
        pause(); // attached, never reads
        return 0;
    });
    ASSERT_TRUE(await([&] { return wire->carrier(); }, {wire.get()}));
    while (send(*wire, numbered(0)) == SendResult::sent) {
    }
    EXPECT_EQ(send(*wire, numbered(0)), SendResult::busy);
    peer.end(SIGKILL);
    EXPECT_TRUE(await([&] { return send(*wire, numbered(0)) == SendResult::lost; }, {},
                      std::chrono::seconds(5)));
}

TEST(LinkWire, LeftoversOfTwoKilledEndsAreHarmless) {
    const std::string spec = link("leftover");
    for (int i = 0; i < 2; ++i) {
        Child end([&] {
            auto wire = open_wire(spec, {});
            raise(SIGKILL);
            return wire ? 0 : 1;
        });
        EXPECT_EQ(end.wait(), 128 + SIGKILL);
    }
    ASSERT_TRUE(file_exists(spec));
    const auto a = open(spec), b = open(spec);
    expect_lossless(*a, *b, 10'000);
}

TEST(LinkWire, EndsThatDiedTogetherAreNoPeers) {
    const std::string spec = link("together");
    Child both([&] {
        const auto one = open_wire(spec, {}), other = open_wire(spec, {});
        raise(SIGKILL);
        return one && other ? 0 : 1;
    });
    EXPECT_EQ(both.wait(), 128 + SIGKILL);
    const auto wire = open(spec);
    EXPECT_FALSE(wire->carrier());
    EXPECT_EQ(send(*wire, numbered(0)), SendResult::lost);
}

TEST(LinkWire, DeadLinksAreSweptLivingOnesKept) {
    const std::string dead = link("dead"), living = link("living");
    Child end([&] {
        auto wire = open_wire(dead, {});
        raise(SIGKILL);
        return wire ? 0 : 1;
    });
    EXPECT_EQ(end.wait(), 128 + SIGKILL);
    auto a = open(living);
    ASSERT_TRUE(file_exists(dead) && file_exists(living));
    softhca::wire::remove_dead_links();
    EXPECT_FALSE(file_exists(dead));
    EXPECT_TRUE(file_exists(living));
    const auto b = open(living);
    expect_lossless(*a, *b, 1000);
    a.reset(); // either end keeps it
    softhca::wire::remove_dead_links();
    EXPECT_TRUE(file_exists(living));
}

TEST(LinkWire, GarbageInTheFileIsReplaced) {
    const std::string spec = link("garbage");
    const int fd = shm_open(file_of(spec).c_str(), O_RDWR | O_CREAT, 0600);
    ASSERT_GE(fd, 0);
    const std::vector<char> garbage(sizeof(softhca::wire::Cable), '\xee');
    ASSERT_EQ(write(fd, garbage.data(), garbage.size()), ssize_t(garbage.size()));
    close(fd);
    const auto a = open(spec), b = open(spec);
    expect_lossless(*a, *b, 10'000);
}

TEST(LinkWire, OtherVersionAtTheOtherEndIsRefused) {
    const std::string spec = link("version");
    const auto a = open(spec);
    const int fd = shm_open(file_of(spec).c_str(), O_RDWR, 0600);
    ASSERT_GE(fd, 0);
    const uint64_t magic = 5;
    ASSERT_EQ(pwrite(fd, &magic, sizeof magic, 0), ssize_t(sizeof magic));
    close(fd);
    EXPECT_NE(error_of(spec).find("another softhca version"), std::string::npos);
}

TEST(LinkWire, PortStateIsSeenAcross) {
    const auto a = open(link("state")), b = open(link("state"));
    a->set_carrier(false);
    EXPECT_FALSE(b->carrier());
    a->set_carrier(true);
    EXPECT_TRUE(b->carrier());
}

} // namespace
