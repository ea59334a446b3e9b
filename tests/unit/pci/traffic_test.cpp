// SPDX-License-Identifier: BSD-3-Clause
// Packets through guest memory: completions, events, interrupts, counters.
#include "app/softhca/core/q_counters.hpp"
#include "tests/unit/pci/guest.hpp"

namespace pci_test {
namespace {

constexpr uint32_t kBuffer = 2048;

class TrafficTest : public Guest {
  protected:
    TrafficTest() {
        start_driver();
        enable_msix();
        cq_record = alloc(kPage);
        cq_create = cq_request(6, cq_record);
        cq = made(cq_create);
        cq_ring = net::load_be<uint64_t>(cq_create.in.data() + cq_create.in.size() - 8);
        Request request = rq_request(cq);
        request.set(inside(PRM(create_rq_in, ctx), PRM(rqc, counter_set_id)), counter());
        rq = made(request);
        rq_ring = net::load_be<uint64_t>(request.in.data() + request.in.size() - 8);
        rq_record = static_cast<uint64_t>(
            Fields(request.in.data(), request.in.size())
                .get(inside(inside(PRM(create_rq_in, ctx), PRM(rqc, wq)), PRM(wq, dbr_addr))));
        EXPECT_EQ(status_of(modify_rq(rq, 0, 1)), FwStatus::ok);
        tir = made(tir_request(rq));
        buffers = alloc(16 * kBuffer);
        lkey = made(mkey_request(buffers, 16 * kBuffer)) << 8;
    }
    Number counter() {
        const Answer answer = execute(REQUEST(ALLOC_Q_COUNTER, alloc_q_counter));
        set = answer.get(PRM(alloc_q_counter_out, counter_set_id));
        return set;
    }
    /// Sets a root table of this type whose only entry leads to the TIR.
    void steer(uint8_t type) {
        const Number table = made(table_request(0, type));
        ASSERT_EQ(status_of(root_request(table, type)), FwStatus::ok);
        const Number group = made(group_request(table, 0, 0));
        ASSERT_EQ(status_of(entry_request(table, group, 0, tir)), FwStatus::ok);
    }
    void post(uint32_t count) {
        for (uint32_t i = 0; i < count; i++, posted++) {
            std::byte* const wqe = at(rq_ring + (posted % 64) * 16);
            net::store_be(wqe, kBuffer);
            net::store_be(wqe + 4, lkey);
            net::store_be(wqe + 8, buffers + (posted % 16) * kBuffer);
        }
        net::store_be(at(rq_record), posted);
    }
    void receive(uint32_t frames) {
        for (uint32_t i = 0; i < frames; i++)
            wire->incoming.push_back(frames::build({}));
        poll();
    }
    void arm(uint32_t consumer) { net::store_be(at(cq_record) + 4, consumer); }
    [[nodiscard]] mlx5::CqeOpcode cqe(uint64_t ring, uint32_t index) {
        return static_cast<mlx5::CqeOpcode>(static_cast<uint8_t>(*at(ring + index * 64 + 63)) >> 4);
    }
    [[nodiscard]] uint32_t drops(Number counter_set, bool clear = false) {
        return execute(REQUEST(QUERY_Q_COUNTER, query_q_counter)
                           .set(PRM(query_q_counter_in, counter_set_id), counter_set)
                           .set(PRM(query_q_counter_in, clear), clear))
            .get(PRM(query_q_counter_out, out_of_buffer));
    }

