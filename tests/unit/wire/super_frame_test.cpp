// SPDX-License-Identifier: BSD-3-Clause
// TCP packets that pass a TAP as one: what becomes of them, and which ones are not merged.
#include "app/softhca/wire/super_frame.hpp"
#include "tests/unit/net/frames.hpp"

#include <cstring>
#include <functional>
#include <gtest/gtest.h>

namespace {

using namespace softhca::wire;
using frames::Bytes;
using frames::Spec;

using frames::kAck, frames::kPsh, frames::kFin, frames::kCwr;
constexpr uint8_t kUrg = 0x20, kEce = 0x40;

using frames::view;

/// The packets of a connection, each of `payload` bytes; `number` from 0 on.
struct Connection {
    Spec first;
    size_t payload = 1000;

    [[nodiscard]] Spec spec(size_t number) const {
        Spec spec = first;
        spec.payload = frames::pattern(payload);
        spec.payload[0] = static_cast<uint8_t>(number);
        spec.sequence += static_cast<uint32_t>(number * payload);
        if (spec.ip == 4) spec.ip_id = static_cast<uint16_t>(spec.ip_id + number);
        return spec;
    }
    [[nodiscard]] Bytes packet(size_t number) const { return frames::build(spec(number)); }
};

Connection over_ipv4() {
    Connection connection;
    connection.first = {.proto = frames::kTcp};
    connection.first.tcp_flags = kAck;
    connection.first.sequence = 0xfffffe00; // wraps
    connection.first.ip_id = 0xfffe;        // likewise
    connection.first.tcp_options = {1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8};
    return connection;
}
Connection over_ipv6() {
    Connection connection = over_ipv4();
    connection.first.ip = 6;
    connection.first.src_ip = Bytes(16, 0xfd);
    connection.first.dst_ip = Bytes(16, 0xfe);
    connection.first.tags = {{0x8100, 5}};
    connection.payload = 999; // odd
    return connection;
}

/// In pieces, cut at odd offsets.
bool take(Merger& merger, const Bytes& frame) {
    auto* const data = const_cast<uint8_t*>(frame.data());
    const iovec pieces[] = {{data, 15}, {data + 15, 2}, {data + 17, frame.size() - 17}};
    return merger.take({pieces, static_cast<uint32_t>(frame.size())});
}

struct Super {
    NetHeader header;
    Bytes frame;
};
Super finish(Merger& merger) {
    const auto [header, frame] = merger.finish();
    Super super;
    EXPECT_EQ(header.iov_len, net::virtio::kLegacyNetHeaderBytes);
    std::memcpy(&super.header, header.iov_base, header.iov_len);
    const auto* const first = static_cast<const uint8_t*>(frame.iov_base);
    super.frame.assign(first, first + frame.iov_len);
    return super;
}

std::vector<Bytes> split(const Super& super) {
    Splitter splitter;
    std::vector<Bytes> packets;
    EXPECT_TRUE(splitter.begin(super.header, view(super.frame)));
    while (!splitter.done()) {
        EXPECT_EQ(splitter.packets_made(), packets.size());
        Bytes& packet = packets.emplace_back(splitter.next_bytes());
        splitter.write_next(reinterpret_cast<std::byte*>(packet.data()));
    }
    return packets;
}

class SuperFrame : public testing::TestWithParam<Connection (*)()> {
  protected:
    Connection connection = GetParam()();
    Merger merger;
};

TEST_P(SuperFrame, PacketsComeBackAsTheyWere) {
    std::vector<Bytes> packets;
    for (size_t i = 0; i < 20; i++)
        packets.push_back(connection.packet(i));
    Spec last = connection.spec(20);
    last.payload.resize(7);
    last.tcp_flags = kAck | kPsh;
    packets.push_back(frames::build(last));
    for (const Bytes& packet : packets) {
        EXPECT_FALSE(merger.complete());
        ASSERT_TRUE(take(merger, packet));
    }
    EXPECT_TRUE(merger.complete());
    EXPECT_FALSE(take(merger, connection.packet(21)));
    EXPECT_EQ(merger.packets(), 21u);
    const Super super = finish(merger);
    EXPECT_EQ(super.header.segment_bytes, connection.payload);
    EXPECT_EQ(super.frame.size(), packets[0].size() + 19 * connection.payload + 7);
    EXPECT_EQ(split(super), packets);
    merger.clear();
    EXPECT_TRUE(take(merger, packets[0])) << "another one begins";
}

/// A receiver that does not know of super-frames sees one packet, whose checksums are correct once
/// the one left to the receiver is filled in.
TEST_P(SuperFrame, IsAPacketItself) {
    Spec whole = connection.spec(0);
    for (size_t i = 0; i < 3; i++)
        ASSERT_TRUE(take(merger, connection.packet(i)));
    for (size_t i = 1; i < 3; i++) {
        const Spec next = connection.spec(i);
        whole.payload.insert(whole.payload.end(), next.payload.begin(), next.payload.end());
    }
    Super super = finish(merger);
    EXPECT_EQ(super.header.gso_type,
              connection.first.ip == 4 ? net::virtio::kGsoTcp4 : net::virtio::kGsoTcp6);
    EXPECT_EQ(super.header.header_bytes, super.frame.size() - 3 * connection.payload);
    EXPECT_TRUE(complete_checksum(super.header, std::as_writable_bytes(std::span(super.frame))));
    EXPECT_EQ(super.frame, frames::build(whole));
}

TEST(ShortPackets, ArePaddedUnlessTheyPassAsOne) {
    const Connection connection{.first = {.proto = frames::kTcp}, .payload = 1};
    const Bytes packet = connection.packet(0);
    Merger merger;
    ASSERT_TRUE(take(merger, packet));
    EXPECT_EQ(finish(merger).frame, frames::padded(packet));
    merger.clear();
    for (size_t i = 0; i < 2; i++)
        ASSERT_TRUE(take(merger, connection.packet(i)));
    EXPECT_EQ(finish(merger).frame.size(), packet.size() + 1)
        << "the receiver would take the padding for payload";
}

TEST_P(SuperFrame, OnePacketStaysAsItIs) {
    ASSERT_TRUE(take(merger, connection.packet(0)));
    const Super super = finish(merger);
    EXPECT_EQ(super.frame, connection.packet(0));
    const NetHeader none{};
    EXPECT_EQ(std::memcmp(&super.header, &none, sizeof none), 0);
}

/// It ends with the last packet of what an application wrote at once, as a receiver waits for no
/// more.
TEST_P(SuperFrame, EndsWithAShorterPacketOrAPush) {
    const auto shorter = [](Spec& spec) { spec.payload.resize(500); };
    const auto pushed = [](Spec& spec) { spec.tcp_flags |= kPsh; };
    for (const std::function<void(Spec&)>& ends : {std::function<void(Spec&)>(shorter), {pushed}}) {
        for (const size_t before : {0, 2}) {
            for (size_t i = 0; i < before; i++)
                ASSERT_TRUE(take(merger, connection.packet(i)));
            Spec last = connection.spec(before);
            ends(last);
            ASSERT_TRUE(take(merger, frames::build(last)));
            Spec next = connection.spec(before + 1);
            next.sequence = last.sequence + static_cast<uint32_t>(last.payload.size());
            next.payload.resize(last.payload.size());
            const bool ended = before != 0 || (last.tcp_flags & kPsh) != 0;
            EXPECT_EQ(merger.complete(), ended);
            EXPECT_EQ(take(merger, frames::build(next)), !ended);
            merger.clear();
        }
    }
}

TEST_P(SuperFrame, HoldsWhatFitsIntoAnIpPacket) {
    for (const size_t payload : {1000, 1310}) { // 50 of these would fit but for the headers
        connection.payload = payload;
        size_t packets = 0;
        while (take(merger, connection.packet(packets)))
            packets++;
        const Super super = finish(merger);
        const size_t l3 = connection.first.ip == 4 ? 14 : 18;
        EXPECT_LE(super.frame.size() - l3, 65535u);
        EXPECT_GT(super.frame.size() - l3 + connection.payload, 65535u);
        EXPECT_EQ(split(super).size(), packets);
        merger.clear();
    }
}

/// Each of these would lose something if it were merged into the previous one.
TEST_P(SuperFrame, WhatDoesNotFollowStaysOut) {
    const auto but = [this](const std::function<void(Spec&)>& change) {
        Spec spec = connection.spec(1);
        change(spec);
        return frames::build(spec);
    };
    const bool v4 = connection.first.ip == 4;
    const Bytes others[] = {
        but([](Spec& s) { s.sequence++; }),
        but([](Spec& s) { s.ack++; }),
        but([](Spec& s) { s.window++; }),
        but([](Spec& s) { s.src_port++; }),
        but([](Spec& s) { s.dst_port++; }),
        but([](Spec& s) { s.tcp_options[7]++; }),
        but([](Spec& s) { s.tcp_options = {}; }),
        but([](Spec& s) { s.tcp_flags = kAck | kFin; }),
        but([](Spec& s) { s.tcp_flags = kAck | kCwr; }),
        but([](Spec& s) { s.tcp_flags = kAck | kEce; }),
        but([](Spec& s) { s.tcp_flags = kAck | kUrg; }),
        but([](Spec& s) { s.tcp_flags = kPsh; }),
        but([](Spec& s) { s.payload.push_back(0); }),
        but([](Spec& s) { s.payload.clear(); }),
        but([](Spec& s) { s.ttl--; }),
        but([](Spec& s) { s.tos ^= 3; }),
        but([](Spec& s) { s.src_ip.back()++; }),
        but([](Spec& s) { s.dst_ip.back()++; }),
        but([](Spec& s) { s.src.back()++; }),
        but([](Spec& s) { s.dst.back()++; }),
        but([](Spec& s) {
            s.tags.push_back({0x8100, 9});
        }),
        but([&](Spec& s) { v4 ? s.ip_id++ : s.flow_label++; }),
        but([&](Spec& s) { v4 ? s.fragment ^= 0x4000 : s.flow_label ^= 0x80000; }),
        but([&](Spec& s) { v4 ? s.fragment |= 0x2000 : s.ttl++; }),
    };
    Bytes wrong = connection.packet(1), padded = connection.packet(1);
    wrong.back() ^= 1; // its checksum
    padded.push_back(0);
    ASSERT_TRUE(take(merger, connection.packet(0)));
    for (const Bytes& other : others)
        EXPECT_FALSE(take(merger, other)) << &other - others;
    EXPECT_FALSE(take(merger, wrong));
    EXPECT_FALSE(take(merger, padded));
    EXPECT_TRUE(take(merger, connection.packet(1)));
    EXPECT_EQ(split(finish(merger)), (std::vector{connection.packet(0), connection.packet(1)}));
    merger.clear();
    EXPECT_FALSE(take(merger, wrong)) << "to begin with, too";
    EXPECT_FALSE(take(merger, padded));
    EXPECT_FALSE(take(merger, but([](Spec& s) { s.payload.clear(); })));
    if (v4) {
        EXPECT_FALSE(take(merger, but([](Spec& s) { s.fragment = 0x2000; })));
        EXPECT_FALSE(take(merger, but([](Spec& s) { s.ip_options = {1, 1, 1, 1}; })));
        wrong = connection.packet(0);
        wrong[24] ^= 1; // the IPv4 checksum
        EXPECT_FALSE(take(merger, wrong));
    } else {
        EXPECT_FALSE(take(merger, but([](Spec& s) { s.extensions = {{0, Bytes(8)}}; })));
    }
}

TEST_P(SuperFrame, FlagsAreThoseOfTheFirstAndTheLastPacket) {
    Spec whole = connection.spec(0);
    whole.payload = frames::pattern(2500);
    whole.tcp_flags = kAck | kPsh | kFin | kCwr;
    const Super super{.header = {.flags = net::virtio::kNeedsChecksum,
                                 .gso_type = net::virtio::kGsoTcp4,
                                 .segment_bytes = 1000},
                      .frame = frames::build(whole)};
    const auto packets = split(super);
    ASSERT_EQ(packets.size(), 3u);
    constexpr uint8_t kFlags[] = {kAck | kCwr, kAck, kAck | kPsh | kFin};
    for (size_t i = 0; i < 3; i++) {
        Spec part = connection.spec(0);
        const auto from = whole.payload.begin() + static_cast<ptrdiff_t>(i * 1000);
        part.payload.assign(from, std::min(from + 1000, whole.payload.end()));
        part.sequence += static_cast<uint32_t>(i * 1000);
        if (part.ip == 4) part.ip_id = static_cast<uint16_t>(part.ip_id + i);
        part.tcp_flags = kFlags[i];
        EXPECT_EQ(packets[i], frames::build(part)) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Versions, SuperFrame, testing::Values(over_ipv4, over_ipv6),
                         [](const auto& info) { return info.index == 0 ? "ipv4" : "ipv6"; });

TEST(SuperFrames, HeadersThatDoNotFitTheFrameAreRefused) {
    Splitter splitter;
    const Bytes packet = over_ipv4().packet(0);
    NetHeader header{};
    header.gso_type = net::virtio::kGsoTcp4;
    EXPECT_FALSE(splitter.begin(header, view(packet))) << "packets of no bytes";
    header.segment_bytes = 0xffff;
    EXPECT_FALSE(splitter.begin(header, view(packet))) << "packets of more than a frame";
    header.segment_bytes = 100;
    for (size_t length = 0; length < packet.size(); length++) {
        EXPECT_FALSE(splitter.begin(header, view(packet).first(length))) << length;
        EXPECT_TRUE(splitter.done());
    }
    EXPECT_TRUE(splitter.begin(header, view(packet)));
    const Bytes udp = frames::build({.proto = frames::kUdp, .payload = Bytes(500)});
    EXPECT_FALSE(splitter.begin(header, view(udp)));
}

TEST(SuperFrames, ChecksumsThatAreLeftToTheDevice) {
    Spec spec{.proto = frames::kUdp, .payload = frames::pattern(33), .udp_checksum = true};
    const Bytes right = frames::build(spec);
    const NetHeader header{
        .flags = net::virtio::kNeedsChecksum, .checksum_start = 34, .checksum_offset = 6};
    Bytes frame = right;
    Bytes pseudo_header(right.begin() + 26, right.begin() + 34);
    for (const uint8_t byte : {0, 17, 0, 41})
        pseudo_header.push_back(byte);
    frames::put16(frame, 40, static_cast<uint16_t>(~frames::slow_checksum(pseudo_header)));
    EXPECT_TRUE(complete_checksum(header, std::as_writable_bytes(std::span(frame))));
    EXPECT_EQ(frame, right);
    for (size_t length = 0; length < 42; length++) {
        Bytes cut(right.begin(), right.begin() + static_cast<ptrdiff_t>(length));
        EXPECT_FALSE(complete_checksum(header, std::as_writable_bytes(std::span(cut)))) << length;
        EXPECT_TRUE(std::equal(cut.begin(), cut.end(), right.begin()));
    }
    EXPECT_TRUE(complete_checksum({}, {})) << "nothing is left to it";
}

} // namespace
