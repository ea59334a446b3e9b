// SPDX-License-Identifier: BSD-3-Clause
// A device with a hairpin pair that gets all received packets.
#pragma once

#include "app/softhca/core/hairpin.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <nlohmann/json.hpp>

namespace testbed {

inline constexpr HairpinSize kSmall{.log_packets = 4, .log_bytes = 11}; ///< 16 packets, 2048 bytes

inline Bytes numbered(uint8_t number, size_t payload = 32) {
    return frames::build({.payload = frames::pattern(payload, number)});
}
/// A frame of that many bytes.
inline Bytes long_frame(size_t bytes) { return numbered(7, bytes - numbered(7, 0).size()); }

class Hairpin : public Testbed {
  protected:
    explicit Hairpin(DeviceConfig config = default_config(), HairpinSize size = kSmall)
        : Testbed(std::move(config)), rqn(make_rq(size)), sqn(make_sq(size)) {
        lead_to(rqn);
    }
    /// Steers all received packets there.
    void lead_to(Number rq) {
        if (rule != 0) {
            EXPECT_TRUE(device->destroy_flow(rule));
        }
        TirAttr attr;
        attr.rqn = rq;
        attr.transport_domain = kDomain;
        tir = device->create_tir(attr).value();
        FlowAttr flow;
        flow.tirs = {tir};
        rule = device->create_flow(flow).value();
    }
    Number make_rq(HairpinSize size) {
        return device->create_hairpin_rq({.size = size, .listener = &listener}).value();
    }
    Number make_sq(HairpinSize size) {
        return device
            ->create_hairpin_sq({.size = size, .transport_domain = kDomain, .listener = &listener})
            .value();
    }
    void pair_up() {
        ASSERT_TRUE(device->modify_sq(sqn, QueueState::ready, rqn));
        ASSERT_TRUE(device->modify_rq(rqn, QueueState::ready, sqn));
    }
    void arrive(const std::vector<Bytes>& frames) {
        wire->incoming.insert(wire->incoming.end(), frames.begin(), frames.end());
        run();
    }
    /// That many small frames, all different, arrive.
    std::vector<Bytes> arrive(uint8_t count) {
        std::vector<Bytes> frames;
        for (uint8_t number = 0; number < count; number++)
            frames.push_back(numbered(number));
        arrive(frames);
        return frames;
    }
    void expect_full_one_to_hold_the_wire() {
        pair_up();
        wire->room = 0;
        const std::vector<Bytes> frames = arrive(20);
        EXPECT_EQ(wire->incoming.size(), 4u);
        wire->room = SIZE_MAX;
        run();
        EXPECT_EQ(wire->sent, frames);
        EXPECT_EQ(dropped(), 0u);
    }
    [[nodiscard]] nlohmann::json row_of(const nlohmann::json& all, const char* kind,
                                        Number number) const {
        for (const nlohmann::json& row : all[kind])
            if (row["number"] == number) return row;
        ADD_FAILURE() << "no " << number << " in " << all[kind];
        return {};
    }
    [[nodiscard]] uint32_t held() const { return row_of(device->stats(), "rqs", rqn)["held"]; }
    [[nodiscard]] uint64_t dropped() const { return device->counters().drop_out_of_buffer; }

    static constexpr Number kDomain = 5;
    Number rqn, sqn, tir = 0, rule = 0;
};

} // namespace testbed
