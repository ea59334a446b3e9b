// SPDX-License-Identifier: BSD-3-Clause
// TIRs: what their contexts request.
#include "tests/unit/prm/users.hpp"

#include <nlohmann/json.hpp>

namespace prm_test {
namespace {

constexpr Field kContext = PRM(create_tir_in, ctx), kNewContext = PRM(modify_tir_in, ctx);
constexpr uint64_t kBothIps = 3, kShampo = 4;

class TirsTest : public UsersTest {
  protected:
    TirsTest()
        : rq(made(by(mine, rq_request(made(by(mine, cq_request(umem))))))),
          domain(made(by(mine, REQUEST(ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain)))) {}

    static Request& set_lro(Request& request, Field context, uint64_t ips, uint64_t period,
                            uint64_t size) {
        return request.set(inside(context, PRM(tirc, packet_merge_mask)), ips)
            .set(inside(context, PRM(tirc, lro_timeout_period_usecs)), period)
            .set(inside(context, PRM(tirc, lro_max_ip_payload_size)), size);
    }
    Request create(uint64_t ips, uint64_t period, uint64_t size) {
        Request request = REQUEST(CREATE_TIR, create_tir)
                              .set(inside(kContext, PRM(tirc, inline_rqn)), rq)
                              .set(inside(kContext, PRM(tirc, transport_domain)), domain);
        return by(mine, set_lro(request, kContext, ips, period, size));
    }
    Request modify(Number tir, uint64_t ips, uint64_t period, uint64_t size) {
        Request request = REQUEST(MODIFY_TIR, modify_tir).number(tir);
        return by(mine, set_lro(request, kNewContext, ips, period, size));
    }
    /// For an indirection table; every entry is the queue.
    Request list(Request request, Field context, uint32_t room, uint32_t entries) {
        const size_t first = (context.offset + PRM(rqtc, rq_num[0]).offset) / 8;
        request.in.resize(first + entries * sizeof(uint32_t));
        for (uint32_t i = 0; i < entries; i++)
            net::store_be<uint32_t>(request.in.data() + first + i * sizeof(uint32_t), rq);
        return by(mine, request.set(inside(context, PRM(rqtc, rqt_max_size)), room)
                            .set(inside(context, PRM(rqtc, rqt_actual_size)), entries));
    }
    Request create_table(uint32_t room, uint32_t entries) {
        return list(REQUEST(CREATE_RQT, create_rqt), PRM(create_rqt_in, rqt_context), room,
                    entries);
    }
    void expect_lro(bool ipv4, bool ipv6, uint64_t timeout_ns, uint32_t bytes) {
        const nlohmann::json tir = transport->device().dump().at("tirs").back();
        EXPECT_EQ(tir.at("lro_ipv4"), ipv4);
        EXPECT_EQ(tir.at("lro_ipv6"), ipv6);
        EXPECT_EQ(tir.at("lro_timeout_ns"), timeout_ns);
        EXPECT_EQ(tir.at("lro_max_bytes"), bytes);
    }

