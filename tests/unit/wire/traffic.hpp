// SPDX-License-Identifier: BSD-3-Clause
// Numbered frames through a wire: loss, duplication, reordering and damage show.
#pragma once

#include "app/softhca/wire/open.hpp"

#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

namespace wire_test {

using softhca::wire::OutFrame;
using softhca::wire::SendResult;
using softhca::wire::Wire;
using Clock = std::chrono::steady_clock;

inline constexpr auto kPatience = std::chrono::seconds(60);

inline std::unique_ptr<Wire> open(const std::string& spec,
                                  const softhca::wire::OpenOptions& options = {}) {
    auto wire = softhca::wire::open_wire(spec, options);
    EXPECT_TRUE(wire) << wire.error().what;
    return wire ? std::move(*wire) : nullptr;
}

inline std::string error_of(const std::string& spec,
                            const softhca::wire::OpenOptions& options = {}) {
    auto wire = softhca::wire::open_wire(spec, options);
    return wire ? "" : wire.error().what;
}

/// The frame with a number: 60 to 1514 bytes, each byte known.
inline std::vector<std::byte> numbered(uint64_t number) {
    std::vector<std::byte> frame(60 + number * 7919 % 1455);
    std::memset(frame.data(), int(number & 0xff), frame.size());
    std::memcpy(frame.data() + 14, &number, sizeof number);
    return frame;
}

inline SendResult send(Wire& wire, std::span<const std::byte> frame) {
    // In two pieces, as a WQE with inline headers is.
    const size_t first = frame.size() < 18 ? frame.size() : 18;
    auto* data = const_cast<std::byte*>(frame.data());
    const iovec pieces[] = {{data, first}, {data + first, frame.size() - first}};
    return wire.send({pieces, uint32_t(frame.size())});
}

/// Sends frames [first, end), retrying while the wire is busy. False: the wire lost one.
inline bool send_numbered(Wire& wire, uint64_t first, uint64_t end) {
    const auto deadline = Clock::now() + kPatience;
    for (uint64_t number = first; number < end; ++number) {
        const auto frame = numbered(number);
        SendResult result;
        while ((result = send(wire, frame)) == SendResult::busy) {
            if (Clock::now() > deadline) return false;
            std::this_thread::yield();
        }
        if (result == SendResult::lost) return false;
        if (number % 32 == 0) wire.flush();
    }
    wire.flush();
    return true;
}

/// Waits for a frame; empty if none came in time.
inline std::span<const std::byte> await_frame(Wire& wire, Clock::duration patience = kPatience) {
    const auto deadline = Clock::now() + patience;
    for (;;) {
        const auto frame = wire.peek();
        if (!frame.empty() || Clock::now() > deadline) return frame;
        std::this_thread::yield();
    }
}

/// Receives exactly the frames [first, end) in order. Returns the number of the first one that is
/// missing or wrong; `end` if all is well.
inline uint64_t receive_numbered(Wire& wire, uint64_t first, uint64_t end) {
    for (uint64_t number = first; number < end; ++number) {
        const auto frame = await_frame(wire);
        const auto wanted = numbered(number);
        if (frame.size() != wanted.size() ||
            std::memcmp(frame.data(), wanted.data(), wanted.size()) != 0)
            return number;
        wire.pop();
    }
    return end;
}

/// Waits until a condition holds; polls the wires meanwhile, as device threads do.
template <class Condition>
bool await(Condition condition, std::initializer_list<Wire*> wires,
           Clock::duration patience = kPatience) {
    const auto deadline = Clock::now() + patience;
    while (!condition()) {
        for (Wire* wire : wires)
            wire->peek();
        if (Clock::now() > deadline) return false;
        std::this_thread::yield();
    }
    return true;
}

/// Both directions at once, each wire served by its own thread, as by a device thread.
inline void expect_lossless(Wire& a, Wire& b, uint64_t count) {
    const auto serve = [count](Wire& wire, uint64_t& received, bool& sent) {
        const auto deadline = Clock::now() + kPatience;
        uint64_t next = 0;
        received = 0;
        while ((next < count || received < count) && Clock::now() < deadline) {
            const uint64_t before = next + received;
            for (int i = 0; i < 32 && next < count; ++i) {
                const SendResult result = send(wire, numbered(next));
                if (result == SendResult::lost) return;
                if (result == SendResult::busy) break;
                ++next;
            }
            wire.flush();
            for (int i = 0; i < 32 && received < count && !wire.peek().empty(); ++i) {
                if (receive_numbered(wire, received, received + 1) == received) return;
                ++received;
            }
            sent = next == count;
            if (next + received == before) std::this_thread::yield();
        }
    };
    uint64_t at_a = 0, at_b = 0;
    bool a_sent = false, b_sent = false;
    std::thread other([&] { serve(b, at_b, b_sent); });
    serve(a, at_a, a_sent);
    other.join();
    EXPECT_TRUE(a_sent && b_sent);
    EXPECT_EQ(at_a, count);
    EXPECT_EQ(at_b, count);
}

} // namespace wire_test
