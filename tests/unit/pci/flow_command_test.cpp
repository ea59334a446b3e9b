// SPDX-License-Identifier: BSD-3-Clause
// Firmware commands for flow tables, groups, entries, counters and header changes.
#include "app/softhca/prm/match.hpp"
#include "tests/unit/pci/guest.hpp"
#include "tests/unit/prm/header_requests.hpp"

#include <algorithm>

namespace pci_test {
namespace {

class FlowCommandTest : public Guest {
  protected:
    FlowCommandTest() {
        start_driver();
        cq = made(cq_request(6, alloc(kPage)));
    }
    Number cq = 0;
};

TEST_F(FlowCommandTest, FlowObjectsAnswerAsTheyWereMade) {
    const Number rq = made(rq_request(cq));
    const Number tir = made(tir_request(rq));
    const Number table = made(table_request(3));
    Request by_protocol = group_request(table, 2, 7);
    constexpr Field kProtocol = PRM(fte_match_set_lyr_2_4, ip_protocol);
    by_protocol.set(PRM(create_flow_group_in, match_criteria_enable), 1);
    by_protocol.set(inside(PRM(create_flow_group_in, match_criteria), kProtocol), 0xff);
    const Number group = made(by_protocol);
    constexpr Field kContext = PRM(set_fte_in, flow_context);
    Request entry = entry_request(table, group, 5, tir);
    entry.set(inside(inside(kContext, PRM(flow_context, match_value)), kProtocol), 17);
    ASSERT_EQ(status_of(entry), FwStatus::ok);

    const Answer table_is = execute(
        REQUEST(QUERY_FLOW_TABLE, query_flow_table).set(PRM(query_flow_table_in, table_id), table));
    EXPECT_EQ(table_is.get(inside(PRM(query_flow_table_out, flow_table_context),
                                  PRM(flow_table_context, level))),
              3);
    const Answer group_is = execute(REQUEST(QUERY_FLOW_GROUP, query_flow_group)
                                        .set(PRM(query_flow_group_in, table_id), table)
                                        .set(PRM(query_flow_group_in, group_id), group));
    EXPECT_EQ(group_is.get(PRM(query_flow_group_out, end_flow_index)), 7);
    EXPECT_EQ(group_is.get(inside(PRM(query_flow_group_out, match_criteria), kProtocol)), 0xff);
    const Request query =
        REQUEST(QUERY_FLOW_TABLE_ENTRY, query_fte).set(PRM(query_fte_in, table_id), table);
    const Answer entry_is = execute(Request(query).set(PRM(query_fte_in, flow_index), 5));
    EXPECT_EQ(
        entry_is.get(inside(
            inside(PRM(query_fte_out, flow_context), PRM(flow_context, match_value)), kProtocol)),
        17);
    EXPECT_EQ(status_of(Request(query).set(PRM(query_fte_in, flow_index), 6)),
              FwStatus::bad_resource);
    EXPECT_EQ(status_of(entry_request(table, group, 1, tir)), FwStatus::bad_resource)
        << "not in the group";
    EXPECT_EQ(status_of(table_request(0, 4)), FwStatus::bad_parameter) << "there is no switch";
    EXPECT_EQ(status_of(root_request(table, 5)), FwStatus::bad_parameter) << "no sniffer table";
}

TEST_F(FlowCommandTest, ChangesOfHeadersLiveAsLongAsTheirEntries) {
    const Number tir = made(tir_request(made(rq_request(cq))));
    const Number table = made(table_request(0)), sends = made(table_request(0, 1));
    const Number group = made(group_request(table, 0, 3)), all = made(group_request(sends, 0, 3));
    EXPECT_EQ(status_of(edits_request()), FwStatus::bad_input_length);
    EXPECT_EQ(status_of(edits_request().page(set_ttl(0) | uint64_t{0xf00} << 48)),
              FwStatus::bad_parameter)
        << "no such field";
    const auto edits =
        static_cast<Number>(execute(edits_request().page(set_ttl(9)))
                                .get(PRM(alloc_modify_header_context_out, modify_header_id)));
    Request reformat = reformat_request();
    EXPECT_EQ(status_of(reformat), FwStatus::bad_input_length);
    reformat.in.resize(reformat.in.size() + 48);
    const auto tunnel = static_cast<Number>(
        execute(reformat).get(PRM(alloc_packet_reformat_context_out, packet_reformat_id)));

    constexpr Field kContext = PRM(set_fte_in, flow_context);
    const auto with = [&](Request entry, uint32_t actions) {
        entry.set(inside(kContext, PRM(flow_context, action)), actions);
        entry.set(inside(kContext, PRM(flow_context, modify_header_id)), edits);
        return entry.set(inside(kContext, PRM(flow_context, packet_reformat_id)), tunnel);
    };
    constexpr uint32_t kForward = MLX5_FLOW_CONTEXT_ACTION_FWD_DEST,
                       kAllow = MLX5_FLOW_CONTEXT_ACTION_ALLOW,
                       kModify = MLX5_FLOW_CONTEXT_ACTION_MOD_HDR,
                       kEncap = MLX5_FLOW_CONTEXT_ACTION_PACKET_REFORMAT;
    const Request receive = entry_request(table, group, 0, tir);
    EXPECT_EQ(status_of(with(receive, kForward | kEncap)), FwStatus::bad_parameter)
        << "tunnels go on where packets are sent";
    EXPECT_EQ(status_of(with(receive, kForward | kAllow)), FwStatus::bad_parameter);
    EXPECT_EQ(status_of(with(receive, kForward | kModify)), FwStatus::ok);
    Request transmit = entry_request(sends, all, 0, 0);
    transmit.set(PRM(set_fte_in, table_type), 1);
    transmit.set(inside(kContext, PRM(flow_context, destination_list_size)), 0);
    EXPECT_EQ(status_of(with(transmit, kAllow | kEncap)), FwStatus::ok);
    EXPECT_EQ(status_of(with(transmit, kModify)), FwStatus::bad_parameter) << "and then?";
    EXPECT_EQ(status_of(root_request(sends, 1)), FwStatus::ok);

    const Request free_edits =
        REQUEST(DEALLOC_MODIFY_HEADER_CONTEXT, dealloc_modify_header_context)
            .set(PRM(dealloc_modify_header_context_in, modify_header_id), edits);
    const Request free_tunnel =
        REQUEST(DEALLOC_PACKET_REFORMAT_CONTEXT, dealloc_packet_reformat_context)
            .set(PRM(dealloc_packet_reformat_context_in, packet_reformat_id), tunnel);
    EXPECT_EQ(status_of(free_edits), FwStatus::resource_busy);
    EXPECT_EQ(status_of(free_tunnel), FwStatus::resource_busy);
    for (const Number of : {table, sends})
        EXPECT_EQ(
            status_of(
                REQUEST(DELETE_FLOW_TABLE_ENTRY, delete_fte).set(PRM(delete_fte_in, table_id), of)),
            FwStatus::ok);
    EXPECT_EQ(status_of(free_edits), FwStatus::ok);
    EXPECT_EQ(status_of(free_tunnel), FwStatus::ok);
    EXPECT_EQ(status_of(free_tunnel), FwStatus::bad_resource);
}

/// A field of the match parameters, and the capability bit that announces it.
struct Announced {
    Field match, capability;
};
#define ANNOUNCED(section, type, field, supported)                                                 \
    Announced {                                                                                    \
        {PRM(fte_match_param, section).offset + PRM(type, field).offset, 1},                       \
            PRM(flow_table_fields_supported, supported)                                            \
    }
const Announced kAnnounced[] = {
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, smac_47_16, outer_smac),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, ethertype, outer_ether_type),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, dmac_47_16, outer_dmac),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, first_prio, outer_first_prio),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, first_cfi, outer_first_cfi),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, first_vid, outer_first_vid),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, ip_protocol, outer_ip_protocol),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, ip_dscp, outer_ip_dscp),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, ip_ecn, outer_ip_ecn),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, frag, outer_frag),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, ip_version, outer_ip_version),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, tcp_flags, outer_tcp_flags),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, ttl_hoplimit, outer_ipv4_ttl),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, tcp_sport, outer_tcp_sport),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, tcp_dport, outer_tcp_dport),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, udp_sport, outer_udp_sport),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, udp_dport, outer_udp_dport),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, src_ipv4_src_ipv6, outer_sip),
    ANNOUNCED(outer_headers, fte_match_set_lyr_2_4, dst_ipv4_dst_ipv6, outer_dip),
    ANNOUNCED(inner_headers, fte_match_set_lyr_2_4, smac_47_16, inner_smac),
    ANNOUNCED(inner_headers, fte_match_set_lyr_2_4, ip_version, inner_ip_version),
    ANNOUNCED(inner_headers, fte_match_set_lyr_2_4, tcp_flags, inner_tcp_flags),
    ANNOUNCED(misc_parameters, fte_match_set_misc, outer_second_vid, outer_second_vid),
    ANNOUNCED(misc_parameters, fte_match_set_misc, inner_second_prio, inner_second_prio),
    ANNOUNCED(misc_parameters, fte_match_set_misc, gre_protocol, outer_gre_protocol),
    ANNOUNCED(misc_parameters, fte_match_set_misc, gre_key, outer_gre_key),
    ANNOUNCED(misc_parameters, fte_match_set_misc, vxlan_vni, outer_vxlan_vni),
    ANNOUNCED(misc_parameters, fte_match_set_misc, geneve_vni, outer_geneve_vni),
    ANNOUNCED(misc_parameters, fte_match_set_misc, geneve_oam, outer_geneve_oam),
    ANNOUNCED(misc_parameters, fte_match_set_misc, geneve_opt_len, outer_geneve_opt_len),
    ANNOUNCED(misc_parameters, fte_match_set_misc, geneve_protocol_type,
              outer_geneve_protocol_type),
    ANNOUNCED(misc_parameters, fte_match_set_misc, outer_esp_spi, outer_esp_spi),
    ANNOUNCED(misc_parameters_2, fte_match_set_misc2, outer_first_mpls, outer_first_mpls),
    ANNOUNCED(misc_parameters_2, fte_match_set_misc2, inner_first_mpls, inner_first_mpls),
    ANNOUNCED(misc_parameters_2, fte_match_set_misc2, outer_first_mpls_over_gre,
              outer_first_mpls_over_gre),
    ANNOUNCED(misc_parameters_2, fte_match_set_misc2, outer_first_mpls_over_udp,
              outer_first_mpls_over_udp),
    ANNOUNCED(misc_parameters_2, fte_match_set_misc2, metadata_reg_c_7, metadata_reg_c_7),
    ANNOUNCED(misc_parameters_2, fte_match_set_misc2, metadata_reg_c_0, metadata_reg_c_0),
};
#undef ANNOUNCED