    Number rq, domain;
};

TEST_P(TirsTest, LroIsAnnounced) {
    constexpr uint16_t kEthernetNow = 1 << 1 | 1;
    const Answer caps = run(REQUEST(QUERY_HCA_CAP, query_hca_cap, kEthernetNow));
    const auto cap = [&](Field field) { return caps.get(inside({128, 0}, field)); };
    EXPECT_EQ(cap(PRM(per_protocol_networking_offload_caps, lro_cap)), 1u);
    EXPECT_EQ(cap(PRM(per_protocol_networking_offload_caps, lro_psh_flag)), 1u);
    EXPECT_EQ(cap(PRM(per_protocol_networking_offload_caps, lro_time_stamp)), 1u);
    EXPECT_EQ(cap(PRM(per_protocol_networking_offload_caps, lro_min_mss_size)), 1348u);
    const size_t periods =
        PRM(per_protocol_networking_offload_caps, lro_timer_supported_periods[0]).offset;
    for (size_t i = 0; const uint32_t period : {8u, 16u, 32u, 1024u})
        EXPECT_EQ(cap({periods + 32 * i++, 32}), period);
}

TEST_P(TirsTest, LroKeepsToThePeriodsThatThereAre) {
    const std::pair<uint64_t, uint64_t> periods[] = {
        {0, 8}, {8, 8}, {15, 8}, {16, 16}, {1023, 32}, {1024, 1024}, {65535, 1024}};
    for (const auto& [wanted, has] : periods) {
        const Number tir = made(create(kBothIps, wanted, 31));
        expect_lro(true, true, 1000 * has, 31 * 256);
        EXPECT_EQ(status(by(mine, REQUEST(DESTROY_TIR, destroy_tir).number(tir))), FwStatus::ok);
    }
}

TEST_P(TirsTest, OnlyLroMergesPackets) {
    EXPECT_EQ(status(create(kShampo, 8, 31)), FwStatus::bad_parameter);
    EXPECT_EQ(status(create(kBothIps, 8, 31)), FwStatus::ok);
}

TEST_P(TirsTest, LroIsModifiedWhenAskedFor) {
    const Number tir = made(create(0, 0, 0));
    expect_lro(false, false, 8000, 0);
    EXPECT_EQ(status(modify(tir, 1, 32, 255)), FwStatus::ok);
    expect_lro(false, false, 8000, 0);
    const Field merge = inside(PRM(modify_tir_in, bitmask), PRM(modify_tir_bitmask, packet_merge));
    EXPECT_EQ(status(modify(tir, 1, 32, 255).set(merge, 1)), FwStatus::ok);
    expect_lro(true, false, 32000, 255 * 256);
    EXPECT_EQ(status(modify(tir, kShampo, 8, 1).set(merge, 1)), FwStatus::bad_parameter);
    expect_lro(true, false, 32000, 255 * 256);
    const Answer query = run(by(mine, REQUEST(QUERY_TIR, query_tir).number(tir)));
    const Field context = PRM(query_tir_out, tir_context);
    EXPECT_EQ(query.get(inside(context, PRM(tirc, packet_merge_mask))), 1u);
    EXPECT_EQ(query.get(inside(context, PRM(tirc, lro_max_ip_payload_size))), 255u);
}

/// As in mlx5e's TIRs for ESP and AH, and in net_mlx5's for ESP.
TEST_P(TirsTest, TheSpiIsHashed) {
    constexpr uint64_t kAddressesAndSpi = 0x13, kToeplitz = 2;
    const Field selector = inside(kContext, PRM(tirc, rx_hash_field_selector_outer));
    made(create(0, 0, 0)
             .set(inside(kContext, PRM(tirc, rx_hash_fn)), kToeplitz)
             .set(inside(selector, PRM(rx_hash_field_select, selected_fields)), kAddressesAndSpi));
    EXPECT_EQ(transport->device().dump().at("tirs").back().at("hashes"),
              nlohmann::json({"src_ip", "dst_ip", "spi"}));
}

/// As for ethtool's hfunc xor, and back.
TEST_P(TirsTest, ThereAreTwoHashFunctions) {
    constexpr uint64_t kAddresses = 3, kXor = 1, kToeplitz = 2, kUnknown = 3;
    const Field selector = inside(kContext, PRM(tirc, rx_hash_field_selector_outer));
    const auto hashing = [&](uint64_t function) {
        return create(0, 0, 0)
            .set(inside(kContext, PRM(tirc, rx_hash_fn)), function)
            .set(inside(selector, PRM(rx_hash_field_select, selected_fields)), kAddresses);
    };
    EXPECT_EQ(status(hashing(0)), FwStatus::bad_parameter);
    EXPECT_EQ(status(hashing(kUnknown)), FwStatus::bad_parameter);
    const Number tir = made(hashing(kXor));
    const auto function = [&] {
        return run(by(mine, REQUEST(QUERY_TIR, query_tir).number(tir)))
            .get(inside(PRM(query_tir_out, tir_context), PRM(tirc, rx_hash_fn)));
    };
    EXPECT_EQ(function(), kXor);
    const Field context = PRM(modify_tir_in, ctx);
    const Request back =
        by(mine, REQUEST(MODIFY_TIR, modify_tir)
                     .number(tir)
                     .set(inside(PRM(modify_tir_in, bitmask), PRM(modify_tir_bitmask, hash)), 1)
                     .set(inside(context, PRM(tirc, rx_hash_fn)), kToeplitz)
                     .set(inside(inside(context, PRM(tirc, rx_hash_field_selector_outer)),
                                 PRM(rx_hash_field_select, selected_fields)),
                          kAddresses));
    EXPECT_EQ(status(back), FwStatus::ok);
    EXPECT_EQ(function(), kToeplitz);
}

/// The type of L3 is that of the addresses: it says nothing where none is hashed.
TEST_P(TirsTest, WithoutAddressesPacketsOfEitherVersionAreHashed) {
    constexpr uint64_t kAddresses = 3, kPorts = 0xc, kSpi = 0x10, kToeplitz = 2;
    const Field selector = inside(kContext, PRM(tirc, rx_hash_field_selector_outer));
    for (const uint64_t ipv6 : {0u, 1u})
        for (const auto& [selected, version] :
             {std::pair{kPorts, 0u}, {kSpi, 0u}, {kAddresses | kPorts, ipv6 ? 6u : 4u}}) {
            made(create(0, 0, 0)
                     .set(inside(kContext, PRM(tirc, rx_hash_fn)), kToeplitz)
                     .set(inside(selector, PRM(rx_hash_field_select, l3_prot_type)), ipv6)
                     .set(inside(selector, PRM(rx_hash_field_select, selected_fields)), selected));
            EXPECT_EQ(transport->device().dump().at("tirs").back().at("hashes_ip_version"), version)
                << selected << ' ' << ipv6;
        }
}

/// The bit of net_mlx5 (mlx5_devx_cmd_modify_tir), which the kernel's header lacks.
TEST_P(TirsTest, AnotherIndirectionTableTakesOverWhenAskedFor) {
    constexpr Field kOtherTable = inside(PRM(modify_tir_in, bitmask), Field{62, 1});
    constexpr Field kTable = PRM(tirc, indirect_table);
    const Number first = made(create_table(1, 1)), second = made(create_table(1, 1));
    const Number tir = made(create(0, 0, 0)
                                .set(inside(kContext, PRM(tirc, disp_type)), 1)
                                .set(inside(kContext, kTable), first));
    const auto table = [&] { return transport->device().dump().at("tirs").back().at("rqt"); };
    const auto modify_table = [&] {
        return modify(tir, 0, 0, 0).set(inside(kNewContext, kTable), second);
    };
    EXPECT_EQ(status(modify_table()), FwStatus::ok);
    EXPECT_EQ(table(), first);
    EXPECT_EQ(status(modify_table().set(kOtherTable, 1)), FwStatus::ok);
    EXPECT_EQ(table(), second);
    const Answer query = run(by(mine, REQUEST(QUERY_TIR, query_tir).number(tir)));
    EXPECT_EQ(query.get(inside(PRM(query_tir_out, tir_context), kTable)), second);
    const auto destroy = [&](Number number) {
        return status(by(mine, REQUEST(DESTROY_RQT, destroy_rqt).number(number)));
    };
    EXPECT_EQ(destroy(first), FwStatus::ok);
    EXPECT_EQ(destroy(second), FwStatus::resource_busy);
    EXPECT_EQ(status(modify(tir, 0, 0, 0).set(kOtherTable, 1)), FwStatus::bad_resource);
    const Number direct = made(create(0, 0, 0));
    EXPECT_EQ(
        status(
            modify(direct, 0, 0, 0).set(inside(kNewContext, kTable), second).set(kOtherTable, 1)),
        FwStatus::bad_parameter)
        << "it has no table";
}

/// Only the creation says how many entries there may be; a change says nothing about it.
TEST_P(TirsTest, IndirectionTablesKeepToTheirRoom) {
    EXPECT_EQ(status(create_table(1, 2)), FwStatus::bad_parameter);
    const Number table = made(create_table(4, 2));
    const auto fill = [&](uint32_t entries) {
        return status(list(REQUEST(MODIFY_RQT, modify_rqt).number(table), PRM(modify_rqt_in, ctx),
                           0, entries));
    };
    EXPECT_EQ(fill(4), FwStatus::ok);
    EXPECT_EQ(fill(5), FwStatus::bad_parameter);
    const Answer query = run(by(mine, REQUEST(QUERY_RQT, query_rqt).number(table)));
    const auto told = [&](Field field) {
        return query.get(inside(PRM(query_rqt_out, rqt_context), field));
    };
    EXPECT_EQ(told(PRM(rqtc, rqt_max_size)), 4u);
    EXPECT_EQ(told(PRM(rqtc, rqt_actual_size)), 4u);
}

INSTANTIATE_TEST_SUITE_P(Transports, TirsTest, transports(), name_of);

} // namespace
} // namespace prm_test
