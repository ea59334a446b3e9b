// SPDX-License-Identifier: BSD-3-Clause
// Registers of the port, as its driver accesses them by ACCESS_REG.
#include "app/softhca/identity.hpp"
#include "tests/unit/prm/transports.hpp"

#include <fmt/format.h>

namespace prm_test {
namespace {

constexpr uint16_t kWrite = 0, kQuery = 1;
constexpr Field kRegister{128, 0};
constexpr size_t kHead = 16;
constexpr uint16_t kPmlp = 0x5002, kPtys = 0x5004, kPaos = 0x5006, kPpcnt = 0x5008, kPplm = 0x5023,
                   kPddr = 0x5031, kPcam = 0x507f, kNodeDescription = 0x6001,
                   kHostEndianness = 0x7004, kMcia = 0x9014, kMfrl = 0x9028, kMlcr = 0x902b,
                   kMcqs = 0x9060, kMcqi = 0x9061, kMcam = 0x907f;

class PortRegistersTest : public TransportTest {
  protected:
    static Request of(uint16_t id, size_t bytes, uint16_t op_mod = kQuery) {
        return Request(MLX5_CMD_OP_ACCESS_REG, kHead + bytes, op_mod)
            .set(PRM(access_register_in, register_id), id);
    }
    static constexpr Field in(Field field) { return inside(kRegister, field); }

