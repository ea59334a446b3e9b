// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/launcher/pcapng.hpp"

#include <limits>
#include <type_traits>

namespace softhca::launcher {
namespace {

enum class BlockType : uint32_t {
    interface_description = 1,
    interface_statistics = 5,
    enhanced_packet = 6,
    section_header = 0x0a0d0d0a,
};

// Numbers of options; those of packets, interfaces and statistics are separate spaces.
constexpr uint16_t kEnd = 0, kComment = 1;
constexpr uint16_t kSectionApplication = 4;
constexpr uint16_t kInterfaceName = 2, kInterfaceResolution = 9;
constexpr uint16_t kPacketFlags = 2, kPacketQueue = 6;
constexpr uint16_t kStatisticsSeen = 4, kStatisticsDropped = 5;

constexpr uint32_t kInbound = 1, kOutbound = 2; // of kPacketFlags

/// The comment as its option has it: of 65535 bytes at most, cut between characters of UTF-8.
std::string comment_of(std::string_view text) {
    constexpr std::string_view kEllipsis = "…";
    // Scapy up to 2.5 takes comments only that end like this.
    constexpr std::string_view kEndOfLine = "\n";
    constexpr size_t kMost = std::numeric_limits<uint16_t>::max() - kEndOfLine.size();
    if (text.size() <= kMost) return std::string(text).append(kEndOfLine);
    const auto continues = [&](size_t at) {
        return (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80;
    };
    size_t end = kMost - kEllipsis.size();
    while (end != 0 && continues(end))
        end--;
    return std::string(text.substr(0, end)).append(kEllipsis).append(kEndOfLine);
}

/// One block under construction, in this machine's byte order, which the section header indicates.
class Block {
  public:
    explicit Block(BlockType type) {
        add(type);
        add(uint32_t{0}); // its length
    }
    template <class T> Block& add(const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
        return *this;
    }
    /// Padded to 32 bits.
    Block& add_bytes(std::string_view bytes) {
        bytes_.append(bytes);
        bytes_.resize((bytes_.size() + 3) / 4 * 4);
        return *this;
    }
    Block& option(uint16_t code, std::string_view value) {
        return add(code).add(uint16_t(value.size())).add_bytes(value);
    }
    template <class T>
    Block& option(uint16_t code, const T& value) requires std::is_arithmetic_v<T> {
        return option(code, {reinterpret_cast<const char*>(&value), sizeof value});
    }
    /// A time or position takes two words, the high one first.
    Block& add_time(uint64_t time) { return add(uint32_t(time >> 32)).add(uint32_t(time)); }

    void write_to(std::ostream& out) {
        add(kEnd).add(uint16_t{0});
        const auto length = uint32_t(bytes_.size() + sizeof(uint32_t));
        add(length);
        bytes_.replace(sizeof(BlockType), sizeof length, reinterpret_cast<const char*>(&length),
                       sizeof length);
        out.write(bytes_.data(), std::streamsize(bytes_.size()));
    }

  private:
    std::string bytes_;
};

} // namespace

PcapngWriter::PcapngWriter(std::ostream& out, const std::string& interface,
                           const std::string& application)
    : out_(out) {
    constexpr uint32_t kByteOrder = 0x1a2b3c4d;
    constexpr uint64_t kUnknownLength = ~uint64_t{0};
    Block(BlockType::section_header)
        .add(kByteOrder)
        .add(uint16_t{1}) // version 1.0
        .add(uint16_t{0})
        .add(kUnknownLength)
        .option(kSectionApplication, application)
        .write_to(out_);
    constexpr uint16_t kEthernet = 1;
    constexpr uint8_t kNanoseconds = 9;
    Block(BlockType::interface_description)
        .add(kEthernet)
        .add(uint16_t{0})
        .add(uint32_t{0}) // frames are whole
        .option(kInterfaceName, interface)
        .option(kInterfaceResolution, kNanoseconds)
        .write_to(out_);
}

void PcapngWriter::write(const CapturedPacket& packet) {
    const auto bytes = uint32_t(packet.frame.size());
    Block block(BlockType::enhanced_packet);
    block.add(uint32_t{0}).add_time(packet.time).add(bytes).add(bytes);
    block.add_bytes({reinterpret_cast<const char*>(packet.frame.data()), bytes});
    block.option(kPacketFlags, packet.sent ? kOutbound : kInbound);
    if (packet.queue) block.option(kPacketQueue, packet.queue);
    block.option(kComment, comment_of(packet.comment));
    block.write_to(out_);
}

void PcapngWriter::write_statistics(uint64_t time, uint64_t seen, uint64_t lost) {
    Block(BlockType::interface_statistics)
        .add(uint32_t{0})
        .add_time(time)
        .option(kStatisticsSeen, seen)
        .option(kStatisticsDropped, lost)
        .write_to(out_);
}

} // namespace softhca::launcher
