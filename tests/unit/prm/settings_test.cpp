// SPDX-License-Identifier: BSD-3-Clause
// Settings of the whole function: which values are accepted, and what remains of them.
#include "tests/unit/prm/transports.hpp"

namespace prm_test {
namespace {

using SettingsTest = TransportTest;

TEST_P(SettingsTest, VxlanHasAsManyPortsAsThereIsRoomFor) {
    const auto add = [&](uint64_t port) {
        return status(REQUEST(ADD_VXLAN_UDP_DPORT, add_vxlan_udp_dport)
                          .set(PRM(add_vxlan_udp_dport_in, vxlan_udp_port), port));
    };
    const auto remove = [&](uint64_t port) {
        return status(REQUEST(DELETE_VXLAN_UDP_DPORT, delete_vxlan_udp_dport)
                          .set(PRM(delete_vxlan_udp_dport_in, vxlan_udp_port), port));
    };
    constexpr uint64_t kStandard = 4789, kOther = 8472;
    EXPECT_EQ(add(kStandard), FwStatus::ok); // though it is there
    for (const uint64_t port : {uint64_t{1}, kOther, uint64_t{65535}})
        EXPECT_EQ(add(port), FwStatus::ok) << port;
    EXPECT_EQ(add(2), FwStatus::no_resources);
    EXPECT_EQ(add(kOther), FwStatus::ok);
    EXPECT_EQ(remove(kOther), FwStatus::ok);
    EXPECT_EQ(remove(kOther), FwStatus::bad_parameter);
    EXPECT_EQ(add(2), FwStatus::ok);
    for (const uint64_t port : {kStandard, uint64_t{1}, uint64_t{2}, uint64_t{65535}})
        EXPECT_EQ(remove(port), FwStatus::ok) << port;
    EXPECT_EQ(add(0), FwStatus::bad_parameter);
    EXPECT_EQ(remove(0), FwStatus::bad_parameter) << "it stands for the free places";
    EXPECT_EQ(add(kStandard), FwStatus::ok);
}

TEST_P(SettingsTest, AFunctionBeginsWithTheStandardPortOfVxlan) {
    const Request add = REQUEST(ADD_VXLAN_UDP_DPORT, add_vxlan_udp_dport)
                            .set(PRM(add_vxlan_udp_dport_in, vxlan_udp_port), 8472);
    ASSERT_EQ(status(add), FwStatus::ok);
    ASSERT_EQ(status(REQUEST(TEARDOWN_HCA, teardown_hca)), FwStatus::ok);
    EXPECT_EQ(status(REQUEST(DELETE_VXLAN_UDP_DPORT, delete_vxlan_udp_dport)
                         .set(PRM(delete_vxlan_udp_dport_in, vxlan_udp_port), 8472)),
              FwStatus::bad_parameter);
    EXPECT_EQ(status(REQUEST(DELETE_VXLAN_UDP_DPORT, delete_vxlan_udp_dport)
                         .set(PRM(delete_vxlan_udp_dport_in, vxlan_udp_port), 4789)),
              FwStatus::ok);
}

TEST_P(SettingsTest, InterfaceStepsAreThoseThatAreOffered) {
    const auto offered =
        run(REQUEST(QUERY_ISSI, query_issi)).get(PRM(query_issi_out, supported_issi_dw0));
    EXPECT_EQ(offered, 0b11u);
    for (uint64_t step = 0; step < 4; step++)
        EXPECT_EQ(status(REQUEST(SET_ISSI, set_issi).set(PRM(set_issi_in, current_issi), step)),
                  offered >> step & 1 ? FwStatus::ok : FwStatus::bad_parameter)
            << step;
}

TEST_P(SettingsTest, CurrentCapabilitiesAreAsTheDriverSetsThem) {
    constexpr uint16_t kMaximum = 0, kCurrent = 1; // of the general ones
    constexpr size_t kHead = 16;
    constexpr Field kPageSize{8 * kHead + PRM(cmd_hca_cap, log_uar_page_sz).offset,
                              PRM(cmd_hca_cap, log_uar_page_sz).width};
    const auto query = [&](uint16_t which) {
        return run(REQUEST(QUERY_HCA_CAP, query_hca_cap, which));
    };
    const uint32_t before = query(kCurrent).get(kPageSize);
    std::vector<uint8_t> wanted = query(kCurrent).out;
    Request set(MLX5_CMD_OP_SET_HCA_CAP, wanted.size());
    std::copy(wanted.begin() + kHead, wanted.end(), set.in.begin() + kHead);
    set.set(kPageSize, before + 3);
    EXPECT_EQ(status(set), FwStatus::ok);
    EXPECT_EQ(query(kCurrent).get(kPageSize), before + 3);
    EXPECT_EQ(query(kMaximum).get(kPageSize), before);
    constexpr uint16_t kUnknown = 0x7e;
    EXPECT_EQ(status(Request(MLX5_CMD_OP_SET_HCA_CAP, wanted.size(), kUnknown << 1)),
              FwStatus::bad_parameter);
    EXPECT_EQ(status(Request(MLX5_CMD_OP_SET_HCA_CAP, kHead)), FwStatus::bad_input_length);
}

INSTANTIATE_TEST_SUITE_P(Transports, SettingsTest, transports(), name_of);

} // namespace
} // namespace prm_test
