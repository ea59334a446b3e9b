// SPDX-License-Identifier: BSD-3-Clause
// Hairpin queues by firmware commands, as net_mlx5 and the kernel create them: without PD, CQ and
// ring. Fields that the kernel's header does not name are at their offsets in DPDK's mlx5_prm.h.
#include "tests/unit/prm/users.hpp"

#include <nlohmann/json.hpp>

namespace prm_test {
namespace {

constexpr Field kBufferType{0x15, 3};
constexpr Field kSqContext = PRM(create_sq_in, ctx), kRqContext = PRM(create_rq_in, ctx);
constexpr uint64_t kReset = 0, kReady = 1, kError = 3;

class HairpinTest : public UsersTest {
  protected:
    HairpinTest() {
        const Number domain =
            made(by(mine, REQUEST(ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain)));
        tis = made(by(
            mine, REQUEST(CREATE_TIS, create_tis)
                      .set(inside(PRM(create_tis_in, ctx), PRM(tisc, transport_domain)), domain)));
        constexpr Field kCaps = PRM(query_hca_cap_out, capability);
        const Answer caps = run(by(mine, REQUEST(QUERY_HCA_CAP, query_hca_cap)));
        vhca = caps.get(inside(kCaps, PRM(cmd_hca_cap, vhca_id)));
    }
    Request sq_request(uint64_t log_packets = 4, uint64_t log_bytes = 12) {
        return by(mine, REQUEST(CREATE_SQ, create_sq)
                            .set(inside(kSqContext, PRM(sqc, hairpin)), 1)
                            .set(inside(kSqContext, PRM(sqc, tis_lst_sz)), 1)
                            .set(inside(kSqContext, PRM(sqc, tis_num_0)), tis)
                            .set(inside(kSqWq, PRM(wq, log_hairpin_num_packets)), log_packets)
                            .set(inside(kSqWq, PRM(wq, log_hairpin_data_sz)), log_bytes));
    }
    Request rq_request(uint64_t log_packets = 4, uint64_t log_bytes = 12) {
        return by(mine, REQUEST(CREATE_RQ, create_rq)
                            .set(inside(kRqContext, PRM(rqc, hairpin)), 1)
                            .set(inside(kRqWq, PRM(wq, log_hairpin_num_packets)), log_packets)
                            .set(inside(kRqWq, PRM(wq, log_hairpin_data_sz)), log_bytes)
                            .set(inside(kRqWq, PRM(wq, dbr_umem_valid)), 1) // the kernel says so
                            .set(inside(kRqWq, PRM(wq, wq_umem_valid)), 1));
    }
    Request modify_sq(Number sqn, uint64_t from, uint64_t to, Number peer = 0) {
        constexpr Field kContext = PRM(modify_sq_in, ctx);
        return by(mine, REQUEST(MODIFY_SQ, modify_sq)
                            .number(sqn)
                            .set(PRM(modify_sq_in, sq_state), from)
                            .set(inside(kContext, PRM(sqc, state)), to)
                            .set(inside(kContext, PRM(sqc, hairpin_peer_rq)), peer)
                            .set(inside(kContext, PRM(sqc, hairpin_peer_vhca)), vhca));
    }
    Request modify_rq(Number rqn, uint64_t from, uint64_t to, Number peer = 0) {
        constexpr Field kContext = PRM(modify_rq_in, ctx);
        return by(mine, REQUEST(MODIFY_RQ, modify_rq)
                            .number(rqn)
                            .set(PRM(modify_rq_in, rq_state), from)
                            .set(inside(kContext, PRM(rqc, state)), to)
                            .set(inside(kContext, PRM(rqc, hairpin_peer_sq)), peer)
                            .set(inside(kContext, PRM(rqc, hairpin_peer_vhca)), vhca));
    }
    FwStatus destroy_sq(Number sqn) {
        return status(by(mine, REQUEST(DESTROY_SQ, destroy_sq).number(sqn)));
    }
    FwStatus destroy_rq(Number rqn) {
        return status(by(mine, REQUEST(DESTROY_RQ, destroy_rq).number(rqn)));
    }
    void pair_up(Number sqn, Number rqn) {
        ASSERT_EQ(status(modify_sq(sqn, kReset, kReady, rqn)), FwStatus::ok);
        ASSERT_EQ(status(modify_rq(rqn, kReset, kReady, sqn)), FwStatus::ok);
    }
    /// What QUERY returns: state, peer and the peer's vhca.
    using Said = std::array<uint64_t, 3>;
    Said query_sq(Number sqn) {
        constexpr Field kAt = PRM(query_sq_out, sq_context);
        const Answer answer = run(by(mine, REQUEST(QUERY_SQ, query_sq).number(sqn)));
        return {answer.get(inside(kAt, PRM(sqc, state))),
                answer.get(inside(kAt, PRM(sqc, hairpin_peer_rq))),
                answer.get(inside(kAt, PRM(sqc, hairpin_peer_vhca)))};
    }
    Said query_rq(Number rqn) {
        constexpr Field kAt = PRM(query_rq_out, rq_context);
        const Answer answer = run(by(mine, REQUEST(QUERY_RQ, query_rq).number(rqn)));
        return {answer.get(inside(kAt, PRM(rqc, state))),
                answer.get(inside(kAt, PRM(rqc, hairpin_peer_sq))),
                answer.get(inside(kAt, PRM(rqc, hairpin_peer_vhca)))};
    }

