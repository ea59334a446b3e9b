// SPDX-License-Identifier: BSD-3-Clause
#include "common/fd.hpp"
#include "tests/unit/wire/child.hpp"
#include "tests/unit/wire/traffic.hpp"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>

namespace {

using namespace wire_test;

/// The classic capture file format, by hand: others must be able to read what the wire writes.
struct PcapFileHeader {
    uint32_t magic = 0xa1b2c3d4; // microseconds
    uint16_t major = 2, minor = 4;
    int32_t zone = 0;
    uint32_t accuracy = 0, snap_length = 65535;
    uint32_t link_type = 1; // Ethernet
};
static_assert(sizeof(PcapFileHeader) == 24);
struct PcapRecordHeader {
    uint32_t seconds = 0, microseconds = 0, captured = 0, length = 0;
};

template <class T> std::string bytes_of(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
}
std::string record_of(size_t length) {
    const PcapRecordHeader header{.captured = uint32_t(length), .length = uint32_t(length)};
    return bytes_of(header) + std::string(length, char(length));
}

/// What exit(3) does with streams. Not exit itself: LeakSanitizer would look for leaks, and not see
/// the stacks of the parent's threads.
int close_streams() { return fcloseall(); }

class PcapWireTest : public testing::Test {
  protected:
    void SetUp() override {
        char name[] = "/tmp/rawqp-unit-XXXXXX";
        ASSERT_TRUE(mkdtemp(name));
        folder_ = name;
        in_ = folder_ + "/in.pcap";
        out_ = folder_ + "/out.pcap";
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    void write_capture(const std::vector<size_t>& lengths, PcapFileHeader header = {}) {
        std::ofstream file(in_, std::ios::binary);
        file << bytes_of(header);
        for (const size_t length : lengths)
            file << record_of(length);
    }

    std::string folder_, in_, out_;
};

TEST_F(PcapWireTest, PlaysOnceFromStartOn) {
    write_capture({60, 13, 14, 1514, 9018});
    const auto wire = open("pcap:" + in_);
    EXPECT_TRUE(wire->peek().empty());
    wire->start();
    for (const size_t length : {60, 13, 60, 1514, 9018}) {
        ASSERT_EQ(wire->peek().size(), length);
        ASSERT_EQ(wire->peek().size(), length); // the same one again
        wire->pop();
    }
    EXPECT_TRUE(wire->peek().empty());
    wire->start();
    EXPECT_TRUE(wire->peek().empty());
}

TEST_F(PcapWireTest, ARecordWithoutBytesIsAFrameThatIsTooShort) {
    write_capture({60, 0, 61});
    const auto wire = open("pcap:" + in_);
    wire->start();
    for (const size_t length : {60, 1, 61}) {
        EXPECT_EQ(wire->peek().size(), length);
        wire->pop();
    }
    EXPECT_TRUE(wire->peek().empty());
}

TEST_F(PcapWireTest, RecordsWhatIsSent) {
    const auto wire = open("pcap:," + out_);
    wire->start();
    EXPECT_TRUE(wire->peek().empty());
    ASSERT_TRUE(send_numbered(*wire, 0, 100));
    ASSERT_EQ(send(*wire, std::vector<std::byte>(20, std::byte{5})), SendResult::sent);
    wire->flush();

    std::ifstream file(out_, std::ios::binary); // complete while the wire is still open
    PcapFileHeader header;
    file.read(reinterpret_cast<char*>(&header), sizeof header);
    EXPECT_EQ(header.magic, 0xa1b2c3d4);
    EXPECT_EQ(header.link_type, 1u);
    PcapRecordHeader record;
    uint64_t number = 0;
    while (file.read(reinterpret_cast<char*>(&record), sizeof record)) {
        std::vector<std::byte> bytes(record.captured);
        file.read(reinterpret_cast<char*>(bytes.data()), std::streamsize(bytes.size()));
        auto wanted = numbered(number);
        if (number == 100) {
            wanted.assign(60, std::byte{0});
            std::fill_n(wanted.begin(), 20, std::byte{5});
        }
        ASSERT_EQ(bytes, wanted) << number;
        EXPECT_EQ(record.length, record.captured);
        ++number;
    }
    EXPECT_EQ(number, 101u);
}

TEST_F(PcapWireTest, DamagedFileEndsThere) {
    const PcapRecordHeader absurd{.captured = 0x7fffffff, .length = 60};
    for (const std::string& rest :
         {std::string("half a record"), std::string("a header, and of it "),
          std::string(reinterpret_cast<const char*>(&absurd), sizeof absurd)}) {
        write_capture({60, 60});
        std::ofstream(in_, std::ios::binary | std::ios::app) << rest;
        const auto wire = open("pcap:" + in_);
        wire->start();
        testing::internal::CaptureStderr();
        for (int i = 0; i < 2; ++i) {
            ASSERT_EQ(wire->peek().size(), 60u);
            wire->pop();
        }
        EXPECT_TRUE(wire->peek().empty());
        EXPECT_TRUE(wire->peek().empty());
        const std::string said = testing::internal::GetCapturedStderr();
        EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
        const size_t whole = 24 + 2 * (16 + 60);
        const auto wanted = fmt::format(
            "softhca: wire pcap: {} is damaged from frame 3 on, at byte {} (", in_, whole);
        EXPECT_TRUE(said.starts_with(wanted)) << said;
    }
}

TEST_F(PcapWireTest, AWholeFileEndsWithoutAWord) {
    write_capture({60});
    const auto wire = open("pcap:" + in_);
    wire->start();
    testing::internal::CaptureStderr();
    wire->pop();
    while (!wire->peek().empty())
        wire->pop();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

/// What a program writes bit by bit into a FIFO that a port plays.
class PipedPcapWireTest : public PcapWireTest {
  protected:
    void SetUp() override {
        PcapWireTest::SetUp();
        ASSERT_EQ(mkfifo(in_.c_str(), 0600), 0);
    }
    /// So that it does not wait for the wire to open the FIFO.
    void open_writer() { writer_ = Fd(::open(in_.c_str(), O_RDWR | O_CLOEXEC)); }
    void write(std::string_view bytes) {
        ASSERT_EQ(::write(writer_.get(), bytes.data(), bytes.size()), ssize_t(bytes.size()));
    }
    /// None is there before the last byte is.
    void write_in_pieces(Wire& wire, std::string_view bytes) {
        for (const size_t size : {size_t{1}, size_t{7}, bytes.size() - 9, size_t{1}}) {
            EXPECT_TRUE(wire.peek().empty()) << bytes.size();
            write(bytes.substr(0, size));
            bytes.remove_prefix(size);
        }
    }

    Fd writer_;
};

TEST_F(PipedPcapWireTest, APauseInMidRecordHoldsNobody) {
    open_writer();
    const auto wire = open("pcap:" + in_);
    wire->start();
    write_in_pieces(*wire, bytes_of(PcapFileHeader{}));
    for (const size_t length : {60, 61, 9018, 10}) {
        write_in_pieces(*wire, record_of(length));
        ASSERT_EQ(wire->peek().size(), length);
        wire->pop();
    }
    write(record_of(62) + record_of(63) + record_of(64).substr(0, 30));
    for (const size_t length : {62, 63}) {
        ASSERT_EQ(wire->peek().size(), length);
        wire->pop();
    }
    EXPECT_TRUE(wire->peek().empty());
    testing::internal::CaptureStderr();
    writer_.reset();
    EXPECT_TRUE(wire->peek().empty());
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("damaged from frame 7 on ("), std::string::npos) << said;
}

TEST_F(PipedPcapWireTest, CapturesOfBlocks) {
    // Section, interface with an option, statistics (not a packet), packet of 61 bytes, all in the
    // other byte order.
    const auto words = [](std::initializer_list<uint32_t> list) {
        std::string bytes;
        for (const uint32_t word : list)
            bytes += bytes_of(__builtin_bswap32(word));
        return bytes;
    };
    const std::string section = words({0x0a0d0d0a, 28, 0x1a2b3c4d, 0x00010000, ~0u, ~0u, 28});
    const std::string interface = words({1, 20, 1 << 16, 0, 20});
    const std::string statistics = words({5, 24, 0, 0, 0, 24});
    const std::string packet =
        words({6, 32 + 64, 0, 0, 0, 61, 61}) + std::string(64, '\1') + words({32 + 64});
    open_writer();
    const auto wire = open("pcap:" + in_);
    wire->start();
    for (const std::string& block : {section, statistics, interface})
        write_in_pieces(*wire, block);
    for (int i = 0; i < 3; ++i) {
        write_in_pieces(*wire, statistics);
        write_in_pieces(*wire, packet);
        ASSERT_EQ(wire->peek().size(), 61u);
        wire->pop();
    }
    testing::internal::CaptureStderr();
    writer_.reset();
    EXPECT_TRUE(wire->peek().empty());
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(PipedPcapWireTest, TheWriterMayComeLate) {
    const auto wire = open("pcap:" + in_);
    wire->start();
    EXPECT_TRUE(wire->peek().empty());
    EXPECT_TRUE(wire->peek().empty());
    pollfd state{wire->wait_fd(), POLLIN, 0};
    EXPECT_EQ(poll(&state, 1, 0), 0);
    open_writer();
    write(bytes_of(PcapFileHeader{}) + record_of(60));
    EXPECT_EQ(poll(&state, 1, 0), 1);
    EXPECT_EQ(wire->peek().size(), 60u);
}

TEST_F(PipedPcapWireTest, NothingIsTakenBeforeTheStart) {
    open_writer();
    const std::string capture = bytes_of(PcapFileHeader{}) + record_of(60);
    {
        const auto unused = open("pcap:" + in_);
        write(capture);
        EXPECT_TRUE(unused->peek().empty());
    }
    const auto wire = open("pcap:" + in_);
    wire->start();
    EXPECT_EQ(wire->peek().size(), 60u);
}

TEST_F(PipedPcapWireTest, WhatIsNoCaptureIsSaid) {
    const std::string any = bytes_of(PcapFileHeader{.link_type = 113});
    PcapRecordHeader absurd{.captured = 0x7fffffff, .length = 60};
    for (const auto& [bytes, said] :
         {std::pair{std::string(30, 'x'), "cannot play"},
          {any, "no Ethernet frames"},
          {bytes_of(PcapFileHeader{}) + bytes_of(absurd), "damaged from frame 1 on"}}) {
        open_writer();
        const auto wire = open("pcap:" + in_);
        wire->start();
        testing::internal::CaptureStderr();
        write(bytes);
        EXPECT_TRUE(wire->peek().empty());
        EXPECT_TRUE(wire->peek().empty());
        const std::string heard = testing::internal::GetCapturedStderr();
        EXPECT_NE(heard.find(said), std::string::npos) << heard;
        EXPECT_EQ(std::ranges::count(heard, '\n'), 1) << heard;
        pollfd state{wire->wait_fd(), POLLIN, 0};
        EXPECT_EQ(poll(&state, 1, 0), 0) << "would keep the device thread awake";
    }
}

TEST_F(PipedPcapWireTest, FlushingAllStreamsDoesNotWait) {
    open_writer();
    const auto wire = open("pcap:" + in_);
    wire->start();
    write(bytes_of(PcapFileHeader{}) + record_of(60) + "half a record");
    EXPECT_EQ(wire->peek().size(), 60u);
    EXPECT_EQ(std::fflush(nullptr), 0);
    EXPECT_EQ(Child(close_streams).wait(), 0);
    wire->pop();
    EXPECT_TRUE(wire->peek().empty());
}

TEST_F(PcapWireTest, UnusableFilesAreErrors) {
    EXPECT_NE(error_of("pcap:/nonexistent.pcap").find("/nonexistent.pcap"), std::string::npos);
    EXPECT_NE(error_of("pcap:,/nonexistent/out.pcap").find("cannot record"), std::string::npos);
    std::ofstream(in_) << "not a capture file at all";
    EXPECT_NE(error_of("pcap:" + in_).find("cannot play"), std::string::npos);
    write_capture({60}, {.link_type = 113}); // Linux "any"
    EXPECT_NE(error_of("pcap:" + in_).find("no Ethernet frames"), std::string::npos);
}

TEST_F(PcapWireTest, WhatIsPlayedIsNotOverwritten) {
    write_capture({60});
    const auto bytes = std::filesystem::file_size(in_);
    std::filesystem::create_symlink(in_, out_);
    for (const std::string& same : {folder_ + "/./in.pcap", out_})
        EXPECT_NE(error_of("pcap:" + in_ + "," + same).find("overwritten"), std::string::npos);
    EXPECT_EQ(std::filesystem::file_size(in_), bytes);
}

TEST_F(PcapWireTest, AFileHasOneRecorderAtATime) {
    {
        const auto wire = open("pcap:," + out_);
        ASSERT_TRUE(send_numbered(*wire, 0, 3));
        wire->flush();
        const auto bytes = std::filesystem::file_size(out_);
        EXPECT_NE(error_of("pcap:," + out_).find("another port or process"), std::string::npos);
        EXPECT_EQ(std::filesystem::file_size(out_), bytes);
        const auto one = open("pcap:,/dev/null"), other = open("pcap:,/dev/null");
    }
    const auto wire = open("pcap:," + out_);
    EXPECT_EQ(std::filesystem::file_size(out_), sizeof(PcapFileHeader));
}

/// exit(3) puts the offset of a file, which parent and child share, back to what was read of it.
TEST_F(PcapWireTest, AForkedChildThatExitsDoesNotRewindWhatIsPlayed) {
    constexpr size_t kFrames = 200; // more than one buffer of the C library
    write_capture(std::vector<size_t>(kFrames, 100));
    const auto wire = open("pcap:" + in_);
    wire->start();
    size_t played = 0;
    for (; !wire->peek().empty(); wire->pop(), ++played) {
        ASSERT_EQ(wire->peek().size(), 100u) << played;
        if (played == 0) {
            EXPECT_EQ(Child(close_streams).wait(), 0);
        }
    }
    EXPECT_EQ(played, kFrames);
}

/// exit(3) writes what is buffered, of which a forked child has a copy.
TEST_F(PcapWireTest, AForkedChildThatExitsRecordsNothing) {
    const auto wire = open("pcap:," + out_);
    ASSERT_EQ(send(*wire, numbered(0)), SendResult::sent);
    EXPECT_EQ(Child(close_streams).wait(), 0);
    wire->flush();
    EXPECT_EQ(std::filesystem::file_size(out_),
              sizeof(PcapFileHeader) + sizeof(PcapRecordHeader) + numbered(0).size());
}

TEST_F(PcapWireTest, WhatCannotBeRecordedIsLost) {
    EXPECT_NE(error_of("pcap:,/dev/full").find("/dev/full"), std::string::npos);
    const auto wire = open("pcap:," + out_);
    const rlimit none{0, RLIM_INFINITY};
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    auto* const action = std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &none); // from now on, the disk is full
    size_t lost = 0;
    for (uint64_t number = 0; number < 100; ++number) {
        lost += send(*wire, numbered(number)) == SendResult::lost;
        wire->flush();
    }
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, action);
    EXPECT_GE(lost, 99u);
}

} // namespace
