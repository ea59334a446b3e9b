// SPDX-License-Identifier: BSD-3-Clause
// Users of the firmware and their memory.
#include "tests/unit/prm/users.hpp"

namespace prm_test {
namespace {

TEST_P(UsersTest, OnlyTheDriverMakesUsers) {
    EXPECT_EQ(status(by(mine, REQUEST(CREATE_UCTX, create_uctx))), FwStatus::bad_operation);
    EXPECT_EQ(status(by(0x7777, REQUEST(ALLOC_PD, alloc_pd))), FwStatus::bad_resource) << "nobody";
    const auto destroy = REQUEST(DESTROY_UCTX, destroy_uctx).set(PRM(destroy_uctx_in, uid), mine);
    EXPECT_EQ(status(destroy), FwStatus::resource_busy) << "has objects";
    EXPECT_EQ(status(by(mine, REQUEST(DEALLOC_PD, dealloc_pd).number(pd))), FwStatus::ok);
    EXPECT_EQ(status(by(mine, REQUEST(DESTROY_UMEM, destroy_umem).number(umem))), FwStatus::ok);
    EXPECT_EQ(status(destroy), FwStatus::ok);
    EXPECT_EQ(status(destroy), FwStatus::bad_resource);
}

TEST_P(UsersTest, UsersDoNotSeeEachOther) {
    EXPECT_EQ(status(by(other, cq_request(umem))), FwStatus::bad_resource) << "umem";
    const Number cq = made(by(mine, cq_request(umem)));
    EXPECT_EQ(status(by(other, rq_request(cq))), FwStatus::bad_resource);
    EXPECT_EQ(status(by(other, REQUEST(DESTROY_CQ, destroy_cq).number(cq))),
              FwStatus::bad_resource);
    EXPECT_EQ(status(by(other, REQUEST(QUERY_CQ, query_cq).number(cq))), FwStatus::bad_resource);
    EXPECT_EQ(status(by(0, REQUEST(QUERY_CQ, query_cq).number(cq))), FwStatus::ok) << "the driver";
    EXPECT_EQ(status(by(mine, REQUEST(QUERY_CQ, query_cq).number(cq))), FwStatus::ok);
}

TEST_P(UsersTest, RingsLieInsideUmems) {
    EXPECT_EQ(status(by(mine, cq_request(umem, kPages * kPage))), FwStatus::bad_parameter);
    EXPECT_EQ(status(by(mine, cq_request(umem, ~uint64_t{0}))), FwStatus::bad_parameter);
    EXPECT_EQ(status(by(mine, cq_request(umem, 8))), FwStatus::bad_parameter) << "alignment";
    EXPECT_EQ(status(by(mine, cq_request(0xabcde))), FwStatus::bad_resource);
    const Number to_read = made(by(mine, umem_request(false)));
    EXPECT_EQ(status(by(mine, cq_request(to_read))), FwStatus::bad_parameter) << "CQEs are written";
    EXPECT_EQ(status(by(mine, cq_request(umem, kPage))), FwStatus::ok);
}

TEST_P(UsersTest, TheKeysOfNothingAreNobodys) {
    const Answer told = run(REQUEST(QUERY_SPECIAL_CONTEXTS, query_special_contexts));
    const auto index = [&](Field key) { return told.get(key) >> 8; };
    for (int key = 0; key < 4; ++key) { // indices are consecutive
        const Number made_index = made(by(mine, mkey_request(MLX5_MKC_ACCESS_MODE_MTT)));
        EXPECT_NE(made_index, index(PRM(query_special_contexts_out, null_mkey)));
        EXPECT_NE(made_index, index(PRM(query_special_contexts_out, dump_fill_mkey)));
    }
}

TEST_P(UsersTest, WhatIsUsedStays) {
    const Number cq = made(by(mine, cq_request(umem)));
    const Number rq = made(by(mine, rq_request(cq)));
    const Request destroy_umem = by(mine, REQUEST(DESTROY_UMEM, destroy_umem).number(umem));
    EXPECT_EQ(status(destroy_umem), FwStatus::resource_busy);
    EXPECT_EQ(status(by(mine, REQUEST(DESTROY_RQ, destroy_rq).number(rq))), FwStatus::ok);
    EXPECT_EQ(status(destroy_umem), FwStatus::resource_busy);
    EXPECT_EQ(status(by(mine, REQUEST(DESTROY_CQ, destroy_cq).number(cq))), FwStatus::ok);
    EXPECT_EQ(status(destroy_umem), FwStatus::ok);
    EXPECT_EQ(status(destroy_umem), FwStatus::bad_resource);
}

TEST_P(UsersTest, WhatIsSharedStays) {
    const Request free = REQUEST(DEALLOC_UAR, dealloc_uar).number(transport->uar);
    const FwStatus said = status(by(mine, free)); // a process has no such command
    EXPECT_TRUE(said == FwStatus::bad_resource || said == FwStatus::bad_operation);
}

TEST_P(UsersTest, RawTransmissionIsARight) {
    const Number cq = made(by(mine, cq_request(umem)));
    EXPECT_EQ(status(by(mine, sq_request(cq))), FwStatus::ok);
    const uint16_t unprivileged = other;
    umem = made(by(unprivileged, umem_request(true)));
    pd = made(by(unprivileged, REQUEST(ALLOC_PD, alloc_pd)));
    const Number own_cq = made(by(unprivileged, cq_request(umem)));
    EXPECT_EQ(status(by(unprivileged, sq_request(own_cq))), FwStatus::bad_parameter);
    EXPECT_EQ(status(by(unprivileged, rq_request(own_cq))), FwStatus::ok);
}

/// Who signs WQEs relies on the device to check them.
TEST_P(UsersTest, ReceiveQueuesOfSignedWqesAreRefused) {
    constexpr Field kWq = inside(PRM(create_rq_in, ctx), PRM(rqc, wq));
    const Number cq = made(by(mine, cq_request(umem)));
    EXPECT_EQ(status(by(mine, rq_request(cq).set(inside(kWq, PRM(wq, wq_signature)), 1))),
              FwStatus::bad_parameter);
    EXPECT_EQ(status(by(mine, rq_request(cq))), FwStatus::ok);
}

TEST_P(UsersTest, KeysAreMadeOfUmems) {
    constexpr uint64_t kPhysical = 0, kPaged = 1;
    EXPECT_EQ(status(by(mine, mkey_request(kPaged))), FwStatus::ok);
    EXPECT_EQ(status(by(mine, mkey_request(kPhysical))), FwStatus::bad_parameter);
    EXPECT_EQ(status(by(mine, mkey_request(kPaged).set({0x320, 32}, 0xabcde))),
              FwStatus::bad_resource);
    const Field length = inside(PRM(create_mkey_in, memory_key_mkey_entry), PRM(mkc, len));
    EXPECT_EQ(status(by(mine, mkey_request(kPaged).set(length, (kPages + 1) * kPage))),
              FwStatus::bad_parameter);
}

TEST_P(UsersTest, PacingRowsAreTheirUsers) {
    const auto make_row = [&](uint16_t uid, uint64_t index) {
        return by(uid, REQUEST(SET_PP_RATE_LIMIT, set_pp_rate_limit)
                           .set(PRM(set_pp_rate_limit_in, rate_limit_index), index)
                           .set(inside(PRM(set_pp_rate_limit_in, ctx),
                                       PRM(set_pp_rate_limit_context, rate_limit)),
                                5000));
    };
    constexpr uint64_t kMine = 1, kForeign = 2, kShared = 3;
    EXPECT_EQ(status(make_row(mine, kMine)), FwStatus::ok);
    EXPECT_EQ(status(make_row(other, kForeign)), FwStatus::ok);
    EXPECT_EQ(status(make_row(kSharedUid, kShared)), FwStatus::ok);
    const Number cq = made(by(mine, cq_request(umem)));
    const auto paced = [&](uint64_t row) {
        return by(mine, sq_request(cq).set(inside(PRM(create_sq_in, ctx),
                                                  PRM(sqc, packet_pacing_rate_limit_index)),
                                           row));
    };
    EXPECT_EQ(status(paced(kMine)), FwStatus::ok);
    EXPECT_EQ(status(paced(kForeign)), FwStatus::bad_resource);
    EXPECT_EQ(status(paced(kShared)), FwStatus::ok);
    EXPECT_EQ(status(paced(kShared + 1)), FwStatus::bad_resource) << "nobody's";
}

/// A later user may get the number of one that is gone, but must not get its rates.
TEST_P(UsersTest, WhoHasAPacingRowStays) {
    const auto set_rate = [&](uint64_t rate) {
        return by(other, REQUEST(SET_PP_RATE_LIMIT, set_pp_rate_limit)
                             .set(PRM(set_pp_rate_limit_in, rate_limit_index), 1)
                             .set(inside(PRM(set_pp_rate_limit_in, ctx),
                                         PRM(set_pp_rate_limit_context, rate_limit)),
                                  rate));
    };
    const auto destroy = REQUEST(DESTROY_UCTX, destroy_uctx).set(PRM(destroy_uctx_in, uid), other);
    ASSERT_EQ(status(set_rate(5000)), FwStatus::ok);
    EXPECT_EQ(status(destroy), FwStatus::resource_busy);
    ASSERT_EQ(status(set_rate(0)), FwStatus::ok);
    EXPECT_EQ(status(destroy), FwStatus::ok);
}

TEST_P(UsersTest, KeysAreMadeOfKeys) {
    constexpr uint64_t kParts = 2, kFixed = 3;
    const Field length = inside(PRM(create_mkey_in, memory_key_mkey_entry), PRM(mkc, len));
    const auto indirect = [&](uint64_t mode, uint64_t parts) {
        Request request = mkey_request(mode)
                              .set(PRM(create_mkey_in, mkey_umem_valid), 0)
                              .set(PRM(create_mkey_in, translations_octword_actual_size), parts);
        for (uint64_t part = 0; part < parts; part++)
            request.page(uint64_t{kPage} << 32 | 0x500).page(0);
        return by(mine, request);
    };
    EXPECT_EQ(status(indirect(kParts, 2)), FwStatus::ok);
    EXPECT_EQ(status(indirect(kParts, 1)), FwStatus::bad_parameter) << "longer than its parts";
    EXPECT_EQ(status(indirect(kFixed, 2).set(
                  inside(PRM(create_mkey_in, memory_key_mkey_entry), PRM(mkc, log_page_size)), 12)),
              FwStatus::ok);
    EXPECT_EQ(status(indirect(kFixed, 2)), FwStatus::bad_parameter) << "parts of one byte";
    EXPECT_EQ(status(indirect(kFixed, 2).set(length, 2)), FwStatus::ok);
    EXPECT_EQ(status(indirect(kFixed + 1, 2)), FwStatus::bad_parameter) << "device memory";
}

TEST_P(UsersTest, OneSharedReceiveQueueOfEachKindInEitherOrder) {
    constexpr Field kSrq = PRM(create_xrc_srq_in, xrc_srq_context_entry);
    const Number xrcd = made(by(mine, REQUEST(ALLOC_XRCD, alloc_xrcd)));
    const Request create_rmp =
        by(mine, REQUEST(CREATE_RMP, create_rmp)
                     .set(inside(inside(PRM(create_rmp_in, ctx), PRM(rmpc, wq)), PRM(wq, pd)), pd));
    const Request create_srq = by(mine, REQUEST(CREATE_XRC_SRQ, create_xrc_srq)
                                            .set(inside(kSrq, PRM(xrc_srqc, pd)), pd)
                                            .set(inside(kSrq, PRM(xrc_srqc, xrcd)), xrcd));
    const Number rmp = made(create_rmp), srq = made(create_srq);
    EXPECT_NE(rmp, srq);
    EXPECT_EQ(status(create_rmp), FwStatus::exceeded_limit);
    EXPECT_EQ(status(create_srq), FwStatus::exceeded_limit);
    EXPECT_EQ(status(by(mine, REQUEST(DESTROY_XRC_SRQ, destroy_xrc_srq).number(srq))),
              FwStatus::ok);
    EXPECT_NE(made(create_srq), rmp);
}

TEST_P(UsersTest, ObjectsThatAreOnlyNumbersComeAndGo) {
    for (const auto& [create, destroy] :
         {std::pair{REQUEST(ALLOC_XRCD, alloc_xrcd), REQUEST(DEALLOC_XRCD, dealloc_xrcd)},
          std::pair{REQUEST(ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain),
                    REQUEST(DEALLOC_TRANSPORT_DOMAIN, dealloc_transport_domain)}}) {
        const Number number = made(by(mine, create));
        const Request gone = by(mine, Request(destroy).number(number));
        EXPECT_EQ(status(gone), FwStatus::ok);
        EXPECT_EQ(status(gone), FwStatus::bad_resource);
    }
}

TEST_P(UsersTest, UmemsHaveTheirPages) {
    const Field count = inside(PRM(create_umem_in, umem), PRM(umem, num_of_mtt));
    EXPECT_EQ(status(by(mine, umem_request(true).set(count, kPages + 1))),
              FwStatus::bad_input_length);
    EXPECT_EQ(status(by(mine, umem_request(true).set(count, 0))), FwStatus::bad_parameter);
    EXPECT_EQ(
        status(by(mine, umem_request(true).set(
                            inside(PRM(create_umem_in, umem), PRM(umem, page_offset)), kPage))),
        FwStatus::bad_parameter);
}

INSTANTIATE_TEST_SUITE_P(Transports, UsersTest, transports(), name_of);

} // namespace
} // namespace prm_test
