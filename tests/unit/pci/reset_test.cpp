// SPDX-License-Identifier: BSD-3-Clause
// What a reset takes back of a driver's settings, and how long delay drop holds the wire.
#include "tests/unit/pci/guest.hpp"
#include "tests/unit/prm/header_requests.hpp"

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace pci_test {
namespace {

using frames::Mac;
using testbed::Wqe;

constexpr Mac kOwn{2, 0, 0, 0, 0, 1}, kOther{2, 9, 9, 9, 9, 9};
constexpr Field kVport = PRM(modify_nic_vport_context_in, nic_vport_context);
constexpr Field kSelect = PRM(modify_nic_vport_context_in, field_select);

class ResetTest : public Guest {
  protected:
    ResetTest() { start_driver(); }
    void restart() {
        function->reset();
        load_driver();
    }
    /// Whether a frame to this address leaves on the wire, rather than being looped back.
    bool leaves(const Mac& to) {
        const size_t before = wire->sent.size();
        sender.post(Wqe(mlx5::WqeOpcode::send).eth().inline_data(frames::build({.dst = to})));
        sender.ring_doorbell();
        poll();
        const mlx5::Cqe* const cqe = sender_cq.poll();
        EXPECT_TRUE(cqe && testbed::TestCq::opcode(*cqe) == mlx5::CqeOpcode::req);
        sender_cq.release();
        return wire->sent.size() != before;
    }
    /// Another unicast address of the port, besides its MAC.
    Request address_request(uint64_t address) {
        return REQUEST(MODIFY_NIC_VPORT_CONTEXT, modify_nic_vport_context)
            .set(inside(kSelect, PRM(modify_nic_vport_field_select, addresses_list)), 1)
            .set(inside(kVport, PRM(nic_vport_context, allowed_list_size)), 1)
            .page(address);
    }
    /// All packets go to an RQ with delay drop, which has no WQEs.
    void hold() {
        const Number cq = made(cq_request(6, alloc(kPage)));
        const Number rq =
            made(rq_request(cq).set(inside(PRM(create_rq_in, ctx), PRM(rqc, delay_drop_en)), 1));
        ASSERT_EQ(status_of(modify_rq(rq, 0, 1)), FwStatus::ok);
        const Number table = made(table_request());
        ASSERT_EQ(status_of(root_request(table)), FwStatus::ok);
        const Number group = made(group_request(table, 0, 0));
        ASSERT_EQ(status_of(entry_request(table, group, 0, made(tir_request(rq)))), FwStatus::ok);
    }
    void set_delay_drop(uint64_t units) {
        ASSERT_EQ(status_of(REQUEST(SET_DELAY_DROP_PARAMS, set_delay_drop_params)
                                .set(PRM(set_delay_drop_params_in, delay_drop_timeout), units)),
                  FwStatus::ok);
    }
    /// How many there are of each kind that `softhca dump` shows.
    [[nodiscard]] std::map<std::string, size_t> objects() const {
        std::map<std::string, size_t> counts;
        const nlohmann::json dump = device->dump();
        for (const auto& [kind, rows] : dump.items())
            if (rows.is_array()) counts[kind] = rows.size();
        return counts;
    }
    [[nodiscard]] uint64_t drops() const { return device->counters().drop_out_of_buffer; }

    testbed::TestCq sender_cq{*device, 6};
    testbed::TestSq sender{*device, *device->alloc_pd(), sender_cq.number, 5, nullptr, false, 5};
};

TEST_F(ResetTest, ForgetsRates) {
    constexpr Field kRate =
        inside(PRM(set_pp_rate_limit_in, ctx), PRM(set_pp_rate_limit_context, rate_limit));
    const auto row = [](Request request) {
        return request.set(PRM(set_pp_rate_limit_in, rate_limit_index), 1);
    };
    const auto rate = [&] {
        return execute(row(REQUEST(QUERY_RATE_LIMIT, set_pp_rate_limit))).get(kRate);
    };
    ASSERT_EQ(status_of(row(REQUEST(SET_PP_RATE_LIMIT, set_pp_rate_limit)).set(kRate, 5000)),
              FwStatus::ok);
    EXPECT_EQ(rate(), 5000u);
    restart();
    EXPECT_EQ(rate(), 0u);
}

TEST_F(ResetTest, ForgetsListsOfAddresses) {
    const auto listed = [&] {
        return execute(REQUEST(QUERY_NIC_VPORT_CONTEXT, query_nic_vport_context))
            .get(inside(PRM(query_nic_vport_context_out, nic_vport_context),
                        PRM(nic_vport_context, allowed_list_size)));
    };
    ASSERT_EQ(status_of(address_request(0x020909090909)), FwStatus::ok);
    EXPECT_EQ(listed(), 1u);
    restart();
    EXPECT_EQ(listed(), 0u);
}

TEST_F(ResetTest, FramesToFormerAddressesLeave) {
    EXPECT_TRUE(leaves(kOther));
    ASSERT_EQ(status_of(address_request(0x020909090909)), FwStatus::ok);
    EXPECT_FALSE(leaves(kOther));
    restart();
    EXPECT_TRUE(leaves(kOther));
}

TEST_F(ResetTest, SwitchesLoopbackOn) {
    EXPECT_FALSE(leaves(kOwn));
    ASSERT_EQ(
        status_of(
            REQUEST(MODIFY_NIC_VPORT_CONTEXT, modify_nic_vport_context)
                .set(inside(kSelect, PRM(modify_nic_vport_field_select, disable_uc_local_lb)), 1)
                .set(inside(kVport, PRM(nic_vport_context, disable_uc_local_lb)), 1)),
        FwStatus::ok);
    EXPECT_TRUE(leaves(kOwn));
    restart();
    EXPECT_FALSE(leaves(kOwn));
}

TEST_F(ResetTest, SwitchesDelayDropOff) {
    constexpr uint64_t kLong = 0xffff; // some seconds
    hold();
    set_delay_drop(kLong);
    wire->incoming.push_back(frames::build({}));
    poll();
    EXPECT_EQ(drops(), 0u);
    restart();
    hold();
    poll();
    EXPECT_EQ(drops(), 1u);
    EXPECT_TRUE(wire->incoming.empty());
}

TEST_F(ResetTest, DestroysWhatTheDriverHasCreated) {
    const auto before = objects();
    hold();
    Request reformat = reformat_request();
    reformat.in.resize(reformat.in.size() + 48);
    for (const Request& request : {edits_request().page(set_ttl(9)), reformat,
                                   REQUEST(ALLOC_FLOW_COUNTER, alloc_flow_counter)})
        ASSERT_EQ(status_of(request), FwStatus::ok);
    const auto now = objects();
    for (const char* kind : {"cqs", "rqs", "tirs", "flow_tables", "flow_groups", "flow_entries",
                             "flow_counters", "header_edits", "reformats"})
        EXPECT_GT(now.at(kind), before.at(kind)) << kind;
    restart();
    EXPECT_EQ(objects(), before);
}

TEST_F(ResetTest, DestroysCountersOfVirtqs) {
    constexpr uint16_t kCountersType = 0x1c;
    const Number counters = made(Request(MLX5_CMD_OP_CREATE_GENERAL_OBJECT,
                                         PRM_BYTES(general_obj_in_cmd_hdr), kCountersType));
    ASSERT_TRUE(device->query_virtq_counters(counters));
    restart();
    EXPECT_FALSE(device->query_virtq_counters(counters));
}

/// On a busy machine an attempt may take any time; one of ten times the unit would never be short.
TEST_F(ResetTest, DelayDropCountsInUnitsOf100Microseconds) {
    using Clock = std::chrono::steady_clock;
    constexpr uint64_t kUnits = 20;
    constexpr auto kTimeout = kUnits * std::chrono::microseconds(100);
    constexpr int kAttempts = 100;
    hold();
    Clock::duration shortest = Clock::duration::max();
    for (int i = 0; i < kAttempts && shortest > 5 * kTimeout; i++) {
        set_delay_drop(kUnits);
        const uint64_t before = drops();
        const auto start = Clock::now();
        wire->incoming.push_back(frames::build({}));
        while (drops() == before)
            device->poll();
        shortest = std::min(shortest, Clock::now() - start);
    }
    EXPECT_GE(shortest, kTimeout);
    EXPECT_LE(shortest, 5 * kTimeout);
}

} // namespace
} // namespace pci_test