/// The kernel's own layouts agree with our table of fields.
TEST_F(FlowCommandTest, MatchFieldsAreAnnouncedByTheirOwnBits) {
    for (const Announced& announced : kAnnounced) {
        const auto fields = prm::match_fields();
        const auto found =
            std::ranges::find(fields, announced.match.offset, &prm::MatchField::prm_bit);
        ASSERT_NE(found, fields.end()) << "bit " << announced.match.offset;
        // If there are several bits, the lowest one stands for the first part, an MPLS label.
        EXPECT_EQ(found->capability, announced.capability.offset + announced.capability.width - 1)
            << "bit " << announced.match.offset;
    }
}

TEST_F(FlowCommandTest, AsManyFlowCountersAsTheCapabilitiesSay) {
    const Answer caps = execute(REQUEST(QUERY_HCA_CAP, query_hca_cap, 1), 4096 + 16);
    const auto cap = [&](Field field) { return caps.get(inside({128, 0}, field)); };
    const uint32_t most = cap(PRM(cmd_hca_cap, max_flow_counter_31_16)) << 16 |
                          cap(PRM(cmd_hca_cap, max_flow_counter_15_0));
    const Request alloc = REQUEST(ALLOC_FLOW_COUNTER, alloc_flow_counter);
    const Answer first = execute(alloc);
    constexpr uint32_t kBulks = 16, kBulk = kBulks * kCounterBulk;
    uint32_t made = 1;
    for (; made + kBulk <= most; made += kBulk)
        ASSERT_EQ(
            status_of(Request(alloc).set(PRM(alloc_flow_counter_in, flow_counter_bulk), kBulks)),
            FwStatus::ok);
    for (; made < most; made++)
        ASSERT_EQ(status_of(alloc), FwStatus::ok) << made;
    EXPECT_EQ(status_of(alloc), FwStatus::exceeded_limit);
    ASSERT_EQ(status_of(REQUEST(DEALLOC_FLOW_COUNTER, dealloc_flow_counter)
                            .set(PRM(dealloc_flow_counter_in, flow_counter_id),
                                 first.get(PRM(alloc_flow_counter_out, flow_counter_id)))),
              FwStatus::ok);
    EXPECT_EQ(status_of(alloc), FwStatus::ok);
}

TEST_F(FlowCommandTest, AsManyDestinationsAsTheCapabilitiesSay) {
    const Number tir = made(tir_request(made(rq_request(cq))));
    const Number table = made(table_request());
    const Number group = made(group_request(table, 0, 3));
    const auto entry = [&](uint32_t destinations) {
        constexpr Field kContext = PRM(set_fte_in, flow_context);
        Request request = entry_request(table, group, 0, tir);
        for (uint32_t more = 1; more < destinations; more++)
            request.page(uint64_t{2u << 24 | tir} << 32);
        return request.set(inside(kContext, PRM(flow_context, destination_list_size)),
                           destinations);
    };
    constexpr uint32_t kMost = 1u << kLogMaxDestinations;
    EXPECT_EQ(status_of(entry(kMost)), FwStatus::ok);
    EXPECT_EQ(status_of(entry(kMost + 1)), FwStatus::exceeded_limit);
    EXPECT_EQ(status_of(entry(2 * kMost - 1)), FwStatus::exceeded_limit);
}

} // namespace
} // namespace pci_test
