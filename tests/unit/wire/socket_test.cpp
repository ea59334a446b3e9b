// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/wire/child.hpp"
#include "tests/unit/wire/traffic.hpp"

#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace {

using namespace wire_test;

class SocketWireTest : public testing::Test {
  protected:
    void SetUp() override {
        char name[] = "/tmp/rawqp-unit-XXXXXX";
        ASSERT_TRUE(mkdtemp(name));
        folder_ = name;
        path_ = folder_ + "/wire";
        spec_ = "socket:" + path_;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    /// A test program's end of the cable.
    int plain_socket() { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); }
    sockaddr_un address() {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path, path_.data(), path_.size());
        return address;
    }
    int connect_plain() {
        const int fd = plain_socket();
        const sockaddr_un to = address();
        EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0)
            << strerror(errno);
        return fd;
    }
    static bool connected(Wire& wire) {
        return await([&] { return wire.carrier(); }, {&wire}, std::chrono::seconds(5));
    }

    std::string folder_, path_, spec_;
};

TEST_F(SocketWireTest, TwoWiresLoseNothing) {
    const auto a = open(spec_), b = open(spec_);
    ASSERT_TRUE(connected(*a) && connected(*b));
    expect_lossless(*a, *b, 1'000'000);
}

TEST_F(SocketWireTest, ConnectsToAListenerThatExists) {
    const int listener = plain_socket();
    const sockaddr_un at = address();
    ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    ASSERT_EQ(listen(listener, 1), 0);
    const auto wire = open(spec_);
    EXPECT_TRUE(wire->carrier());
    const int peer = accept(listener, nullptr, nullptr);
    ASSERT_GE(peer, 0);
    ASSERT_TRUE(send_numbered(*wire, 0, 1));
    std::vector<std::byte> got(2000);
    EXPECT_EQ(recv(peer, got.data(), got.size(), 0), ssize_t(numbered(0).size()));
    close(peer);
    EXPECT_TRUE(await([&] { return !wire->carrier(); }, {wire.get()}));
    // The listener is still there: the wire connects again.
    EXPECT_TRUE(connected(*wire));
    close(listener);
}

TEST_F(SocketWireTest, ListensOtherwiseAndServesOneAfterTheOther) {
    const auto wire = open(spec_);
    EXPECT_FALSE(wire->carrier());
    EXPECT_EQ(send(*wire, numbered(0)), SendResult::lost);
    for (int peer_number = 0; peer_number < 3; ++peer_number) {
        const int peer = connect_plain();
        ASSERT_TRUE(connected(*wire));
        const auto frame = numbered(uint64_t(peer_number));
        ASSERT_EQ(::send(peer, frame.data(), frame.size(), 0), ssize_t(frame.size()));
        close(peer); // its frame still arrives
        EXPECT_EQ(await_frame(*wire).size(), frame.size());
        wire->pop();
        EXPECT_TRUE(await([&] { return !wire->carrier(); }, {wire.get()}));
    }
}

TEST_F(SocketWireTest, ShortFramesArePaddedRuntsAndLongOnesShow) {
    const auto wire = open(spec_);
    const int peer = connect_plain();
    ASSERT_TRUE(connected(*wire));
    const std::vector<std::byte> bytes(20000, std::byte{9});
    for (const size_t length : {0, 1, 13, 14, 59, 60, 61, 9018, 20000})
        ASSERT_EQ(::send(peer, bytes.data(), length, 0), ssize_t(length));
    // Empty: no frame. Shorter than a header: unchanged, for the core to count. Too long:
    // truncated, likewise.
    for (const size_t length : {1, 13, 60, 60, 60, 61, 9018, 10240}) {
        const auto frame = await_frame(*wire);
        ASSERT_EQ(frame.size(), length);
        wire->pop();
    }
    EXPECT_TRUE(wire->carrier());
    close(peer);
}

// An empty message and the end of the connection look alike.
TEST_F(SocketWireTest, WhatFollowsAnEmptyMessageArrivesThoughThePeerHasGone) {
    for (const uint64_t before : {0, 1, 31}) {
        const auto wire = open(spec_);
        const int peer = connect_plain();
        ASSERT_TRUE(connected(*wire));
        for (uint64_t number = 0; number < 60; ++number) {
            const auto frame = numbered(number);
            if (number >= before && number < before + 32) ::send(peer, "", 0, 0);
            ASSERT_EQ(::send(peer, frame.data(), frame.size(), 0), ssize_t(frame.size()));
        }
        for (int i = 0; i < 40; ++i)
            ::send(peer, "", 0, 0);
        ASSERT_EQ(::send(peer, numbered(60).data(), numbered(60).size(), 0),
                  ssize_t(numbered(60).size()));
        close(peer);
        EXPECT_EQ(receive_numbered(*wire, 0, 61), 61u);
        EXPECT_TRUE(await([&] { return !wire->carrier(); }, {wire.get()}));
    }
}

TEST_F(SocketWireTest, PaddingIsZeroAlsoInAUsedBuffer) {
    const auto wire = open(spec_);
    const int peer = connect_plain();
    ASSERT_TRUE(connected(*wire));
    for (int round = 0; round < 100; ++round) {
        const std::vector<std::byte> full(60, std::byte{0xff});
        ASSERT_EQ(::send(peer, full.data(), round % 2 ? 60 : 20, 0), round % 2 ? 60 : 20);
        const auto frame = await_frame(*wire);
        ASSERT_EQ(frame.size(), 60u);
        for (size_t i = 20; i < 60; ++i)
            ASSERT_EQ(frame[i], round % 2 ? full[0] : std::byte{0});
        wire->pop();
    }
    close(peer);
}

