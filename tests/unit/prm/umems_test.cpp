// SPDX-License-Identifier: BSD-3-Clause
// Rings and doorbell records in users' memory: wherever a command places them, and whatever is
// there. With fixed seeds.
#include "tests/unit/prm/users.hpp"

#include <algorithm>
#include <random>

namespace prm_test {
namespace {

class UmemsTest : public UsersTest {
  protected:
    [[nodiscard]] uint64_t below(uint64_t end) { return random() % end; }
    /// Mostly a multiple of an alignment that something requires.
    [[nodiscard]] uint64_t offset_below(uint64_t end) {
        constexpr std::array kAlignments{1, 4, 8, 16, 64, 64, 64};
        const auto alignment = static_cast<uint64_t>(kAlignments[below(kAlignments.size())]);
        return below(end) / alignment * alignment;
    }
    void write_garbage() {
        std::generate_n(transport->pages(), kPages * kPage,
                        [this] { return static_cast<std::byte>(random()); });
    }

    /// Where the parts of a queue are, in bytes from the start of its umem.
    struct Place {
        uint64_t ring, record;
    };
    static Request moved(Request request, Field wq, const Place& place) {
        return request.set(inside(wq, Field{0x180, 64}), place.ring)
            .set(inside(wq, PRM(wq, dbr_addr)), place.record);
    }
    Request sq_at(Number cqn, const Place& place) {
        return by(mine,
                  moved(sq_request(cqn), inside(PRM(create_sq_in, ctx), PRM(sqc, wq)), place));
    }
    Request rq_at(Number cqn, const Place& place) {
        return by(mine,
                  moved(rq_request(cqn), inside(PRM(create_rq_in, ctx), PRM(rqc, wq)), place));
    }
    Request cq_at(const Place& place) {
        constexpr Field kContext = PRM(create_cq_in, cq_context);
        return by(
            mine,
            cq_request(umem, place.ring).set(inside(kContext, PRM(cqc, dbr_addr)), place.record));
    }
    FwStatus destroy(const Request& request) { return status(by(mine, request)); }

    std::mt19937_64 random{7};
};

TEST_P(UmemsTest, ThereAreAsManyAsTheCapabilitiesSay) {
    constexpr uint64_t kLogMost = 16;
    const Answer caps = run(by(mine, REQUEST(QUERY_HCA_CAP, query_hca_cap)));
    EXPECT_EQ(caps.get(inside(PRM(query_hca_cap_out, capability), PRM(cmd_hca_cap, log_max_umem))),
              kLogMost);
    const Request one_page = by(mine, umem_request(true, 0, 1));
    for (uint32_t left = (1u << kLogMost) - 1; left != 0; left--) // the fixture has one
        ASSERT_EQ(status(one_page), FwStatus::ok);
    EXPECT_EQ(status(one_page), FwStatus::exceeded_limit);
    EXPECT_EQ(destroy(REQUEST(DESTROY_UMEM, destroy_umem).number(umem)), FwStatus::ok);
    EXPECT_EQ(status(one_page), FwStatus::ok) << "one that went makes room";
}

TEST_P(UmemsTest, RingsAndRecordsAreInsideAndAligned) {
    constexpr uint64_t kCqBytes = 64 * 64, kSqBytes = 16 * 64, kRqBytes = 16 * 16;
    size_t made_ones = 0, refused = 0;
    const Number whole = umem, cq = made(by(mine, cq_request(whole)));
    for (int round = 0; round < 1500; round++) {
        const uint64_t pages = 1 + below(3), page_offset = below(3) ? 0 : offset_below(kPage);
        const uint64_t length = pages * kPage - page_offset;
        umem = made(by(mine, umem_request(true, page_offset, pages)));
        const Place place{offset_below(length + 256), offset_below(length + 16)};
        const auto fits = [&](uint64_t offset, uint64_t bytes, uint64_t alignment) {
            return offset <= length && bytes <= length - offset &&
                   (page_offset + offset) % alignment == 0;
        };
        const bool record = place.record % 8 == 0 && fits(place.record, 8, 8);
        const auto expect = [&](const Request& request, uint64_t bytes, uint64_t alignment,
                                Request destroy_it) {
            const bool good = record && fits(place.ring, bytes, alignment);
            const Answer answer = run(request);
            ASSERT_EQ(answer.status(), good ? FwStatus::ok : FwStatus::bad_parameter)
                << pages << " pages from " << page_offset << ", ring at " << place.ring
                << ", record at " << place.record;
            (good ? made_ones : refused)++;
            if (!good) return;
            EXPECT_EQ(destroy(destroy_it.number(answer.number())), FwStatus::ok);
        };
        expect(cq_at(place), kCqBytes, 64, REQUEST(DESTROY_CQ, destroy_cq));
        expect(sq_at(cq, place), kSqBytes, 64, REQUEST(DESTROY_SQ, destroy_sq));
        expect(rq_at(cq, place), kRqBytes, 16, REQUEST(DESTROY_RQ, destroy_rq));
        ASSERT_EQ(destroy(REQUEST(DESTROY_UMEM, destroy_umem).number(umem)), FwStatus::ok);
        if (HasFailure()) return;
    }
    EXPECT_GT(made_ones, 500u);
    EXPECT_GT(refused, 500u);
}

TEST_P(UmemsTest, WhatLiesOverEachOtherHarmsNobodyElse) {
    core::Device& device = transport->device();
    constexpr uint64_t kEnd = 2 * kPage; // CQs overwrite rings and records, even their own
    const auto place = [&] {
        return Place{below((kEnd - 64 * 64) / 64) * 64, below(kEnd / 8) * 8};
    };
    for (int round = 0; round < 150; round++) {
        const Number cq = made(cq_at(place()));
        const Number sq = made(sq_at(cq, place())), rq = made(rq_at(cq, place()));
        ASSERT_TRUE(device.modify_sq(sq, core::QueueState::ready));
        ASSERT_TRUE(device.modify_rq(rq, core::QueueState::ready));
        for (int turn = 0; turn < 4; turn++) {
            write_garbage();
            // A few plausible WQEs, and a plausible doorbell.
            for (uint64_t at = 0; at < kEnd; at += 64) {
                if (below(2)) continue;
                const auto index = static_cast<uint32_t>(below(16));
                net::store_be(transport->pages() + at, index << 8 | 0x0au);
                net::store_be(transport->pages() + at + 4,
                              sq << 8 | static_cast<uint32_t>(below(5)));
                net::store_be(transport->pages() + below(kEnd / 4) * 4, index);
            }
            for (int poll = 0; poll < 20; poll++)
                device.poll();
        }
        EXPECT_EQ(destroy(REQUEST(DESTROY_UMEM, destroy_umem).number(umem)),
                  FwStatus::resource_busy);
        EXPECT_EQ(destroy(REQUEST(DESTROY_SQ, destroy_sq).number(sq)), FwStatus::ok);
        EXPECT_EQ(destroy(REQUEST(DESTROY_RQ, destroy_rq).number(rq)), FwStatus::ok);
        EXPECT_EQ(destroy(REQUEST(DESTROY_CQ, destroy_cq).number(cq)), FwStatus::ok);
        if (HasFailure()) return;
    }
    EXPECT_GT(device.counters().tx_error_wqes, 20u) << "the test should reach the device";
    EXPECT_EQ(destroy(REQUEST(DESTROY_UMEM, destroy_umem).number(umem)), FwStatus::ok);
}

INSTANTIATE_TEST_SUITE_P(Transports, UmemsTest, transports(), name_of);

} // namespace
} // namespace prm_test