    /// A group of PPCNT. The result maps its fields to values.
    auto counters(uint32_t group, uint32_t priority = 0) {
        Request request = of(kPpcnt, PRM_BYTES(ppcnt_reg));
        request.set(in(PRM(ppcnt_reg, grp)), group).set(in(PRM(ppcnt_reg, prio_tc)), priority);
        const Answer answer = run(request);
        EXPECT_EQ(answer.status(), FwStatus::ok);
        return [answer](Field field) {
            return answer.get(in(inside(PRM(ppcnt_reg, counter_set), field)));
        };
    }
    void arrive(const frames::Bytes& frame, size_t count = 1) {
        transport->wire().incoming.insert(transport->wire().incoming.end(), count, frame);
        while (transport->device().poll()) {
        }
    }
    /// The status on PDDR's troubleshooting page: 0 if all is well.
    [[nodiscard]] uint64_t why_no_link() {
        const Answer answer =
            run(of(kPddr, PRM_BYTES(pddr_reg)).set(in(PRM(pddr_reg, page_select)), 1));
        EXPECT_EQ(answer.status(), FwStatus::ok);
        return answer.get(
            in(inside(PRM(pddr_reg, page_data), PRM(pddr_troubleshooting_page, status_opcode))));
    }
    Request plug(uint64_t from, uint64_t bytes, uint64_t bus_address = 0x50) {
        return of(kMcia, PRM_BYTES(mcia_reg))
            .set(in(PRM(mcia_reg, i2c_device_address)), bus_address)
            .set(in(PRM(mcia_reg, device_address)), from)
            .set(in(PRM(mcia_reg, size)), bytes);
    }
    void set_link(bool up) {
        ASSERT_EQ(status(of(kPaos, PRM_BYTES(paos_reg), kWrite)
                             .set(in(PRM(paos_reg, admin_status)), up ? 1 : 2)),
                  FwStatus::ok);
    }
};

TEST_P(PortRegistersTest, FramesAreCountedBySize) {
#define SIZE(name) PRM(eth_2819_cntrs_grp_data_layout, ether_stats_pkts##name##_low)
    constexpr std::array kSizes{SIZE(64octets),         SIZE(65to127octets),
                                SIZE(128to255octets),   SIZE(256to511octets),
                                SIZE(512to1023octets),  SIZE(1024to1518octets),
                                SIZE(1519to2047octets), SIZE(2048to4095octets),
                                SIZE(4096to8191octets), SIZE(8192to10239octets)};
#undef SIZE
    constexpr std::array<size_t, 11> kEnds{63,   64,   127,  255,  511,  1023,
                                           1518, 2047, 4095, 8191, 10239};
    constexpr size_t kFcs = 4;
    for (size_t i = 0; i < kSizes.size(); i++) {
        arrive(frames::pattern(kEnds[i] + 1 - kFcs), 2); // the shortest of this size
        arrive(frames::pattern(kEnds[i + 1] - kFcs), i); // and the longest
    }
    arrive(frames::pattern(kEnds.back() + 1 - kFcs)); // of no size
    const auto count = counters(0x02);
    for (size_t i = 0; i < kSizes.size(); i++)
        EXPECT_EQ(count(kSizes[i]), 2 + i) << "up to " << kEnds[i + 1] << " octets";
    EXPECT_EQ(count(PRM(eth_2819_cntrs_grp_data_layout, ether_stats_pkts_low)),
              kSizes.size() * 2 + 45 + 1);
}

TEST_P(PortRegistersTest, FramesOfNoGoodSizeAreErrors) {
    arrive(frames::pattern(13), 2);
    arrive(frames::pattern(1519), 3);
    EXPECT_EQ(counters(0x01)(PRM(eth_2863_cntrs_grp_data_layout, if_in_errors_low)), 5u);
    const auto count = counters(0x02);
    EXPECT_EQ(count(PRM(eth_2819_cntrs_grp_data_layout, ether_stats_undersize_pkts_low)), 2u);
    EXPECT_EQ(count(PRM(eth_2819_cntrs_grp_data_layout, ether_stats_oversize_pkts_low)), 3u);
}

TEST_P(PortRegistersTest, AnMtuHasRoomForAFrame) {
    constexpr uint16_t kPmtu = 0x5003, kOverhead = 22;
    const auto set = [&](uint64_t mtu) {
        return status(
            of(kPmtu, PRM_BYTES(pmtu_reg), kWrite).set(in(PRM(pmtu_reg, admin_mtu)), mtu));
    };
    EXPECT_EQ(set(kOverhead), FwStatus::bad_parameter);
    EXPECT_EQ(set(10001), FwStatus::bad_parameter);
    EXPECT_EQ(set(9000 + kOverhead), FwStatus::ok);
    EXPECT_EQ(transport->device().mtu(), 9000);
}

TEST_P(PortRegistersTest, TaggedFramesHaveTheirPriority) {
    const auto frame = [](std::vector<frames::Tag> tags) {
        frames::Spec spec;
        spec.tags = std::move(tags);
        return frames::build(spec);
    };
    const frames::Bytes plain = frame({}), zero = frame({{0x8100, 0x0007}}),
                        five = frame({{0x8100, 5 << 13 | 7}}),
                        outer = frame({{0x8100, 3 << 13 | 7}, {0x8100, 6 << 13 | 7}}),
                        other = frame({{0x88a8, 7 << 13 | 7}});
    arrive(plain, 4);
    arrive(zero, 3);
    arrive(five, 2);
    arrive(outer, 5);
    arrive(other, 6); // not a tag with an 802.1Q priority
    frames::Bytes group = five;
    group[0] = 0x33;
    arrive(group, 7);
    const auto expect = [&](uint32_t priority, uint64_t packets, uint64_t bytes) {
        const auto count = counters(0x10, priority);
        EXPECT_EQ(count(PRM(eth_per_prio_grp_data_layout, rx_frames_low)), packets) << priority;
        EXPECT_EQ(count(PRM(eth_per_prio_grp_data_layout, rx_octets_low)), bytes) << priority;
        EXPECT_EQ(count(PRM(eth_per_prio_grp_data_layout, tx_frames_low)), 0u) << priority;
    };
    expect(0, 13, 4 * plain.size() + 3 * zero.size() + 6 * other.size());
    expect(3, 5, 5 * outer.size());
    expect(5, 9, 9 * five.size());
    for (const uint32_t priority : {1, 2, 4, 6, 7})
        expect(priority, 0, 0);
    EXPECT_EQ(
        counters(0x00)(PRM(eth_802_3_cntrs_grp_data_layout, a_multicast_frames_received_ok_low)),
        7u);
}

TEST_P(PortRegistersTest, LinkDownsAreCounted) {
    const auto downs = [&] { return counters(0x12)(PRM(phys_layer_cntrs, link_down_events)); };
    EXPECT_EQ(downs(), 0u);
    set_link(false);
    EXPECT_EQ(downs(), 1u);
    transport->wire().plugged = false;
    transport->device().poll();
    EXPECT_EQ(downs(), 1u) << "it was down";
    set_link(true);
    EXPECT_EQ(downs(), 1u) << "it still is";
    transport->wire().plugged = true;
    transport->device().poll();
    transport->wire().plugged = false;
    transport->device().poll();
    EXPECT_EQ(downs(), 2u);
}

TEST_P(PortRegistersTest, ThePortTellsWhyThereIsNoLink) {
    EXPECT_EQ(why_no_link(), 0u);
    set_link(false);
    EXPECT_EQ(why_no_link(), 1u) << "closed by command";
    set_link(true);
    transport->wire().plugged = false;
    transport->device().poll();
    EXPECT_EQ(why_no_link(), 2u) << "no partner";
    const Request other_page = of(kPddr, PRM_BYTES(pddr_reg));
    EXPECT_EQ(status(other_page), FwStatus::bad_parameter);
}

TEST_P(PortRegistersTest, ThePortHasAPlug) {
    const Answer lanes = run(of(kPmlp, PRM_BYTES(pmlp_reg)));
    EXPECT_EQ(lanes.get(in(PRM(pmlp_reg, width))), 4u) << "100 Gbit/s";
    for (const uint64_t lane : {0, 1, 2, 3}) {
        const Field mapping{PRM(pmlp_reg, lane0_module_mapping).offset + 32 * lane, 32};
        EXPECT_EQ(lanes.get(in(mapping)), lane << 24 | lane << 16);
    }
    EXPECT_EQ(status(of(kPmlp, PRM_BYTES(pmlp_reg), kWrite)), FwStatus::bad_parameter);

    const auto text = [&](uint64_t from, uint64_t bytes) {
        const Answer answer = run(plug(from, bytes));
        EXPECT_EQ(answer.get(in(PRM(mcia_reg, status))), 0u);
        std::string text;
        for (uint64_t i = 0; i < bytes; i++)
            text += static_cast<char>(answer.get(in({128 + 8 * i, 8})));
        return text;
    };
    EXPECT_EQ(text(0, 1), "\x11") << "QSFP28";
    EXPECT_EQ(text(148, 16), fmt::format("{:16}", "softhca"));
    EXPECT_EQ(text(168, 16), fmt::format("{:16}", "100G-CR4"));
    EXPECT_EQ(text(196, 16), fmt::format("{:16}", "020000000001")) << "serial number";
    EXPECT_EQ(run(plug(0, 1, 0x51)).get(in(PRM(mcia_reg, status))), 1u) << "no diagnostics";
    EXPECT_EQ(status(plug(208, 48)), FwStatus::ok);
    EXPECT_EQ(status(plug(209, 48)), FwStatus::bad_parameter) << "beyond the end";
    EXPECT_EQ(status(plug(0, 49)), FwStatus::bad_parameter) << "too much at once";
    EXPECT_EQ(status(plug(0, 1).set(in(PRM(mcia_reg, module)), 1)), FwStatus::bad_parameter);
}

TEST_P(PortRegistersTest, WhatTheHostWritesIsRead) {
    const Field text = in({0, 32});
    ASSERT_EQ(status(of(kNodeDescription, 64, kWrite).set(text, 0x6d696e65)), FwStatus::ok);
    EXPECT_EQ(run(of(kNodeDescription, 64).set(text, 1)).get(text), 0x6d696e65u);
    EXPECT_EQ(status(of(kHostEndianness, 16, kWrite)), FwStatus::ok) << "little";
    EXPECT_EQ(status(of(kHostEndianness, 16, kWrite).set(in({0, 8}), 0x80)),
              FwStatus::bad_parameter)
        << "big";
}

TEST_P(PortRegistersTest, ThePortTellsWhichRegistersItHas) {
    const Answer answer = run(of(kPcam, PRM_BYTES(pcam_reg)));
    ASSERT_EQ(answer.status(), FwStatus::ok);
    const Field mask = PRM(pcam_reg, port_access_reg_cap_mask);
    for (uint16_t id = 0x5000; id < 0x5080; id++) {
        const bool is_there = answer.get(in({mask.offset + 0x507f - id, 1})) != 0;
        EXPECT_EQ(is_there, status(of(id, 640)) == FwStatus::ok || id == kPddr) << std::hex << id;
    }
    EXPECT_EQ(answer.get(in(inside(PRM(pcam_reg, port_access_reg_cap_mask),
                                   PRM(pcam_regs_5000_to_507f, pplm)))),
              1u);
    EXPECT_EQ(status(of(kPcam, PRM_BYTES(pcam_reg)).set(in(PRM(pcam_reg, feature_group)), 1)),
              FwStatus::bad_parameter);
    EXPECT_EQ(status(of(kPcam, PRM_BYTES(pcam_reg)).set(in(PRM(pcam_reg, access_reg_group)), 1)),
              FwStatus::bad_parameter);
    EXPECT_EQ(status(of(kPcam, PRM_BYTES(pcam_reg), kWrite)), FwStatus::bad_parameter);
}

TEST_P(PortRegistersTest, TheDeviceTellsWhichManagementRegistersItHas) {
    const auto group = [&](uint64_t number) {
        return of(kMcam, PRM_BYTES(mcam_reg)).set(in(PRM(mcam_reg, access_reg_group)), number);
    };
    const Field mask = PRM(mcam_reg, mng_access_reg_cap_mask);
    const Answer answer = run(group(0));
    ASSERT_EQ(answer.status(), FwStatus::ok);
    for (uint16_t id = 0x9000; id < 0x9080; id++) {
        const bool is_there = answer.get(in({mask.offset + 0x907f - id, 1})) != 0;
        EXPECT_EQ(is_there, status(of(id, 640)) == FwStatus::ok || id == kMcqi) << std::hex << id;
    }
    for (uint64_t other = 1; other < 4; other++)
        for (size_t word = 0; word < 4; word++)
            EXPECT_EQ(run(group(other)).get(in({mask.offset + 32 * word, 32})), 0u) << other;
    EXPECT_EQ(status(group(4)), FwStatus::bad_parameter);
    EXPECT_EQ(status(group(0).set(in(PRM(mcam_reg, feature_group)), 1)), FwStatus::bad_parameter);
    EXPECT_EQ(status(of(kMcam, PRM_BYTES(mcam_reg), kWrite)), FwStatus::bad_parameter);
}

TEST_P(PortRegistersTest, TheFirmwareHasOneComponentAndItsVersion) {
    constexpr uint64_t kBootImage = 1, kIdle = 0, kVersion = 1, kWarmReboot = 1u << 6;
    const auto component = [&](uint64_t index) {
        return of(kMcqs, PRM_BYTES(mcqs_reg)).set(in(PRM(mcqs_reg, component_index)), index);
    };
    const Answer only = run(component(0));
    EXPECT_EQ(only.get(in(PRM(mcqs_reg, identifier))), kBootImage);
    EXPECT_EQ(only.get(in(PRM(mcqs_reg, component_update_state))), kIdle);
    EXPECT_EQ(only.get(in(PRM(mcqs_reg, last_index_flag))), 1u);
    EXPECT_EQ(status(component(1)), FwStatus::bad_parameter);

    const auto about = [&](uint64_t type) {
        return of(kMcqi, PRM_BYTES(mcqi_reg) + PRM_BYTES(mcqi_version))
            .set(in(PRM(mcqi_reg, info_type)), type);
    };
    constexpr Field kData{8 * PRM_BYTES(mcqi_reg), 0};
    EXPECT_EQ(run(about(kVersion)).get(in(inside(kData, PRM(mcqi_version, version)))),
              softhca::kFirmwareMajor << 24 | softhca::kFirmwareMinor << 16 |
                  softhca::kFirmwareSubminor);
    EXPECT_EQ(status(about(0)), FwStatus::bad_parameter) << "capabilities, for flashing";
    EXPECT_EQ(status(about(kVersion).set(in(PRM(mcqi_reg, read_pending_component)), 1)),
              FwStatus::bad_parameter)
        << "nothing is pending";
    EXPECT_EQ(run(of(kMfrl, PRM_BYTES(mfrl_reg))).get(in(PRM(mfrl_reg, reset_level))), kWarmReboot);
    for (const uint16_t id : {kMcqs, kMcqi, kMfrl})
        EXPECT_EQ(status(of(id, 64, kWrite)), FwStatus::bad_parameter);
}

TEST_P(PortRegistersTest, ErrorCorrectionIsTheDriversToChoose) {
    constexpr Field kActive = in(PRM(pplm_reg, fec_mode_active)),
                    kWanted = in(PRM(pplm_reg, fec_override_admin_100g));
    constexpr uint64_t kOff = 1, kBaseR = 2, kRs = 4; // at 100 Gbit/s, the port's speed here
    const Request query = of(kPplm, PRM_BYTES(pplm_reg));
    const auto expect = [&](uint64_t active, uint64_t wanted) {
        const Answer answer = run(query);
        EXPECT_EQ(answer.get(in(PRM(pplm_reg, fec_override_cap_100g))), kOff | kRs);
        EXPECT_EQ(answer.get(in(PRM(pplm_reg, fec_override_cap_25g))), 0u);
        EXPECT_EQ(answer.get(kActive), active);
        EXPECT_EQ(answer.get(kWanted), wanted);
    };
    const auto choose = [&](uint64_t mode) {
        return status(of(kPplm, PRM_BYTES(pplm_reg), kWrite).set(kWanted, mode));
    };
    expect(kRs, 0);
    EXPECT_EQ(choose(kOff), FwStatus::ok);
    expect(kOff, kOff);
    EXPECT_EQ(choose(kBaseR), FwStatus::bad_parameter) << "not at this speed";
    EXPECT_EQ(choose(kOff | kRs), FwStatus::bad_parameter) << "two of them";
    expect(kOff, kOff);
    set_link(false);
    expect(0, kOff);
    set_link(true);
    EXPECT_EQ(choose(0), FwStatus::ok);
    expect(kRs, 0);
}

TEST_P(PortRegistersTest, TheLedBlinksUntilItIsTurnedOff) {
    const auto blink = [&](uint64_t seconds) {
        const Request request = of(kMlcr, PRM_BYTES(mlcr_reg), kWrite);
        ASSERT_EQ(status(Request(request).set(in(PRM(mlcr_reg, beacon_duration)), seconds)),
                  FwStatus::ok);
    };
    const auto left = [&] {
        return run(of(kMlcr, PRM_BYTES(mlcr_reg))).get(in(PRM(mlcr_reg, beacon_remain)));
    };
    EXPECT_EQ(left(), 0u);
    blink(0xffff);
    EXPECT_EQ(left(), 0xffffu) << "until it is turned off";
    blink(3600);
    EXPECT_GT(left(), 3000u);
    EXPECT_LE(left(), 3600u);
    blink(0);
    EXPECT_EQ(left(), 0u);
}

TEST_P(PortRegistersTest, WhatThePortHasNotIsRefused) {
    for (const uint16_t id :
         {0x5001 /* PCAP */, 0x5009 /* PUDE */, 0x500b /* PPTB */, 0x500c /* PBMC */,
          0x500e /* PELC */, 0x500f /* PVLC */, 0x5010 /* PMPE */, 0x5012 /* PMAOS */,
          0x5041 /* PCMR */, 0x9062 /* MCC */}) {
        EXPECT_EQ(status(of(id, 64)), FwStatus::bad_parameter) << std::hex << id;
        EXPECT_EQ(status(of(id, 64, kWrite)), FwStatus::bad_parameter) << std::hex << id;
    }
}

INSTANTIATE_TEST_SUITE_P(Transports, PortRegistersTest, transports(), name_of);

struct PortOfSpeed {
    explicit PortOfSpeed(uint32_t mbps) : firmware(device, mbps) {}
    /// The register's contents after these fields were written.
    Answer answer_of(uint16_t id, size_t bytes,
                     std::vector<std::pair<Field, uint64_t>> written = {}) {
        Request request =
            Request(MLX5_CMD_OP_ACCESS_REG, kHead + bytes, written.empty() ? kQuery : kWrite)
                .set(PRM(access_register_in, register_id), id);
        for (const auto& [field, value] : written)
            request.set(field, value);
        Answer answer;
        answer.out.resize(kHead + bytes);
        (void)firmware.execute(request.in, answer.out, 0);
        return answer;
    }