    static constexpr Field kSqWq = inside(kSqContext, PRM(sqc, wq));
    static constexpr Field kRqWq = inside(kRqContext, PRM(rqc, wq));
    Number tis = 0;
    uint64_t vhca = 0;
};

TEST_P(HairpinTest, CapabilitiesSayWhatIsMade) {
    constexpr Field kCaps = PRM(query_hca_cap_out, capability);
    const Answer caps = run(by(mine, REQUEST(QUERY_HCA_CAP, query_hca_cap)));
    const auto cap = [&](Field field) { return caps.get(inside(kCaps, field)); };
    EXPECT_EQ(cap(PRM(cmd_hca_cap, hairpin)), 1u);
    EXPECT_EQ(cap(PRM(cmd_hca_cap, log_max_hairpin_queues)), core::Limits::kLogMaxHairpins);
    const uint32_t packets = cap(PRM(cmd_hca_cap, log_max_hairpin_num_packets));
    const uint32_t most = cap(PRM(cmd_hca_cap, log_max_hairpin_wq_data_sz));
    const uint32_t least = cap(PRM(cmd_hca_cap, log_min_hairpin_wq_data_sz));
    struct Case {
        uint32_t log_packets, log_bytes;
        FwStatus expected;
    };
    for (const auto& [log_packets, log_bytes, expected] :
         {Case{packets, most, FwStatus::ok}, Case{0, least, FwStatus::ok},
          Case{packets + 1, most, FwStatus::bad_parameter},
          Case{packets, most + 1, FwStatus::bad_parameter},
          Case{0, least - 1, FwStatus::bad_parameter}}) {
        EXPECT_EQ(status(sq_request(log_packets, log_bytes)), expected) << log_packets;
        EXPECT_EQ(status(rq_request(log_packets, log_bytes)), expected) << log_packets;
    }
    EXPECT_NE(vhca, 0u) << "others are told from this port by it";
}

TEST_P(HairpinTest, ArePairedAndParted) {
    const Number sqn = made(sq_request()), rqn = made(rq_request());
    EXPECT_EQ(query_sq(sqn), (Said{kReset, 0, 0}));
    pair_up(sqn, rqn);
    EXPECT_EQ(query_sq(sqn), (Said{kReady, rqn, vhca}));
    EXPECT_EQ(query_rq(rqn), (Said{kReady, sqn, vhca}));
    nlohmann::json shown;
    for (const nlohmann::json stats = transport->device().stats(); const auto& row : stats["rqs"])
        if (row["number"] == rqn) shown = row;
    EXPECT_EQ(shown["hairpin_peer"], sqn);
    ASSERT_EQ(status(modify_rq(rqn, kReady, kReset)), FwStatus::ok);
    ASSERT_EQ(status(modify_sq(sqn, kReady, kReset)), FwStatus::ok);
    EXPECT_EQ(query_sq(sqn), (Said{kReset, 0, 0}));
    EXPECT_EQ(query_rq(rqn), (Said{kReset, 0, 0}));
    pair_up(sqn, rqn);
    ASSERT_EQ(status(modify_sq(sqn, kReady, kError)), FwStatus::ok);
    EXPECT_EQ(query_sq(sqn), (Said{kError, rqn, vhca}));
    EXPECT_EQ(status(modify_sq(sqn, kError, kReady, rqn)), FwStatus::bad_resource_state);
    EXPECT_EQ(status(modify_sq(sqn, kError, kReset)), FwStatus::ok);
}

TEST_P(HairpinTest, AnRqMayHoldTheWireWhenItIsFull) {
    for (const bool delay_drop : {false, true}) {
        const Number rqn =
            made(rq_request().set(inside(kRqContext, PRM(rqc, delay_drop_en)), delay_drop));
        nlohmann::json shown;
        for (const nlohmann::json dump = transport->device().dump(); const auto& row : dump["rqs"])
            if (row["number"] == rqn) shown = row;
        EXPECT_EQ(shown["delay_drop"], delay_drop);
    }
}

TEST_P(HairpinTest, EitherMayGoFirst) {
    const Number sqn = made(sq_request()), rqn = made(rq_request());
    pair_up(sqn, rqn);
    EXPECT_EQ(destroy_sq(sqn), FwStatus::ok) << "as net_mlx5 stops: the SQ goes while all is ready";
    EXPECT_EQ(status(modify_rq(rqn, kReady, kReset)), FwStatus::ok);
    EXPECT_EQ(destroy_rq(rqn), FwStatus::ok);
    const Number sq_again = made(sq_request()), rq_again = made(rq_request());
    pair_up(sq_again, rq_again);
    EXPECT_EQ(destroy_rq(rq_again), FwStatus::ok);
    EXPECT_EQ(status(modify_sq(sq_again, kReady, kReset)), FwStatus::ok);
    EXPECT_EQ(destroy_sq(sq_again), FwStatus::ok);
}

TEST_P(HairpinTest, WrongPeersAreRefused) {
    const Number sqn = made(sq_request()), rqn = made(rq_request());
    EXPECT_EQ(status(modify_sq(sqn, kReset, kReady)), FwStatus::bad_resource);
    EXPECT_EQ(status(modify_sq(sqn, kReset, kReady, sqn)), FwStatus::bad_resource);
    EXPECT_EQ(status(modify_rq(rqn, kReset, kReady, rqn)), FwStatus::bad_resource);
    const Number cq = made(by(mine, cq_request(umem)));
    const Number plain_rq = made(by(mine, UsersTest::rq_request(cq)));
    const Number plain_sq = made(by(mine, UsersTest::sq_request(cq)));
    EXPECT_EQ(status(modify_sq(sqn, kReset, kReady, plain_rq)), FwStatus::bad_parameter);
    EXPECT_EQ(status(modify_rq(rqn, kReset, kReady, plain_sq)), FwStatus::bad_parameter);
    vhca++; // there is no such function
    EXPECT_EQ(status(modify_sq(sqn, kReset, kReady, rqn)), FwStatus::bad_parameter);
    EXPECT_EQ(status(modify_rq(rqn, kReset, kReady, sqn)), FwStatus::bad_parameter);
    vhca--;
    EXPECT_EQ(query_sq(sqn), (Said{kReset, 0, 0}));
    pair_up(sqn, rqn);
    EXPECT_EQ(status(modify_sq(made(sq_request()), kReset, kReady, rqn)), FwStatus::resource_busy);
    EXPECT_EQ(status(modify_rq(made(rq_request()), kReset, kReady, sqn)), FwStatus::resource_busy);
    EXPECT_EQ(status(modify_sq(plain_sq, kReset, kReady, rqn)), FwStatus::ok)
        << "other queues have no peers";
}

TEST_P(HairpinTest, PeersAreOnesOwn) {
    const uint16_t somebody = new_user(kRawTransmit);
    const Number sqn = made(sq_request());
    const Number theirs = made(by(somebody, rq_request()));
    EXPECT_EQ(status(modify_sq(sqn, kReset, kReady, theirs)), FwStatus::bad_resource);
}

TEST_P(HairpinTest, WrongContextsAreRefused) {
    EXPECT_EQ(status(sq_request().set(inside(kSqContext, kBufferType), 1)), FwStatus::bad_parameter)
        << "WQEs in the host's memory";
    EXPECT_EQ(status(rq_request().set(inside(kRqContext, kBufferType), 1)), FwStatus::bad_parameter)
        << "locked memory";
    EXPECT_EQ(status(rq_request().set(inside(kRqContext, PRM(rqc, scatter_fcs)), 1)),
              FwStatus::bad_parameter);
    EXPECT_EQ(status(rq_request().set(inside(kRqContext, PRM(rqc, mem_rq_type)), 1)),
              FwStatus::bad_parameter);
    EXPECT_EQ(status(rq_request().set(inside(kRqContext, PRM(rqc, counter_set_id)), 99)),
              FwStatus::bad_resource);
    EXPECT_EQ(status(rq_request().set(inside(kRqWq, PRM(wq, cd_slave)), 1)),
              FwStatus::bad_parameter);
    EXPECT_EQ(status(sq_request().set(inside(kSqWq, PRM(wq, cd_slave)), 1)),
              FwStatus::bad_parameter);
    EXPECT_EQ(status(sq_request().set(inside(kSqContext, PRM(sqc, tis_num_0)), 0xfff)),
              FwStatus::bad_resource);
    EXPECT_EQ(status(by(other, sq_request())), FwStatus::bad_parameter)
        << "may not send raw packets";
    EXPECT_EQ(
        status(sq_request().set(inside(kSqContext, PRM(sqc, packet_pacing_rate_limit_index)), 5)),
        FwStatus::bad_resource)
        << "a rate of nobody";
}

TEST_P(HairpinTest, AnSqUsesItsTis) {
    const Number sqn = made(sq_request());
    const Request destroy = by(mine, REQUEST(DESTROY_TIS, destroy_tis).number(tis));
    EXPECT_EQ(status(destroy), FwStatus::resource_busy);
    EXPECT_EQ(destroy_sq(sqn), FwStatus::ok);
    EXPECT_EQ(status(destroy), FwStatus::ok);
}

TEST_P(HairpinTest, TwoFunctionsPairUp) {
    class Second : public HairpinTest {
      public:
        using HairpinTest::made, HairpinTest::modify_sq, HairpinTest::query_sq,
            HairpinTest::sq_request, HairpinTest::status, HairpinTest::vhca;

      private:
        void TestBody() override {}
    } second;
    ASSERT_NE(second.vhca, vhca) << "of the same MAC";
    std::swap(second.vhca, vhca); // each names the other
    const Number rqn = made(rq_request()), sqn = second.made(second.sq_request());
    EXPECT_EQ(second.status(second.modify_sq(sqn, kReset, kReady, 0xffff)), FwStatus::bad_resource);
    EXPECT_EQ(second.status(second.modify_sq(sqn, kReset, kReady, rqn)), FwStatus::ok);
    EXPECT_EQ(status(modify_rq(rqn, kReset, kReady, sqn)), FwStatus::ok);
    EXPECT_EQ(second.query_sq(sqn), (Said{kReady, rqn, second.vhca}));
    EXPECT_EQ(query_rq(rqn), (Said{kReady, sqn, vhca}));
    EXPECT_EQ(status(modify_rq(made(rq_request()), kReset, kReady, sqn)), FwStatus::resource_busy);
}

TEST_P(HairpinTest, ANumberOfAFunctionIsFreeWhenThatHasGone) {
    const auto next = [&] { return Vhca(transport->device()).id(); };
    const uint16_t id = next();
    EXPECT_EQ(next(), id);
    EXPECT_EQ(find_vhca(id).device, nullptr);
}

/// Linux shifts it into the upper half of a devlink port's number, which the devlink tool reads as
/// a signed one.
TEST(VhcaTest, ItHasFifteenBits) {
    const auto device = [](uint8_t third, uint8_t last) {
        return std::make_unique<core::Device>(
            core::DeviceConfig{.mac = {2, 0, third, 0xff, 0, last}},
            std::make_unique<testbed::FakeWire>(), nullptr);
    };
    const auto high = device(0x80, 0xfe), all = device(0xff, 0), same = device(0xff, 0);
    const Vhca one(*high), last(*all), next(*same);
    EXPECT_EQ(one.id(), 1);
    EXPECT_EQ(last.id(), 0x7fff);
    EXPECT_EQ(next.id(), 2) << "0 is none, and 1 is taken";
}

TEST_P(HairpinTest, ThereIsNoPlaceForAnFcs) {
    const Number rq = made(rq_request());
    EXPECT_EQ(status(modify_rq(rq, kReset, kReset)
                         .set(PRM(modify_rq_in, modify_bitmask),
                              MLX5_MODIFY_RQ_IN_MODIFY_BITMASK_SCATTER_FCS)),
              FwStatus::bad_parameter);
}

INSTANTIATE_TEST_SUITE_P(Transports, HairpinTest, transports(), name_of);

} // namespace
} // namespace prm_test
