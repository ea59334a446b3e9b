// SPDX-License-Identifier: BSD-3-Clause
// Virtio queues by command: what they use, what uses them, their states, and what is refused.
#include "app/softhca/prm/virtio.hpp"
#include "tests/unit/prm/object_requests.hpp"
#include "tests/unit/prm/users.hpp"

namespace prm_test {
namespace {

constexpr Field kCreate = PRM(create_virtio_net_q_in, obj_context);
constexpr Field kQueue = inside(kCreate, PRM(virtio_net_q_object, virtio_q_context));
constexpr Field kAnswer{8 * PRM_BYTES(general_obj_out_cmd_hdr), 0};
constexpr Field kQpContext = PRM(create_qp_in, qpc);

constexpr Field of_object(Field field) { return inside(kCreate, field); }
constexpr Field of_queue(Field field) { return inside(kQueue, field); }

class VirtqsTest : public UsersTest {
  protected:
    VirtqsTest()
        : cq(made(by(mine, cq_request(umem)))),
          domain(made(by(mine, REQUEST(ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain)))),
          tis(made(by(mine, REQUEST(CREATE_TIS, create_tis)
                                .set(inside(PRM(create_tis_in, ctx), PRM(tisc, transport_domain)),
                                     domain)))) {}

    /// Creates the queue with that index in the device: odd ones send.
    Request create(uint64_t index = 1) { return by(mine, virtq_request(umem, pd, tis, index)); }
    static Request about(uint16_t opcode, Number number, uint16_t type = kVirtqType) {
        return about_object(opcode, number, type);
    }
    static Request query(Number number) { return about(MLX5_CMD_OP_QUERY_GENERAL_OBJECT, number); }
    static Request destroy(Number number, uint16_t type = kVirtqType) {
        return about(MLX5_CMD_OP_DESTROY_GENERAL_OBJECT, number, type);
    }
    uint32_t seen(Number number, Field field) {
        return run(by(mine, query(number))).get(inside(kAnswer, field));
    }
    FwStatus step(Request request, Number number) {
        return status(by(mine, request.number(number)));
    }
    /// A pair of QPs: the device's side, then the program's.
    Number telling_qp() {
        return made(by(mine, REQUEST(CREATE_QP, create_qp)
                                 .set(inside(kQpContext, PRM(qpc, pd)), pd)
                                 .set(inside(kQpContext, PRM(qpc, no_sq)), 1)
                                 .set(inside(kQpContext, PRM(qpc, rq_type)), 3)));
    }
    Request hearing_qp() {
        return by(mine, REQUEST(CREATE_QP, create_qp)
                            .set(inside(kQpContext, PRM(qpc, pd)), pd)
                            .set(inside(kQpContext, PRM(qpc, no_sq)), 1)
                            .set(inside(kQpContext, PRM(qpc, uar_page)), transport->uar)
                            .set(inside(kQpContext, PRM(qpc, cqn_rcv)), cq)
                            .set(inside(kQpContext, PRM(qpc, log_rq_size)), 3)
                            .set(inside(kQpContext, PRM(qpc, dbr_umem_valid)), 1)
                            .set(inside(kQpContext, Field{0x720, 32}), umem)
                            .set(inside(kQpContext, PRM(qpc, dbr_addr)), kPage)
                            .set(PRM(create_qp_in, wq_umem_valid), 1)
                            .set({0x840, 32}, umem));
    }
    Request to_rtr(Number qpn, Number peer) { return by(mine, init2rtr_request(qpn, peer)); }
    void connect(Number qpn, Number peer) {
        ASSERT_EQ(step(REQUEST(RST2INIT_QP, rst2init_qp), qpn), FwStatus::ok);
        ASSERT_EQ(status(to_rtr(qpn, peer)), FwStatus::ok);
        ASSERT_EQ(step(REQUEST(RTR2RTS_QP, rtr2rts_qp), qpn), FwStatus::ok);
    }
    Request with_events(Number qpn) {
        return create()
            .set(of_queue(PRM(virtio_q, event_mode)), MLX5_VIRTIO_Q_EVENT_MODE_QP_MODE)
            .set(of_queue(PRM(virtio_q, event_qpn_or_msix)), qpn);
    }
    Request rqt(std::initializer_list<Number> queues, uint64_t type) {
        constexpr Field kContext = PRM(create_rqt_in, rqt_context);
        Request request = REQUEST(CREATE_RQT, create_rqt)
                              .set(inside(kContext, PRM(rqtc, list_q_type)), type)
                              .set(inside(kContext, PRM(rqtc, rqt_max_size)), queues.size())
                              .set(inside(kContext, PRM(rqtc, rqt_actual_size)), queues.size());
        for (const Number queue : queues) {
            request.in.resize(request.in.size() + 4);
            net::store_be<uint32_t>(request.in.data() + request.in.size() - 4, queue);
        }
        return by(mine, request);
    }