    core::Device device{{}, std::make_unique<testbed::FakeWire>(), nullptr};
    uverbs::PortFirmware firmware;
};

/// Plain and extended link modes of each speed of a port (Linux: <linux/mlx5/port.h>).
TEST(PortRegisters, EachSpeedHasItsLinkMode) {
    struct Mode {
        uint32_t mbps;
        uint64_t plain, more, lanes;
    };
    uint64_t all_plain = 0, all_extended = 0;
    for (const auto& [mbps, plain, more, lanes] :
         {Mode{1000, 1u << 1, 1u << 1, 1}, Mode{10000, 1u << 12, 1u << 4, 1},
          Mode{25000, 1u << 27, 1u << 6, 1}, Mode{40000, 1u << 6, 1u << 5, 4},
          Mode{50000, 1u << 30, 1u << 7, 2}, Mode{100000, 1u << 20, 1u << 9, 4},
          Mode{200000, 0, 1u << 12, 4}, Mode{400000, 0, 1u << 16, 4}}) {
        const uint64_t extended = mbps > 100000 ? more : 0; // only where the plain ones do not do
        PortOfSpeed port(mbps);
        const Answer modes = port.answer_of(kPtys, PRM_BYTES(ptys_reg));
        EXPECT_EQ(modes.get(inside(kRegister, PRM(ptys_reg, eth_proto_oper))), plain) << mbps;
        EXPECT_EQ(modes.get(inside(kRegister, PRM(ptys_reg, ext_eth_proto_oper))), extended)
            << mbps;
        all_plain |= plain;
        all_extended |= more;
        const uint64_t expected = mbps > 100000 ? all_extended : 0;
        for (const Field field :
             {PRM(ptys_reg, eth_proto_capability), PRM(ptys_reg, eth_proto_admin)})
            EXPECT_EQ(modes.get(inside(kRegister, field)), all_plain)
                << mbps << ": lower ones, too";
        for (const Field field :
             {PRM(ptys_reg, ext_eth_proto_capability), PRM(ptys_reg, ext_eth_proto_admin)})
            EXPECT_EQ(modes.get(inside(kRegister, field)), expected) << mbps;
        EXPECT_EQ(
            port.answer_of(kPmlp, PRM_BYTES(pmlp_reg)).get(inside(kRegister, PRM(pmlp_reg, width))),
            lanes)
            << mbps;
    }
}

/// As by ethtool -s: the fastest of the speeds that the driver allows, in either kind of modes.
TEST(PortRegisters, TheDriverChoosesTheSpeed) {
    constexpr Field kPlain = inside(kRegister, PRM(ptys_reg, eth_proto_admin)),
                    kExtended = inside(kRegister, PRM(ptys_reg, ext_eth_proto_admin)),
                    kFixed = inside(kRegister, PRM(ptys_reg, an_disable_admin)),
                    kOper = inside(kRegister, PRM(ptys_reg, eth_proto_oper)),
                    kOperExtended = inside(kRegister, PRM(ptys_reg, ext_eth_proto_oper));
    constexpr uint64_t k10 = 1u << 12, k25 = 1u << 27, k40 = 1u << 6, k100 = 1u << 20;
    PortOfSpeed port(100000);
    const auto query = [&](Field field) {
        return port.answer_of(kPtys, PRM_BYTES(ptys_reg)).get(field);
    };
    const auto write = [&](std::vector<std::pair<Field, uint64_t>> written) {
        return port.answer_of(kPtys, PRM_BYTES(ptys_reg), std::move(written)).status();
    };
    EXPECT_EQ(query(inside(kRegister, PRM(ptys_reg, an_disable_cap))), 1u);
    EXPECT_EQ(write({{kPlain, k25 | k10}, {kFixed, 1}}), FwStatus::ok);
    EXPECT_EQ(query(kOper), k25);
    EXPECT_EQ(query(kPlain), k25 | k10);
    EXPECT_EQ(query(kFixed), 1u);
    EXPECT_EQ(write({{kPlain, 1u << 31}}), FwStatus::bad_parameter) << "no such mode";
    EXPECT_EQ(write({{kExtended, 1u << 6}}), FwStatus::bad_parameter) << "of faster ports";
    EXPECT_EQ(query(kOper), k25);

    // Error correction is that of the speed.
    const auto fec = [&](Field field) {
        return port.answer_of(kPplm, PRM_BYTES(pplm_reg)).get(inside(kRegister, field));
    };
    EXPECT_EQ(fec(PRM(pplm_reg, fec_override_cap_25g)), 7u);
    EXPECT_EQ(port.answer_of(kPplm, PRM_BYTES(pplm_reg),
                             {{inside(kRegister, PRM(pplm_reg, fec_override_admin_25g)), 4}})
                  .status(),
              FwStatus::ok);
    EXPECT_EQ(write({{kPlain, k40}}), FwStatus::ok);
    EXPECT_EQ(fec(PRM(pplm_reg, fec_override_admin_10g_40g)), 0u) << "there is no RS";
    EXPECT_EQ(fec(PRM(pplm_reg, fec_mode_active)), 1u);
    EXPECT_EQ(write({{kPlain, k100 | k10}}), FwStatus::ok);
    EXPECT_EQ(query(kOper), k100);

    PortOfSpeed fast(200000);
    EXPECT_EQ(fast.answer_of(kPtys, PRM_BYTES(ptys_reg), {{kExtended, 1u << 6}}).get(kOperExtended),
              1u << 6);
}

/// RS has another bit on lanes of 50 Gbit/s, which require RS.
TEST(PortRegisters, EachSpeedHasItsErrorCorrection) {
    struct Modes {
        uint32_t mbps;
        Field supported;
        uint64_t modes, active;
    };
    for (const auto& [mbps, supported, modes, active] :
         {Modes{1000, PRM(pplm_reg, fec_override_cap_10g_40g), 0, 1},
          Modes{10000, PRM(pplm_reg, fec_override_cap_10g_40g), 3, 1},
          Modes{25000, PRM(pplm_reg, fec_override_cap_25g), 7, 4},
          Modes{40000, PRM(pplm_reg, fec_override_cap_10g_40g), 3, 1},
          Modes{50000, PRM(pplm_reg, fec_override_cap_50g), 7, 4},
          Modes{100000, PRM(pplm_reg, fec_override_cap_100g), 5, 4},
          Modes{200000, PRM(pplm_reg, fec_override_cap_200g_4x), 0x80, 0x80},
          Modes{400000, PRM(pplm_reg, fec_override_cap_400g_8x), 0x80, 0x80}}) {
        PortOfSpeed port(mbps);
        const Answer answer = port.answer_of(kPplm, PRM_BYTES(pplm_reg));
        EXPECT_EQ(answer.get(inside(kRegister, supported)), modes) << mbps;
        EXPECT_EQ(answer.get(inside(kRegister, PRM(pplm_reg, fec_mode_active))), active) << mbps;
    }
    PortOfSpeed port(200000);
    constexpr Field kWanted = inside(kRegister, PRM(pplm_reg, fec_override_admin_200g_4x));
    for (const uint64_t rs : {0x80, 7}) // Linux 6.1, later versions
        EXPECT_EQ(port.answer_of(kPplm, PRM_BYTES(pplm_reg), {{kWanted, rs}}).get(kWanted), rs);
    EXPECT_EQ(port.answer_of(kPplm, PRM_BYTES(pplm_reg), {{kWanted, 4}}).status(),
              FwStatus::bad_parameter);
}

} // namespace
} // namespace prm_test