TEST_F(SocketWireTest, APeerThatDoesNotReadMakesItBusy) {
    const auto wire = open(spec_);
    const int peer = connect_plain();
    ASSERT_TRUE(connected(*wire));
    uint64_t sent = 0;
    while (send(*wire, numbered(sent)) == SendResult::sent)
        ++sent;
    EXPECT_EQ(send(*wire, numbered(sent)), SendResult::busy);
    std::vector<std::byte> got(2000);
    for (uint64_t number = 0; number < sent; ++number)
        ASSERT_EQ(recv(peer, got.data(), got.size(), 0), ssize_t(numbered(number).size()));
    EXPECT_EQ(send(*wire, numbered(sent)), SendResult::sent);
    // Closing with that one unread resets the connection: the wire's own end must survive that.
    const auto frame = numbered(7);
    ASSERT_EQ(::send(peer, frame.data(), frame.size(), 0), ssize_t(frame.size()));
    close(peer);
    EXPECT_EQ(await_frame(*wire).size(), frame.size());
    wire->pop();
    EXPECT_TRUE(await([&] { return !wire->carrier(); }, {wire.get()}));
}

TEST_F(SocketWireTest, KilledPeerMayComeBack) {
    const auto wire = open(spec_);
    for (int life = 0; life < 2; ++life) {
        Child peer([&] {
            auto end = softhca::wire::open_wire(spec_, {});
            if (!end || !connected(**end) || !send_numbered(**end, 0, 100)) return 1;
            pause();
            return 0;
        });
        ASSERT_EQ(receive_numbered(*wire, 0, 100), 100u);
        EXPECT_EQ(peer.end(SIGKILL), 128 + SIGKILL);
        EXPECT_TRUE(await([&] { return !wire->carrier(); }, {wire.get()}));
    }
}

TEST_F(SocketWireTest, AForkedChildHoldsNoEndOfItsDeadParent) {
    const auto wire = open(spec_);
    ASSERT_TRUE(leaves_an_orphan([&] {
        auto end = open(spec_);
        return end && connected(*end) ? std::move(end) : nullptr;
    }));
    (void)await([] { return false; }, {wire.get()}, std::chrono::milliseconds(200));
    EXPECT_FALSE(wire->carrier());
}

TEST_F(SocketWireTest, DeadListenersFileIsReplaced) {
    Child dead([&] {
        const auto wire = softhca::wire::open_wire(spec_, {});
        raise(SIGKILL);
        return 0;
    });
    EXPECT_EQ(dead.wait(), 128 + SIGKILL);
    ASSERT_TRUE(std::filesystem::exists(path_));
    const auto a = open(spec_), b = open(spec_);
    EXPECT_TRUE(connected(*a) && connected(*b));
}

// Two ends that both found no listener at the same moment.
TEST_F(SocketWireTest, TwoListenersFindEachOther) {
    const auto a = open(spec_);
    std::filesystem::rename(path_, path_ + ".hidden");
    const auto b = open(spec_);
    EXPECT_FALSE(a->carrier() || b->carrier());
    EXPECT_TRUE(await([&] { return a->carrier() && b->carrier(); }, {a.get(), b.get()},
                      std::chrono::seconds(5)));
    std::filesystem::remove(path_ + ".hidden");
}

TEST_F(SocketWireTest, SocketFileGoesWithTheListener) {
    open(spec_).reset();
    EXPECT_FALSE(std::filesystem::exists(path_));
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(SocketWireTest, WaitDescriptorTellsOfPeersAndFrames) {
    const auto wire = open(spec_);
    pollfd waiting{wire->wait_fd(), POLLIN, 0};
    EXPECT_EQ(poll(&waiting, 1, 0), 0);
    const int peer = connect_plain();
    EXPECT_EQ(poll(&waiting, 1, 5000), 1);
    ASSERT_TRUE(connected(*wire));
    EXPECT_EQ(poll(&waiting, 1, 0), 0);
    const auto frame = numbered(1);
    ASSERT_EQ(::send(peer, frame.data(), frame.size(), 0), ssize_t(frame.size()));
    EXPECT_EQ(poll(&waiting, 1, 5000), 1);
    EXPECT_FALSE(await_frame(*wire).empty());
    wire->pop();
    EXPECT_TRUE(wire->peek().empty());
    EXPECT_EQ(poll(&waiting, 1, 0), 0);
    const int next = connect_plain(); // it must wait, and so must the thread that would serve it
    EXPECT_EQ(poll(&waiting, 1, 0), 0);
    close(peer);
    EXPECT_TRUE(wire->peek().empty());
    EXPECT_FALSE(wire->carrier());
    EXPECT_EQ(poll(&waiting, 1, 0), 1);
    close(next);
}

TEST_F(SocketWireTest, UnusablePathsAreErrors) {
    EXPECT_NE(error_of("socket:" + folder_ + "/no/such").find("folder must exist"),
              std::string::npos);
    std::ofstream(path_) << "a file";
    EXPECT_NE(error_of(spec_).find("nothing but a SEQPACKET socket"), std::string::npos);
    EXPECT_TRUE(std::filesystem::is_regular_file(path_));
}

} // namespace