    Number cq, domain, tis;
};

constexpr uint32_t kInit = 0, kReady = 1, kSuspended = 2, kError = 3;

TEST_P(VirtqsTest, CapabilitiesSayWhatThereIs) {
    constexpr uint16_t kGeneral = 1, kVirtio = 0x13 << 1 | 1, kEvents = 0x14 << 1 | 1;
    const auto cap = [&](uint16_t page, Field field) {
        return run(REQUEST(QUERY_HCA_CAP, query_hca_cap, page))
            .get(inside(PRM(query_hca_cap_out, capability), field));
    };
    constexpr Field kVirtqTypes = PRM(cmd_hca_cap, general_obj_types);
    const auto types = cap(kGeneral, {kVirtqTypes.offset + 32, 32});
    EXPECT_TRUE(types >> kVirtqType & 1);
    EXPECT_TRUE(types >> kVirtqCountersType & 1);
    EXPECT_EQ(cap(kGeneral, PRM(cmd_hca_cap, event_cap)), 1u);
    constexpr uint32_t kObjectChange = 0x27;
    const Field heard = PRM(device_event_cap, user_affiliated_events[0]);
    EXPECT_EQ(cap(kEvents, {heard.offset + 63 - kObjectChange, 1}), 1u);
    const auto virtio = [&](Field field) { return cap(kVirtio, field); };
    EXPECT_EQ(virtio(PRM(virtio_emulation_cap, virtio_queue_type)), 1u) << "split rings";
    EXPECT_EQ(virtio(PRM(virtio_emulation_cap, event_mode)), 3u) << "none, or by QPs";
    EXPECT_EQ(virtio(PRM(virtio_emulation_cap, virtio_version_1_0)), 1u);
    const auto vars = 1u << (virtio(PRM(virtio_emulation_cap, log_doorbell_bar_size)) + 12 -
                             virtio(PRM(virtio_emulation_cap, log_doorbell_stride)));
    EXPECT_EQ(vars, 32u);
    const uint64_t offset =
        virtio({PRM(virtio_emulation_cap, doorbell_bar_offset).offset + 32, 32});
    EXPECT_EQ(offset + vars * 4096u, 32u << 20) << "the end of the BAR";
    for (auto left = virtio(PRM(virtio_emulation_cap, max_num_virtio_queues)); left != 0; left--)
        ASSERT_EQ(status(create(left)), FwStatus::ok);
    EXPECT_EQ(status(create()), FwStatus::exceeded_limit);
}

TEST_P(VirtqsTest, TheyGoThroughTheirStates) {
    const Number queue = made(create());
    EXPECT_EQ(seen(queue, PRM(virtio_net_q_object, state)), kInit);
    EXPECT_EQ(seen(queue, PRM(virtio_net_q_object, hw_available_index)), 7u);
    EXPECT_EQ(seen(queue, PRM(virtio_net_q_object, hw_used_index)), 7u);
    EXPECT_EQ(status(by(mine, virtq_change(queue, kSuspended))), FwStatus::bad_resource_state);
    EXPECT_EQ(status(by(mine, virtq_change(queue, kReady))), FwStatus::ok);
    EXPECT_EQ(seen(queue, PRM(virtio_net_q_object, state)), kReady);
    EXPECT_EQ(status(by(mine, virtq_change(queue, kSuspended))), FwStatus::ok);
    EXPECT_EQ(seen(queue, PRM(virtio_net_q_object, state)), kSuspended);
    EXPECT_EQ(status(by(mine, virtq_change(queue, kReady))), FwStatus::bad_resource_state);
    for (const uint64_t state : {kInit, kError, 9u})
        EXPECT_EQ(status(by(mine, virtq_change(queue, state))), FwStatus::bad_parameter);
    EXPECT_EQ(status(by(mine, virtq_change(queue, kReady, 8))), FwStatus::bad_parameter)
        << "a dirty bitmap";
    Request shorter = by(mine, virtq_change(queue, kReady));
    shorter.in.resize(shorter.in.size() - 4);
    EXPECT_EQ(status(shorter), FwStatus::bad_input_length);
    EXPECT_EQ(status(by(mine, destroy(queue))), FwStatus::ok);
}

TEST_P(VirtqsTest, ErrorsAreSaid) {
    constexpr uint32_t kInternal = 5;
    const Number queue = made(create()); // its ring is nowhere
    ASSERT_EQ(status(by(mine, virtq_change(queue, kReady))), FwStatus::ok);
    while (transport->device().poll() != 0) {
    }
    EXPECT_EQ(seen(queue, PRM(virtio_net_q_object, state)), kError);
    EXPECT_EQ(
        seen(queue, inside(PRM(virtio_net_q_object, virtio_q_context), PRM(virtio_q, error_type))),
        kInternal);
}

TEST_P(VirtqsTest, TheyAreTheirUsers) {
    const Number queue = made(create());
    for (const Request& command : {query(queue), virtq_change(queue, kReady), destroy(queue)})
        EXPECT_EQ(status(by(other, command)), FwStatus::bad_resource);
    EXPECT_EQ(step(REQUEST(DEALLOC_PD, dealloc_pd), pd), FwStatus::resource_busy);
    EXPECT_EQ(step(REQUEST(DESTROY_TIS, destroy_tis), tis), FwStatus::resource_busy);
    EXPECT_EQ(status(by(mine, destroy(queue))), FwStatus::ok);
    for (const Request& command : {query(queue), virtq_change(queue, kReady), destroy(queue)})
        EXPECT_EQ(status(by(mine, command)), FwStatus::bad_resource);
    EXPECT_EQ(step(REQUEST(DESTROY_TIS, destroy_tis), tis), FwStatus::ok);
    EXPECT_EQ(status(by(mine, Request(MLX5_CMD_OP_MODIFY_GENERAL_OBJECT,
                                      PRM_BYTES(modify_virtio_net_q_in), kVirtqCountersType))),
              FwStatus::bad_parameter)
        << "what has nothing to modify";
}

TEST_P(VirtqsTest, WhatIsRefused) {
    const std::pair<Field, uint64_t> unknown[] = {
        {of_queue(PRM(virtio_q, pd)), 0xabcde},
        {of_queue(PRM(virtio_q, umem_2_id)), 0xabcde},
        {of_queue(PRM(virtio_q, counter_set_id)), 0xabcde},
        {of_object(PRM(virtio_net_q_object, tisn_or_qpn)), 0xabcde}};
    for (const auto& [field, value] : unknown)
        EXPECT_EQ(status(create().set(field, value)), FwStatus::bad_resource) << field.offset;
    constexpr Field kFeatures = PRM(virtio_net_q_object, queue_feature_bit_mask_12_3);
    const std::pair<Field, uint64_t> wrong[] = {
        {of_queue(PRM(virtio_q, virtio_q_type)), 1}, // packed
        {of_queue(PRM(virtio_q, event_mode)), MLX5_VIRTIO_Q_EVENT_MODE_MSIX_MODE},
        {of_queue(PRM(virtio_q, full_emulation)), 1},
        {of_queue(PRM(virtio_q, offload_type)), 1},
        {of_queue(PRM(virtio_q, queue_size)), 12},
        {of_queue(PRM(virtio_q, desc_addr)), 8},
        {of_queue(PRM(virtio_q, umem_1_size)), kVirtqUmemBytes - 1},
        {of_queue(PRM(virtio_q, umem_3_size)), kPages * kPage + 1},
        {of_queue(PRM(virtio_q, umem_3_offset)), kPages * kPage},
        {of_object(PRM(virtio_net_q_object, state)), kReady},
        {of_object({kFeatures.offset + 4, 1}), 1},
        {of_object(PRM(virtio_net_q_object, queue_feature_bit_mask_2_0)), 1},
        {of_object(PRM(virtio_net_q_object, tisn_or_qpn)), 0}};
    for (const auto& [field, value] : wrong)
        EXPECT_EQ(status(create().set(field, value)), FwStatus::bad_parameter) << field.offset;
    EXPECT_EQ(status(create(0).set(of_object(PRM(virtio_net_q_object, tisn_or_qpn)), 0)),
              FwStatus::ok)
        << "one that receives needs no TIS";
    Request shorter = create();
    shorter.in.resize(shorter.in.size() - 4);
    EXPECT_EQ(status(shorter), FwStatus::bad_input_length);
    for (uint64_t bit = 0; bit < kVirtioFeatureBits; bit++)
        EXPECT_EQ(status(create().set(of_object({kFeatures.offset + bit, 1}), 1)), FwStatus::ok);
}

TEST_P(VirtqsTest, EventsGoByPairsOfQps) {
    const Number tells = telling_qp(), hears = made(hearing_qp());
    EXPECT_EQ(status(with_events(tells)), FwStatus::bad_parameter) << "not connected";
    ASSERT_EQ(step(REQUEST(RST2INIT_QP, rst2init_qp), tells), FwStatus::ok);
    ASSERT_EQ(status(to_rtr(tells, hears)), FwStatus::ok);
    EXPECT_EQ(status(with_events(tells)), FwStatus::bad_parameter) << "not ready to send";
    ASSERT_EQ(step(REQUEST(RTR2RTS_QP, rtr2rts_qp), tells), FwStatus::ok);
    connect(hears, tells);
    EXPECT_EQ(*transport->device().query_rq(hears), core::QueueState::ready);
    EXPECT_EQ(status(with_events(hears)), FwStatus::bad_parameter) << "the wrong side";
    EXPECT_EQ(status(with_events(0xabcde)), FwStatus::bad_resource);
    const Number queue = made(with_events(tells));
    for (const Number qpn : {tells, hears})
        EXPECT_EQ(step(REQUEST(DESTROY_QP, destroy_qp), qpn), FwStatus::resource_busy);
    EXPECT_EQ(status(by(mine, destroy(queue))), FwStatus::ok);
    EXPECT_EQ(step(REQUEST(2RST_QP, qp_2rst), hears), FwStatus::ok);
    EXPECT_EQ(*transport->device().query_rq(hears), core::QueueState::reset);
    for (const Number qpn : {tells, hears})
        EXPECT_EQ(step(REQUEST(DESTROY_QP, destroy_qp), qpn), FwStatus::ok);
    EXPECT_EQ(step(REQUEST(DESTROY_CQ, destroy_cq), cq), FwStatus::ok);
}

TEST_P(VirtqsTest, QpsOfPairsConnectToTheOtherSide) {
    const Number tells = telling_qp(), hears = made(hearing_qp());
    for (const Number qpn : {tells, hears})
        ASSERT_EQ(step(REQUEST(RST2INIT_QP, rst2init_qp), qpn), FwStatus::ok);
    EXPECT_EQ(status(to_rtr(tells, tells)), FwStatus::bad_parameter);
    EXPECT_EQ(status(to_rtr(hears, hears)), FwStatus::bad_parameter);
    EXPECT_EQ(status(to_rtr(tells, 0xabcde)), FwStatus::bad_parameter);
    constexpr Field kContext = PRM(init2rtr_qp_in, qpc);
    EXPECT_EQ(
        status(to_rtr(tells, hears).set(inside(kContext, PRM(qpc, primary_address_path.fl)), 0)),
        FwStatus::bad_parameter);
    EXPECT_EQ(status(to_rtr(tells, hears)), FwStatus::ok);
    EXPECT_EQ(status(hearing_qp().set(inside(kQpContext, PRM(qpc, log_rq_size)), 12)),
              FwStatus::bad_parameter)
        << "not in the umem";
    EXPECT_EQ(status(hearing_qp().set(inside(kQpContext, PRM(qpc, rq_type)), 1)),
              FwStatus::bad_parameter)
        << "there are no SRQs";
}

TEST_P(VirtqsTest, TablesAreOfOneKindOfQueues) {
    constexpr uint64_t kRqs = 0, kVirtqs = 1;
    const Number receives = made(create(0)), sends = made(create(1)),
                 rq = made(by(mine, rq_request(cq)));
    EXPECT_EQ(status(rqt({receives, rq}, kVirtqs)), FwStatus::bad_resource);
    EXPECT_EQ(status(rqt({receives}, kRqs)), FwStatus::bad_resource);
    EXPECT_EQ(status(rqt({sends}, kVirtqs)), FwStatus::bad_parameter);
    const Number table = made(rqt({receives, receives}, kVirtqs));
    EXPECT_EQ(status(by(mine, destroy(receives))), FwStatus::resource_busy);
    EXPECT_EQ(step(REQUEST(DESTROY_RQT, destroy_rqt), table), FwStatus::ok);
    EXPECT_EQ(status(by(mine, destroy(receives))), FwStatus::ok);
}

TEST_P(VirtqsTest, CountersAreUsed) {
    const Number counters =
        made(by(mine, about(MLX5_CMD_OP_CREATE_GENERAL_OBJECT, 0, kVirtqCountersType)));
    const Number queue = made(create().set(of_queue(PRM(virtio_q, counter_set_id)), counters));
    EXPECT_EQ(status(by(mine, destroy(counters, kVirtqCountersType))), FwStatus::resource_busy);
    ASSERT_EQ(status(by(mine, virtq_change(queue, kReady))), FwStatus::ok);
    while (transport->device().poll() != 0) {
    }
    const Request ask =
        by(mine, about(MLX5_CMD_OP_QUERY_GENERAL_OBJECT, counters, kVirtqCountersType));
    EXPECT_EQ(run(ask).get(inside(kAnswer, PRM(virtio_q_counters, error_cqes))), 1u)
        << "its ring is nowhere";
    EXPECT_EQ(status(by(mine, destroy(queue))), FwStatus::ok);
    EXPECT_EQ(status(by(other, ask)), FwStatus::bad_resource);
    EXPECT_EQ(status(by(mine, destroy(counters, kVirtqCountersType))), FwStatus::ok);
    EXPECT_EQ(status(ask), FwStatus::bad_resource);
}

TEST_P(VirtqsTest, TheKeysOfNothingAreTold) {
    const Answer answer = run(REQUEST(QUERY_SPECIAL_CONTEXTS, query_special_contexts));
    EXPECT_EQ(answer.get(PRM(query_special_contexts_out, dump_fill_mkey)), 0x1ffu);
    EXPECT_EQ(answer.get(PRM(query_special_contexts_out, null_mkey)), 0x1feu);
}

INSTANTIATE_TEST_SUITE_P(Transports, VirtqsTest, transports(), name_of);

} // namespace
} // namespace prm_test
