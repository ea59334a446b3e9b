// SPDX-License-Identifier: BSD-3-Clause
// What rules do with a packet, and the path that one packet takes through them.
#pragma once

#include "app/softhca/core/rewrite.hpp"
#include "app/softhca/core/types.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace softhca::core {

struct Tir;
struct FlowTable;
struct MeterPair;
struct Sampler;

/// Packets and bytes of the rules that name the counter.
struct FlowCounter {
    FlowCounts counts;
    Number number = 0;
    uint32_t users = 0;

    void count(uint32_t bytes) {
        counts.packets++;
        counts.bytes += bytes;
    }
};

/// One of a pair of meters determines the packet's color. It goes into the register where drivers
/// look for it: Linux, en_tc.c (packet_color_to_reg); DPDK, mlx5_flow.h (MLX5_MTR_COLOR_BITS).
struct Metering {
    static constexpr uint32_t kColorBits = 0xff;

    MeterPair* pair;
    uint8_t meter;
    uint8_t reg_c;
    Color before;

    void tell(Color color, MetaKey& meta) const {
        net::be32& reg = meta.reg_c[reg_c];
        reg = (reg & ~kColorBits) | static_cast<uint32_t>(color);
    }
};

/// What a rule asks for. The packet is counted, metered, then changed, then each destination gets a
/// copy.
struct FlowActions {
    bool drop = false;
    bool pass_on = false;      ///< gets a copy, the packet goes on
    bool default_miss = false; ///< the packet goes on to what comes after the rules
    bool send = false;         ///< for sent packets: the packet leaves
    std::optional<uint32_t> tag;
    Rewrite rewrite;
    std::vector<Tir*> tirs;
    std::vector<FlowTable*> tables;
    std::vector<Sampler*> samplers;
    std::vector<FlowCounter*> counters;
    std::vector<Metering> metering;

    /// The named objects cannot be destroyed while held.
    void hold() const { add_users(1); }
    void release() const { add_users(-1); }

  private:
    void add_users(int count) const;
};

/// Where one packet goes. Reused from packet to packet, so that it only allocates at first.
struct FlowPath {
    /// A copy for a TIR. The packet is the original or one of `rewritten`.
    struct Stop {
        Tir* tir;
        uint32_t tag;
        const Packet* packet;
    };
    struct Count {
        FlowCounter* counter;
        uint32_t bytes;
    };
    std::vector<Stop> stops;
    std::vector<const Packet*> sent; ///< for sent packets: the copies that leave
    std::vector<Count> counts;
    /// Meters on the packet's way, and their state after it has gone there; once charged, their
    /// state before.
    struct Metered {
        Meter* meter;
        Meter other;
    };
    std::vector<Metered> metered;
    /// The colors that meters determine, in order. For a packet that has begun to leave, those that
    /// it left with: its meters have been charged. Null: the packet goes at once or not at all.
    std::vector<Color>* colors = nullptr;
    size_t colored = 0; ///< how many of these have been determined so far
    uint64_t now = 0;
    uint64_t serial = 0;  ///< of the packet in its direction: the same however often it is tried
    bool dropped = false; ///< by a rule
    /// Everything here depends only on what FlowCache compares, and holds for the flow's next
    /// packets.
    bool repeats = true;
    uint32_t misfits = 0; ///< copies that a rule could not change as requested: lost …
    uint32_t endless = 0; ///< … like those whose way was too long
    bool sending = false; ///< what no rule takes leaves
    uint32_t visits = 0;  ///< of tables
    uint32_t steps = 0;   ///< through entries in ICM and their lists of edits

    void begin(bool sends, uint64_t time, uint64_t number, std::vector<Color>* known = nullptr) {
        now = time;
        serial = number;
        metered.clear();
        colors = known;
        colored = 0;
        stops.clear();
        sent.clear();
        counts.clear();
        dropped = false;
        repeats = true;
        sending = sends;
        misfits = endless = visits = steps = rewritten_used_ = 0;
    }
    /// Some copies are lost, and counted, on their way.
    [[nodiscard]] bool loses() const { return misfits != 0 || endless != 0; }
    /// The packet as the rule changes it, with these registers; null when that is impossible.
    /// `Change`: Rewrite, or steps of it.
    template <class Change>
    [[nodiscard]] const Packet* rewrite(const Packet& packet, const Change& change,
                                        const MetaKey& meta) {
        if (rewritten_used_ == kMaxRewritten) {
            misfits++;
            return nullptr;
        }
        if (rewritten_used_ == rewritten_.size())
            rewritten_.push_back(std::make_unique<RewrittenPacket>());
        RewrittenPacket& copy = *rewritten_[rewritten_used_];
        if (!copy.make(packet, change, meta)) {
            misfits++;
            return nullptr;
        }
        rewritten_used_++;
        return &copy.packet();
    }
    [[nodiscard]] Color meter(const Metering& metering, const Packet& packet);
    /// The packet has taken this path.
    void count() const {
        for (const Count& one : counts)
            one.counter->count(one.bytes);
    }
    /// Called before the packet takes this path, as it may be received, and metered again, at once.
    void charge() { swap_meters(); }
    /// The packet did not go, and nothing has been metered since.
    void take_back() { swap_meters(); }

  private:
    /// Entries in ICM that loop may change a packet again and again, and each time take a copy of
    /// it that stays.
    static constexpr uint32_t kMaxRewritten = 512;

    void swap_meters() {
        for (Metered& one : metered)
            std::swap(*one.meter, one.other);
    }

    std::vector<std::unique_ptr<RewrittenPacket>> rewritten_;
    uint32_t rewritten_used_ = 0;
};

} // namespace softhca::core
