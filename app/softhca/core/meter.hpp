// SPDX-License-Identifier: BSD-3-Clause
// A meter: two token buckets that determine a packet's color (RFC 2697, 2698 and 4115).
#pragma once

#include <cstdint>
#include <limits>

namespace softhca::core {

class Packet;

enum class Color : uint8_t { red, yellow, green, undefined };

/// What a packet counts as.
enum class MeterMode : uint8_t {
    ip_bytes,   ///< as the IP header says; for other packets, what follows the L2 header
    l2_bytes,   ///< the frame without FCS
    wire_bytes, ///< the frame with FCS, preamble and gap
    packets,    ///< Meter::kPacketTokens
};

/// A bucket gets mantissa / 2^exponent tokens per nanosecond, and holds mantissa * 2^exponent.
struct BucketAttr {
    uint8_t rate_mantissa = 0, rate_exponent = 0;
    uint8_t size_mantissa = 0, size_exponent = 0;
    bool operator==(const BucketAttr&) const = default;
};

/// srTCM has `overflow` and an excess bucket without a rate; trTCM of RFC 2698 `both_on_green`, and
/// the peak rate as that of the excess bucket; trTCM of RFC 4115 has a rate for each bucket.
struct MeterAttr {
    static constexpr uint8_t kMaxExponent = 31;

    bool valid = false;             ///< otherwise packets keep their color
    bool overflow = false;          ///< what overflows the committed bucket goes to the excess one
    bool both_on_green = false;     ///< green packets take from both, and need both
    Color start = Color::undefined; ///< color of every packet before; undefined: the caller's
    MeterMode mode = MeterMode::ip_bytes;
    BucketAttr committed{}, excess{};
    bool operator==(const MeterAttr&) const = default;
};

/// A value type: a copy continues from the meter's current state. Times are those of the device's
/// clock.
class Meter {
  public:
    /// Tokens for one packet, whatever its length. Sources: Linux, en/tc/meter.c ("HW treats each
    /// packet as 128 bytes in PPS mode"); DPDK, mlx5.h (MLX5_MTRS_PPS_MAP_BPS_SHIFT).
    static constexpr uint32_t kPacketTokens = 128;
    /// A bucket holds no more, whatever its configured size. Source: Linux, en/tc/meter.c.
    static constexpr uint32_t kMaxTokens = std::numeric_limits<int32_t>::max();

    /// Takes effect now, with full buckets.
    void set(const MeterAttr& attr, uint64_t now);
    [[nodiscard]] const MeterAttr& attr() const { return attr_; }
    /// The packet's color; takes its tokens.
    [[nodiscard]] Color run(const Packet& packet, Color before, uint64_t now);

    // As of the last packet.
    [[nodiscard]] uint32_t committed_tokens() const { return committed_.tokens(); }
    [[nodiscard]] uint32_t excess_tokens() const { return excess_.tokens(); }
    [[nodiscard]] uint64_t time() const { return time_; }

  private:
    /// Levels and rates are in units of 2^-32 tokens, so that nothing is ever rounded.
    class Bucket {
      public:
        Bucket() = default;
        explicit Bucket(const BucketAttr& attr);
        [[nodiscard]] uint64_t earned(uint64_t elapsed) const;
        /// Returns what does not fit.
        uint64_t add(uint64_t parts);
        [[nodiscard]] bool holds(uint32_t tokens) const { return level_ >= parts_of(tokens); }
        void take(uint32_t tokens) { level_ -= parts_of(tokens); }
        [[nodiscard]] uint32_t tokens() const { return static_cast<uint32_t>(level_ >> 32); }

      private:
        [[nodiscard]] static uint64_t parts_of(uint32_t tokens) { return uint64_t{tokens} << 32; }

        uint64_t rate_ = 0, size_ = 0, level_ = 0;
    };

    void refill(uint64_t now);
    [[nodiscard]] uint32_t tokens_of(const Packet& packet) const;
    [[nodiscard]] Color take(uint32_t tokens, Color before);

    MeterAttr attr_;
    Bucket committed_, excess_;
    uint64_t time_ = 0; ///< of the last refill
};

} // namespace softhca::core
