// SPDX-License-Identifier: BSD-3-Clause
#include "common/net/endian.hpp"
#include "tests/unit/wire/traffic.hpp"

#include <set>

namespace {

using namespace wire_test;
using net::load_be;

const softhca::wire::OpenOptions kPort{.mac = {2, 0, 0, 0, 0, 5}, .mtu = 1500, .lock_dir = {}};

/// The RFC 1071 sum of any bytes: 0xffff if the checksum among them is correct.
uint32_t ones_sum(std::span<const std::byte> bytes, uint32_t sum = 0) {
    for (size_t i = 0; i + 1 < bytes.size(); i += 2)
        sum += load_be<uint16_t>(&bytes[i]);
    if (bytes.size() % 2) sum += uint32_t(bytes.back()) << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

void expect_valid_udp(std::span<const std::byte> frame, uint64_t sequence) {
    EXPECT_EQ(std::memcmp(frame.data(), kPort.mac.data(), 6), 0);
    EXPECT_EQ(load_be<uint16_t>(&frame[12]), 0x0800);
    EXPECT_EQ(load_be<uint16_t>(&frame[16]), frame.size() - 14);
    EXPECT_EQ(ones_sum(frame.subspan(14, 20)), 0xffffu);
    const auto udp = frame.subspan(34);
    EXPECT_EQ(load_be<uint16_t>(&udp[4]), udp.size());
    EXPECT_NE(load_be<uint16_t>(&udp[6]), 0);
    const uint32_t pseudo = ones_sum(frame.subspan(26, 8), 17 + uint32_t(udp.size()));
    EXPECT_EQ(ones_sum(udp, pseudo), 0xffffu);
    EXPECT_EQ(load_be<uint64_t>(&udp[8]), sequence);
}

TEST(GenWire, FramesAreValidAndCounted) {
    for (const uint32_t size : {60u, 61u, 1514u}) {
        const auto wire = open("gen:count=5000,size=" + std::to_string(size), kPort);
        wire->start();
        for (uint64_t i = 0; i < 5000; ++i) {
            ASSERT_EQ(wire->peek().size(), size);
            expect_valid_udp(wire->peek(), i);
            if (HasFailure()) FAIL() << "frame " << i << " of size " << size;
            wire->pop();
        }
        EXPECT_TRUE(wire->peek().empty());
    }
}

TEST(GenWire, NoChecksumSaysThatThereIsNone) {
    const auto wire = open("gen:count=65536", kPort); // every sum occurs
    uint32_t ones = 0;
    for (wire->start(); !wire->peek().empty(); wire->pop()) {
        const auto checksum = load_be<uint16_t>(&wire->peek()[40]);
        ASSERT_NE(checksum, 0);
        ones += checksum == 0xffff;
    }
    EXPECT_NE(ones, 0u);
}

TEST(GenWire, WaitsForStart) {
    const auto wire = open("gen", kPort);
    EXPECT_TRUE(wire->peek().empty());
    expect_valid_udp(wire->preview(), 0);
    wire->start();
    EXPECT_FALSE(wire->peek().empty());
    wire->start();
    EXPECT_EQ(load_be<uint64_t>(&wire->peek()[42]), 0u);
}

TEST(GenWire, FlowsDifferInAddressAndPortAndRepeat) {
    const auto wire = open("gen:flows=5000", kPort);
    wire->start();
    std::set<std::pair<uint32_t, uint16_t>> flows;
    for (int i = 0; i < 15000; ++i) {
        const auto frame = wire->peek();
        flows.emplace(load_be<uint32_t>(&frame[26]), load_be<uint16_t>(&frame[34]));
        wire->pop();
    }
    EXPECT_EQ(flows.size(), 5000u);
}

TEST(GenWire, RateIsKept) {
    const auto wire = open("gen:rate=10000", kPort);
    wire->start();
    const auto start = Clock::now();
    for (int i = 0; i < 1000; ++i) {
        ASSERT_FALSE(await_frame(*wire).empty());
        wire->pop();
    }
    EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(99));
}

TEST(GenWire, FrameMustFitThePort) {
    EXPECT_NE(error_of("gen:size=1515", kPort).find("mtu=1500"), std::string::npos);
}

} // namespace
