// SPDX-License-Identifier: BSD-3-Clause
// What wires read: capture files and the memory of links.
#include "app/softhca/wire/cable.hpp"
#include "app/softhca/wire/frame.hpp"
#include "app/softhca/wire/open.hpp"
#include "common/fd.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/inputs.hpp"

#include <array>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

namespace fuzz {
namespace {

using namespace softhca;

constexpr size_t kMaxFrames = 4096;

/// Takes frames, reading all their bytes, until there are none left.
std::string receive_all(wire::Wire& wire) {
    static std::array<std::byte, wire::kMaxFrame> copy;
    for (size_t i = 0; i < kMaxFrames; ++i) {
        const auto frame = wire.peek();
        if (frame.empty()) return "";
        if (frame.size() > wire::kMaxFrame) return fmt::format("a frame of {} bytes", frame.size());
        std::memcpy(copy.data(), frame.data(), frame.size());
        asm volatile("" : : "r"(copy.data()) : "memory"); // keeps the copy from being optimized out
        wire.pop();
    }
    return "";
}

} // namespace

std::string play_captures(std::span<const uint8_t> bytes) {
    const Fd file(memfd_create("capture", MFD_CLOEXEC));
    if (!file || write(file.get(), bytes.data(), bytes.size()) != ssize_t(bytes.size()))
        return "there is no file for the capture";
    const auto wire = wire::open_wire(fmt::format("pcap:/proc/self/fd/{}", file.get()), {});
    if (!wire) return wire.error().what.empty() ? "refused without a reason" : "";
    (*wire)->start();
    return receive_all(**wire);
}

std::string play_cables(std::span<const uint8_t> bytes) {
    Input input(bytes);
    // One for all inputs, because sanitizers map memory slowly. Each input finds it zeroed.
    static const std::shared_ptr<wire::Cable> cable = wire::make_local_cable();
    if (madvise(cable.get(), sizeof *cable, MADV_DONTNEED) != 0) return "no empty cable";
    wire::CableEnd end(*cable, 1);
    const std::vector<uint8_t> frame(64);
    const iovec piece{const_cast<uint8_t*>(frame.data()), frame.size()};
    while (!input.empty()) {
        // The other end's state, the indices of both rings, and records.
        input.fill({reinterpret_cast<uint8_t*>(&cable->ends[0]), sizeof cable->ends[0]});
        for (wire::RingIndices& indices : cable->indices) {
            const bool far = (input.byte() & 1) != 0;
            const uint64_t at = input.two_bytes() * uint64_t{far ? 0x1'0001'0001ull : 8};
            indices.written = at + input.two_bytes();
            indices.read = at;
        }
        for (uint8_t records = input.byte() % 8; records > 0; --records) {
            const size_t at = input.two_bytes() * wire::kRecordAlign % wire::kRingBytes;
            wire::RecordHeader header{};
            input.fill({reinterpret_cast<uint8_t*>(&header), sizeof header});
            std::memcpy(&cable->data[0][at], &header, sizeof header);
        }
        if (std::string problem = receive_all(end); !problem.empty()) return problem;
        (void)end.send({.pieces = {&piece, 1}, .length = static_cast<uint32_t>(frame.size())});
        end.flush();
        (void)end.carrier();
    }
    return "";
}

} // namespace fuzz