    Request cq_create{0, 16};
    Number cq = 0, rq = 0, tir = 0, set = 0;
    uint64_t cq_record = 0, cq_ring = 0, rq_ring = 0, rq_record = 0, buffers = 0;
    uint32_t lkey = 0, posted = 0;
};

TEST_F(TrafficTest, APacketInterruptsWhoArmed) {
    steer(0);
    post(2);
    write_register(uar * 4096 + 0x40, eq << 24); // arm the EQ
    arm(0);
    poll();
    receive(1);
    EXPECT_EQ(cqe(cq_ring, 0), mlx5::CqeOpcode::resp_send);
    const auto frame = frames::build({});
    EXPECT_EQ(std::memcmp(at(buffers), frame.data(), frame.size()), 0);
    const std::byte* const eqe = at(eq_ring);
    EXPECT_EQ(eqe[1], std::byte{0}) << "completion event";
    EXPECT_EQ(net::load_be<uint32_t>(eqe + 32 + 24), cq);
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_EQ(messages[0].address, 0xfee00000u);
    EXPECT_EQ(messages[0].data, 0x43u);
    receive(1);
    EXPECT_EQ(messages.size(), 1u) << "nobody armed again";
}

TEST_F(TrafficTest, ACqThatIsOnlyPolledInterruptsNobody) {
    steer(0);
    post(1);
    write_register(uar * 4096 + 0x40, eq << 24);
    arm(2u << 28); // what Linux writes after CREATE_CQ (MLX5_CQ_INIT_CMD_SN)
    poll();
    receive(1);
    EXPECT_EQ(cqe(cq_ring, 0), mlx5::CqeOpcode::resp_send);
    EXPECT_TRUE(messages.empty());
}

TEST_F(TrafficTest, MaskedVectorsWaitForTheirMessage) {
    steer(0);
    post(1);
    function->bar_write(BarLayout::kMsixTable + 3 * 16 + 12, 1, 4);
    write_register(uar * 4096 + 0x40, eq << 24);
    arm(0);
    poll();
    receive(1);
    EXPECT_TRUE(messages.empty());
    EXPECT_EQ(function->bar_read(BarLayout::kMsixPending, 4), 1u << 3);
    function->bar_write(BarLayout::kMsixTable + 3 * 16 + 12, 0, 4);
    EXPECT_EQ(messages.size(), 1u);
    EXPECT_EQ(function->bar_read(BarLayout::kMsixPending, 4), 0u);

    constexpr uint32_t kEnable = 0x8000, kMaskAll = 0x4000;
    const uint32_t control = function->config_read(0x61, 1) + 2;
    function->config_write(control, kEnable | kMaskAll, 2);
    write_register(uar * 4096 + 0x40, eq << 24); // an event waits there
    EXPECT_EQ(messages.size(), 1u);
    function->config_write(control, kEnable, 2);
    EXPECT_EQ(messages.size(), 2u);
}

TEST_F(TrafficTest, AnEqArmedWhileEventsWaitInterruptsAtOnce) {
    const auto cable = [&](bool in) {
        function->with_firmware([&](Firmware& firmware) { firmware.set_cable(in); });
    };
    cable(false);
    cable(true);
    EXPECT_TRUE(messages.empty()) << "nobody armed";
    write_register(uar * 4096 + 0x48, eq << 24 | 1); // one was read: this update arms nothing
    EXPECT_TRUE(messages.empty());
    write_register(uar * 4096 + 0x40, eq << 24 | 1); // armed, but the other still waits
    EXPECT_EQ(messages.size(), 1u);
    cable(false);
    EXPECT_EQ(messages.size(), 1u) << "that was the interrupt it was armed for";
    write_register(uar * 4096 + 0x40, eq << 24 | 3); // all read
    EXPECT_EQ(messages.size(), 1u);
    cable(true);
    EXPECT_EQ(messages.size(), 2u);
}

/// A driver's write to ring an SQ arrives whole or in halves.
TEST_F(TrafficTest, SqsAreRungByTheirUar) {
    const auto registers = function->with_firmware(
        [&](const Firmware& firmware) { return firmware.registers_of(uar); });
    ASSERT_TRUE(registers);
    constexpr uint32_t kSqn = 0x123456, kWqe = 0x00000a29;
    for (uint32_t buffer = 0; buffer < 8; buffer++) {
        const uint64_t at = uar * 4096 + 0x800 + buffer * 0x100;
        function->bar_write(at, uint64_t{net::to_be(kSqn << 8 | 2)} << 32 | net::to_be(kWqe), 8);
        const uint64_t value = registers->take(buffer);
        EXPECT_EQ(registers->number_of(value), kSqn);
        EXPECT_EQ(static_cast<uint32_t>(value), net::to_be(kWqe));
        EXPECT_EQ(registers->take(buffer), 0u);
        write_register(at, kWqe);
        write_register(at + 4, kSqn << 8 | 2);
        EXPECT_EQ(registers->take(buffer), value);
        write_register(at + 8, ~0u); // the rest of a WQE that is written whole
        EXPECT_EQ(registers->take(buffer), 0u);
    }
    const Number other = made(REQUEST(ALLOC_UAR, alloc_uar));
    write_register(other * 4096 + 0x804, kSqn << 8);
    EXPECT_EQ(registers->take(0), 0u) << "each page has its own";
}

/// Programs in the guest have their own pages.
TEST_F(TrafficTest, AnEqHearsOfItsOwnDoorbellPageOnly) {
    const auto other = made(REQUEST(ALLOC_UAR, alloc_uar));
    const auto cable = [&](bool in) {
        function->with_firmware([&](Firmware& firmware) { firmware.set_cable(in); });
    };
    write_register(other * 4096 + 0x40, eq << 24);
    cable(false);
    EXPECT_TRUE(messages.empty()) << "armed by somebody else's page";
    write_register(uar * 4096 + 0x40, eq << 24 | 1);
    write_register(other * 4096 + 0x48, eq << 24 | 0x800000); // would make the EQ full
    cable(true);
    EXPECT_EQ(messages.size(), 1u);
}

TEST_F(TrafficTest, PagesOfVirtioDoorbellsRingNothingElse) {
    for (uint32_t at = BarLayout::kVars; at < BarLayout::kBytes; at += BarLayout::kPage)
        write_register(at + 0x40, eq << 24);
    function->with_firmware([](Firmware& firmware) { firmware.set_cable(false); });
    EXPECT_TRUE(messages.empty()) << "nobody armed";
    const Answer answer = execute(REQUEST(ALLOC_UAR, alloc_uar));
    const uint32_t uars = (BarLayout::kVars - BarLayout::kFirstUar * BarLayout::kPage) / 4096;
    ASSERT_EQ(answer.status(), FwStatus::ok);
    for (uint32_t left = uars - 2; left != 0; left--) { // the driver has one
        const Answer more = execute(REQUEST(ALLOC_UAR, alloc_uar));
        ASSERT_EQ(more.status(), FwStatus::ok);
        ASSERT_LT(more.number() * 4096, BarLayout::kVars);
    }
    EXPECT_EQ(execute(REQUEST(ALLOC_UAR, alloc_uar)).status(), FwStatus::exceeded_limit);
}

TEST(InterruptsTest, SeveralWaitUntilTheyAreEnabled) {
    constexpr uint32_t kMask = 12; // in an entry: the fourth word
    Interrupts interrupts;
    std::vector<uint32_t> delivered;
    interrupts.deliver_by([&](uint64_t, uint32_t data) { delivered.push_back(data); });
    interrupts.reset();
    for (const uint32_t vector : {4u, 31u, 7u}) {
        interrupts.write_table(vector * Interrupts::kEntryBytes + 8, 100 + vector, 4);
        if (vector != 7) interrupts.write_table(vector * Interrupts::kEntryBytes + kMask, 0, 4);
        interrupts.raise(vector);
    }
    EXPECT_EQ(interrupts.read_pending(0, 4), 1u << 4 | 1u << 7 | 1u << 31);
    interrupts.set_enabled(true);
    EXPECT_EQ(delivered, (std::vector<uint32_t>{104, 131})) << "the third one is masked";
    EXPECT_EQ(interrupts.read_pending(0, 4), 1u << 7);
}

TEST_F(TrafficTest, AResetForgetsEventsAndInterruptsThatAreDue) {
    function->bar_write(BarLayout::kMsixTable + 3 * 16 + 12, 1, 4); // masked
    write_register(uar * 4096 + 0x40, eq << 24);
    function->with_firmware([](Firmware& firmware) { firmware.set_cable(false); });
    ASSERT_EQ(function->bar_read(BarLayout::kMsixPending, 4), 1u << 3);
    const Number old_eq = eq;
    function->reset();
    EXPECT_EQ(function->bar_read(BarLayout::kMsixPending, 4), 0u);
    load_driver();
    enable_msix();
    EXPECT_TRUE(messages.empty());
    ASSERT_EQ(eq, old_eq) << "the number is given again";
    function->with_firmware([](Firmware& firmware) { firmware.set_cable(true); });
    EXPECT_EQ(at(eq_ring)[1], std::byte{9}) << "the first entry of the new ring";
    EXPECT_TRUE(messages.empty()) << "nobody armed the new one";
    write_register(uar * 4096 + 0x40, eq << 24);
    EXPECT_EQ(messages.size(), 1u);
}

TEST_F(TrafficTest, QCountersCountTheirQueuesOnly) {
    steer(0);
    receive(3); // no buffer
    const Number first = set, second = counter();
    EXPECT_EQ(drops(first), 3u);
    EXPECT_EQ(drops(second), 0u);
    Request move = modify_rq(rq, 1, 1);
    move.set(PRM(modify_rq_in, modify_bitmask), MLX5_MODIFY_RQ_IN_MODIFY_BITMASK_RQ_COUNTER_SET_ID);
    move.set(inside(PRM(modify_rq_in, ctx), PRM(rqc, counter_set_id)), second);
    ASSERT_EQ(status_of(move), FwStatus::ok);
    receive(2);
    EXPECT_EQ(drops(first, true), 3u);
    EXPECT_EQ(drops(first), 0u);
    EXPECT_EQ(drops(second), 2u);

    move.set(inside(PRM(modify_rq_in, ctx), PRM(rqc, counter_set_id)), second + 1);
    EXPECT_EQ(status_of(move), FwStatus::bad_resource) << "there is none";
    ASSERT_EQ(status_of(REQUEST(DEALLOC_Q_COUNTER, dealloc_q_counter)
                            .set(PRM(dealloc_q_counter_in, counter_set_id), second)),
              FwStatus::ok);
    ASSERT_EQ(counter(), second) << "the number is free again";
    receive(1);
    EXPECT_EQ(drops(second), 0u) << "the queue was bound to another one of this number";
}

TEST_F(TrafficTest, QCountersHaveNumbersOfEightBits) {
    // Besides the driver's; one number is the device's own.
    for (Number made = core::kOwnQCounter + 1; made < core::Limits::kMaxQCounters; made++)
        ASSERT_NE(counter(), 0u);
    EXPECT_EQ(status_of(REQUEST(ALLOC_Q_COUNTER, alloc_q_counter)), FwStatus::exceeded_limit);
    function->reset();
    load_driver();
    EXPECT_EQ(status_of(REQUEST(ALLOC_Q_COUNTER, alloc_q_counter)), FwStatus::ok);
}

TEST_F(TrafficTest, PortCountersTellUnicastMulticastAndBroadcastApart) {
    steer(0);
    frames::Spec spec;
    const auto receive_to = [&](frames::Mac to, uint32_t count) {
        spec.dst = to;
        while (count--)
            wire->incoming.push_back(frames::build(spec));
    };
    receive_to({0x33, 0x33, 0, 0, 0, 1}, 3);
    receive_to({0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 2);
    receive_to({0xff, 0xff, 0xff, 0xff, 0xff, 0xfe}, 1);
    receive_to({2, 0, 0, 0, 0, 1}, 5);
    const uint64_t bytes = frames::build(spec).size();
    poll();
    const Answer vport = execute(REQUEST(QUERY_VPORT_COUNTER, query_vport_counter));
    const auto expect = [&](Field at, uint32_t packets) {
        EXPECT_EQ(vport.get(inside(at, PRM(traffic_counter, packets))), packets);
        EXPECT_EQ(vport.get(inside(at, PRM(traffic_counter, octets))), packets * bytes);
    };
    expect(PRM(query_vport_counter_out, received_eth_unicast), 5);
    expect(PRM(query_vport_counter_out, received_eth_multicast), 4);
    expect(PRM(query_vport_counter_out, received_eth_broadcast), 2);
    expect(PRM(query_vport_counter_out, transmitted_eth_multicast), 0);

    constexpr uint16_t kPpcnt = 0x5008, kQuery = 1;
    constexpr Field kRegister{128, 0};
    const auto group = [&](uint32_t number, uint32_t priority = 0) {
        Request request(MLX5_CMD_OP_ACCESS_REG, 16 + PRM_BYTES(ppcnt_reg), kQuery);
        request.set(PRM(access_register_in, register_id), kPpcnt);
        request.set(inside(kRegister, PRM(ppcnt_reg, grp)), number);
        request.set(inside(kRegister, PRM(ppcnt_reg, prio_tc)), priority);
        const Answer answer = execute(request);
        return [answer, kRegister](Field low) {
            return answer.get(inside(inside(kRegister, PRM(ppcnt_reg, counter_set)), low));
        };
    };
    auto ieee = group(0x00);
    EXPECT_EQ(ieee(PRM(eth_802_3_cntrs_grp_data_layout, a_frames_received_ok_low)), 11u);
    EXPECT_EQ(ieee(PRM(eth_802_3_cntrs_grp_data_layout, a_multicast_frames_received_ok_low)), 4u);
    EXPECT_EQ(ieee(PRM(eth_802_3_cntrs_grp_data_layout, a_broadcast_frames_received_ok_low)), 2u);
    auto interface = group(0x01);
    EXPECT_EQ(interface(PRM(eth_2863_cntrs_grp_data_layout, if_in_ucast_pkts_low)), 5u);
    EXPECT_EQ(interface(PRM(eth_2863_cntrs_grp_data_layout, if_in_multicast_pkts_low)), 4u);
    EXPECT_EQ(interface(PRM(eth_2863_cntrs_grp_data_layout, if_in_broadcast_pkts_low)), 2u);
    EXPECT_EQ(interface(PRM(eth_2863_cntrs_grp_data_layout, if_in_octets_low)), 11 * bytes);
    EXPECT_EQ(interface(PRM(eth_2863_cntrs_grp_data_layout, if_out_ucast_pkts_low)), 0u);
    auto segment = group(0x02);
    EXPECT_EQ(segment(PRM(eth_2819_cntrs_grp_data_layout, ether_stats_pkts_low)), 11u);
    EXPECT_EQ(segment(PRM(eth_2819_cntrs_grp_data_layout, ether_stats_octets_low)), 11 * bytes);
    EXPECT_EQ(segment(PRM(eth_2819_cntrs_grp_data_layout, ether_stats_broadcast_pkts_low)), 2u);
    for (const uint32_t priority : {0u, 1u, 7u}) {
        auto of = group(0x10, priority);
        const uint32_t share = priority == 0 ? 11 : 0;
        EXPECT_EQ(of(PRM(eth_per_prio_grp_data_layout, rx_frames_low)), share);
        EXPECT_EQ(of(PRM(eth_per_prio_grp_data_layout, rx_octets_low)), share * bytes);
        EXPECT_EQ(of(PRM(eth_per_prio_grp_data_layout, tx_frames_low)), 0u);
    }
    auto pause = group(0x03);
    EXPECT_EQ(pause(PRM(eth_3635_cntrs_grp_data_layout, dot3stats_alignment_errors_low)), 0u);
}

TEST_F(TrafficTest, ACqIgnoresOverrunsOnceItsOwnerWants) {
    constexpr uint64_t kOverrun = 4;
    steer(0);
    ASSERT_EQ(
        status_of(REQUEST(MODIFY_CQ, modify_cq)
                      .number(cq)
                      .set(PRM(modify_cq_in, modify_field_select_resize_field_select), kOverrun)
                      .set(inside(PRM(modify_cq_in, cq_context), PRM(cqc, oi)), 1)),
        FwStatus::ok);
    for (int i = 0; i < 10; i++) { // more than its 64 entries
        post(10);
        receive(10);
    }
    EXPECT_EQ(device->counters().delivered, 100u);
}

TEST_F(TrafficTest, VportCountersBeginAnewOnceTheyAreCleared) {
    steer(0);
    const auto received = [&](bool clear) {
        const Answer answer = execute(REQUEST(QUERY_VPORT_COUNTER, query_vport_counter)
                                          .set(PRM(query_vport_counter_in, clear), clear));
        return answer.get(inside(PRM(query_vport_counter_out, received_eth_unicast),
                                 PRM(traffic_counter, packets)));
    };
    receive(3);
    EXPECT_EQ(received(true), 3u);
    EXPECT_EQ(received(false), 0u);
    receive(2);
    EXPECT_EQ(received(false), 2u);
    EXPECT_EQ(device->counters().wire_rx_packets, 5u) << "those of the port go on";
}

TEST_F(TrafficTest, AResizedCqGoesOnInItsNewRing) {
    steer(0);
    post(8);
    receive(2);
    const uint64_t ring = alloc(4 * kPage);
    std::memset(at(ring), 0xff, 4 * kPage);
    const auto resize = [&](uint8_t log_entries) {
        constexpr Field kContext = PRM(modify_cq_in, cq_context);
        Request request = REQUEST(MODIFY_CQ, modify_cq, 1).number(cq);
        request.set(inside(kContext, PRM(cqc, log_cq_size)), log_entries);
        for (uint64_t page = 0; page < 4; page++)
            request.page(ring + page * kPage);
        return status_of(request);
    };
    EXPECT_EQ(resize(1), FwStatus::bad_parameter) << "two completions wait";
    EXPECT_EQ(resize(23), FwStatus::exceeded_limit);
    EXPECT_EQ(resize(8), FwStatus::ok);
    EXPECT_EQ(cqe(cq_ring, 2), mlx5::CqeOpcode::resize);
    receive(1);
    EXPECT_EQ(cqe(ring, 3), mlx5::CqeOpcode::resp_send) << "behind the mark";
    EXPECT_EQ(static_cast<uint8_t>(*at(ring + 3 * 64 + 63)) & 1, 0);
    const Answer answer = execute(Request(MLX5_CMD_OP_QUERY_CQ, 64).number(cq));
    EXPECT_EQ(answer.get(inside(PRM(query_cq_out, cq_context), PRM(cqc, log_cq_size))), 8u);
}

TEST_F(TrafficTest, SniffersGetCopiesOfWhatArrives) {
    steer(0);
    steer(5);
    post(4);
    receive(1);
    EXPECT_EQ(cqe(cq_ring, 0), mlx5::CqeOpcode::resp_send);
    EXPECT_EQ(cqe(cq_ring, 1), mlx5::CqeOpcode::resp_send);
    EXPECT_EQ(cqe(cq_ring, 2), mlx5::CqeOpcode::invalid);
}

TEST_F(TrafficTest, LinkChangesAreEvents) {
    write_register(uar * 4096 + 0x40, eq << 24);
    function->with_firmware([](Firmware& firmware) { firmware.set_cable(false); });
    const std::byte* const eqe = at(eq_ring);
    EXPECT_EQ(eqe[1], std::byte{9}) << "port change";
    EXPECT_EQ(eqe[3], std::byte{1}) << "down";
    EXPECT_EQ(messages.size(), 1u);
    // The driver wants the port up: without a cable it stays down.
    function->with_firmware([](Firmware& firmware) { firmware.set_admin_up(true); });
    EXPECT_FALSE(device->link_up());
    function->with_firmware([](Firmware& firmware) { firmware.set_cable(true); });
    EXPECT_TRUE(device->link_up());
    EXPECT_EQ(eqe[64 + 3], std::byte{4}) << "active";
}

TEST_F(TrafficTest, AnEqThatIsNotReadLosesEventsAndNothingElse) {
    for (uint32_t i = 0; i < 200; i++)
        function->with_firmware([&](Firmware& firmware) { firmware.set_cable(i % 2 != 0); });
    EXPECT_EQ(function->events().lost(), 200u - 64u);
}

} // namespace
} // namespace pci_test
