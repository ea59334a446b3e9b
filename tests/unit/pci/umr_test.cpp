// SPDX-License-Identifier: BSD-3-Clause
// The kernel driver's QP for UMR: its requests change PD and access of memory keys.
#include "app/softhca/core/rings/mlx5/umr.hpp"
#include "tests/unit/pci/guest.hpp"

namespace pci_test {
namespace {

// Of <linux/mlx5/device.h>: MLX5_MKEY_MASK_*, MLX5_UMR_*.
constexpr uint64_t kLen = 1ull << 0, kPd = 1ull << 7, kVariant = 1ull << 13, kLr = 1ull << 17,
                   kLw = 1ull << 18, kRr = 1ull << 19, kRw = 1ull << 20, kAtomic = 1ull << 21,
                   kFree = 1ull << 29;
constexpr uint64_t kAccess = kLr | kLw | kRr | kRw;
constexpr uint8_t kOffsetEnable = 1 << 4, kCheckNotFree = 1 << 5, kCheckFree = 2 << 5,
                  kInline = 1 << 7;

/// A WQE as mlx5_ib writes it.
struct UmrWqe {
    UmrWqe(uint32_t lkey, uint64_t mask, uint8_t flags = kInline) : bytes(128) {
        net::store_be(bytes.data() + 12, lkey);
        bytes[16] = flags;
        net::store_be(bytes.data() + 24, mask);
        key({0x20, 24}, 0xffffff); // qpn
        key(PRM(mkc, mkey_7_0), lkey & 0xff);
    }
    /// Sets a field of the key context.
    UmrWqe& key(Field field, uint64_t value) {
        Fields(bytes.data() + 64, 64).set(field, value);
        return *this;
    }
    std::vector<uint8_t> bytes;
};

class UmrTest : public Guest {
  protected:
    static constexpr uint8_t kLogWqebbs = 4;
    static constexpr uint32_t kBuffer = 2048, kBuffers = 16;

    UmrTest() {
        start_driver();
        enable_msix();
        record = alloc(kPage);
        cq_record = alloc(kPage);
        cq = made_with_ring(cq_request(6, cq_record), cq_ring);
        qpn = made_with_ring(qp_request(), ring);
        start();
        buffers = alloc(kBuffers * kBuffer);
        lkey = made(mkey_request(buffers, kBuffers * kBuffer)) << 8;
    }
    Number made_with_ring(const Request& request, uint64_t& ring_at) {
        ring_at = net::load_be<uint64_t>(request.in.data() + request.in.size() - 8);
        return made(request);
    }
    [[nodiscard]] Request qp_request() {
        constexpr Field kContext = PRM(create_qp_in, qpc);
        return REQUEST(CREATE_QP, create_qp)
            .set(inside(kContext, PRM(qpc, st)), 0xc)
            .set(inside(kContext, PRM(qpc, rq_type)), 3)
            .set(inside(kContext, PRM(qpc, uar_page)), uar)
            .set(inside(kContext, PRM(qpc, cqn_snd)), cq)
            .set(inside(kContext, PRM(qpc, cqn_rcv)), cq)
            .set(inside(kContext, PRM(qpc, log_sq_size)), kLogWqebbs)
            .set(inside(kContext, PRM(qpc, dbr_addr)), record)
            .page(alloc(kPage));
    }
    /// From reset to RTS.
    void start() {
        producer = 0;
        ASSERT_EQ(status_of(REQUEST(RST2INIT_QP, rst2init_qp).number(qpn)), FwStatus::ok);
        ASSERT_EQ(status_of(REQUEST(INIT2RTR_QP, init2rtr_qp).number(qpn)), FwStatus::ok);
        ASSERT_EQ(status_of(REQUEST(RTR2RTS_QP, rtr2rts_qp).number(qpn)), FwStatus::ok);
    }
    void post(const UmrWqe& wqe, uint8_t opcode = 0x25) {
        std::byte* const to = at(ring + (producer & ((1u << kLogWqebbs) - 1)) * 64);
        std::memcpy(to, wqe.bytes.data(), wqe.bytes.size());
        net::store_be(to, uint32_t{producer} << 8 | opcode);
        net::store_be(to + 4, qpn << 8 | static_cast<uint32_t>(wqe.bytes.size() / 16));
        to[11] = std::byte{0x28}; // report, small fence
        producer = static_cast<uint16_t>(producer + (wqe.bytes.size() + 63) / 64);
        net::store_be(at(record) + 4, uint32_t{producer});
        uint64_t rings = 0;
        std::memcpy(&rings, to, sizeof rings);
        function->bar_write(uar * 4096 + 0x800, rings, 8);
        poll();
    }
    [[nodiscard]] const std::byte* next_cqe() {
        return at(cq_ring + static_cast<size_t>(consumer++ % 64) * 64);
    }
    void expect_done(uint16_t index) {
        const std::byte* const cqe = next_cqe();
        EXPECT_EQ(static_cast<uint8_t>(cqe[63]) >> 4, static_cast<int>(mlx5::CqeOpcode::req));
        EXPECT_EQ(net::load_be<uint16_t>(cqe + 60), index);
        EXPECT_EQ(net::load_be<uint32_t>(cqe + 56), 0x25u << 24 | qpn);
    }
    void expect_change(const UmrWqe& wqe) {
        const uint16_t index = producer;
        post(wqe);
        expect_done(index);
    }
    /// Afterwards the QP is ready again.
    void expect_error(const UmrWqe& wqe, core::SendFault fault, uint8_t opcode = 0x25) {
        SCOPED_TRACE(core::text_of(fault));
        const uint16_t index = producer;
        post(wqe, opcode);
        const std::byte* const cqe = next_cqe();
        EXPECT_EQ(static_cast<uint8_t>(cqe[63]) >> 4, static_cast<int>(mlx5::CqeOpcode::req_error));
        EXPECT_EQ(static_cast<uint8_t>(cqe[54]), static_cast<uint8_t>(fault));
        EXPECT_EQ(net::load_be<uint16_t>(cqe + 60), index);
        EXPECT_EQ(state(), 6u);
        ASSERT_EQ(status_of(REQUEST(2RST_QP, qp_2rst).number(qpn)), FwStatus::ok);
        start();
    }
    [[nodiscard]] uint32_t state() {
        return execute(REQUEST(QUERY_QP, query_qp).number(qpn))
            .get(inside(PRM(query_qp_out, qpc), PRM(qpc, state)));
    }
    [[nodiscard]] uint32_t key_now(Field field) {
        return execute(REQUEST(QUERY_MKEY, query_mkey).number(lkey >> 8))
            .get(inside(PRM(query_mkey_out, memory_key_mkey_entry), field));
    }
    [[nodiscard]] bool can_be_written(uint32_t key) {
        return device->write_memory(key, buffers, {at(ring), 8}).has_value();
    }
    [[nodiscard]] FwStatus dealloc(Number number) {
        return status_of(REQUEST(DEALLOC_PD, dealloc_pd).number(number));
    }

    Number cq = 0, qpn = 0;
    uint64_t record = 0, cq_record = 0, cq_ring = 0, ring = 0, buffers = 0;
    uint32_t lkey = 0, consumer = 0;
    uint16_t producer = 0;
};

/// What ibv_rereg_mr() leads to.
TEST_F(UmrTest, AKeyGetsAnotherPd) {
    const Number other = made(REQUEST(ALLOC_PD, alloc_pd));
    lkey = made(mkey_request(buffers, kBuffer)
                    .set(inside(PRM(create_mkey_in, memory_key_mkey_entry), PRM(mkc, pd)), other))
           << 8;
    EXPECT_EQ(dealloc(other), FwStatus::resource_busy);
    expect_change(UmrWqe(lkey, kPd | kAccess, kCheckFree | kInline)
                      .key(PRM(mkc, pd), pd)
                      .key(PRM(mkc, lr), 1)
                      .key(PRM(mkc, lw), 1));
    EXPECT_EQ(key_now(PRM(mkc, pd)), pd);
    EXPECT_TRUE(can_be_written(lkey));
    EXPECT_EQ(dealloc(other), FwStatus::ok) << "the key has left it";

    const Number third = made(REQUEST(ALLOC_PD, alloc_pd));
    expect_change(UmrWqe(lkey, kPd).key(PRM(mkc, pd), third));
    EXPECT_EQ(dealloc(third), FwStatus::resource_busy) << "before any command about the key";
    EXPECT_EQ(key_now(PRM(mkc, pd)), third);
    EXPECT_EQ(dealloc(third), FwStatus::resource_busy);
    EXPECT_EQ(status_of(REQUEST(DESTROY_MKEY, destroy_mkey).number(lkey >> 8)), FwStatus::ok);
    EXPECT_EQ(dealloc(third), FwStatus::ok);
}

TEST_F(UmrTest, AKeyGetsOtherAccess) {
    EXPECT_TRUE(can_be_written(lkey));
    expect_change(UmrWqe(lkey, kAccess).key(PRM(mkc, lr), 1).key(PRM(mkc, rr), 1));
    EXPECT_FALSE(can_be_written(lkey));
    EXPECT_EQ(key_now(PRM(mkc, lw)), 0u);
    EXPECT_EQ(key_now(PRM(mkc, rr)), 1u);
    EXPECT_EQ(key_now(PRM(mkc, rw)), 0u);
    EXPECT_EQ(key_now(PRM(mkc, pd)), pd) << "not in the mask";
    expect_change(UmrWqe(lkey, kLw | kRw).key(PRM(mkc, lw), 1).key(PRM(mkc, rw), 1));
    EXPECT_TRUE(can_be_written(lkey));
    EXPECT_EQ(key_now(PRM(mkc, lw)), 1u);
    EXPECT_EQ(key_now(PRM(mkc, rr)), 1u) << "not in the mask";
    EXPECT_EQ(key_now(PRM(mkc, rw)), 1u);
}

/// The device has looked up the keys of posted buffers before their packets come.
TEST_F(UmrTest, BuffersThatAreAlreadyPostedAreHeldToIt) {
    uint64_t rq_ring = 0, receive_ring = 0;
    const uint64_t receive_record = alloc(kPage);
    const Number receive_cq = made_with_ring(cq_request(6, alloc(kPage)), receive_ring);
    const Field at_record = inside(inside(PRM(create_rq_in, ctx), PRM(rqc, wq)), PRM(wq, dbr_addr));
    const Number rq =
        made_with_ring(rq_request(receive_cq).set(at_record, receive_record), rq_ring);
    ASSERT_EQ(status_of(modify_rq(rq, 0, 1)), FwStatus::ok);
    const Number table = made(table_request());
    ASSERT_EQ(status_of(root_request(table)), FwStatus::ok);
    const Number group = made(group_request(table, 0, 0));
    ASSERT_EQ(status_of(entry_request(table, group, 0, made(tir_request(rq)))), FwStatus::ok);
    for (uint32_t i = 0; i < kBuffers; i++) {
        net::store_be(at(rq_ring + i * 16), kBuffer);
        net::store_be(at(rq_ring + i * 16 + 4), lkey);
        net::store_be(at(rq_ring + i * 16 + 8), buffers + i * kBuffer);
    }
    net::store_be(at(receive_record), kBuffers);
    const auto receive = [&](uint32_t index, uint32_t count) {
        for (uint32_t i = 0; i < count; i++)
            wire->incoming.push_back(frames::build({}));
        poll();
        return static_cast<mlx5::CqeOpcode>(
            static_cast<uint8_t>(*at(receive_ring + index * 64 + 63)) >> 4);
    };
    poll();
    EXPECT_EQ(receive(0, 4), mlx5::CqeOpcode::resp_send);
    expect_change(UmrWqe(lkey, kAccess).key(PRM(mkc, lr), 1));
    EXPECT_EQ(receive(4, 4), mlx5::CqeOpcode::resp_error);
}

/// What dereg and rereg of a cached region lead to.
TEST_F(UmrTest, NothingGoesThroughAFreeKey) {
    expect_change(UmrWqe(lkey, kPd | kFree).key(PRM(mkc, pd), pd).key(PRM(mkc, free), 1));
    EXPECT_FALSE(can_be_written(lkey));
    EXPECT_EQ(key_now(PRM(mkc, free)), 1u);
    expect_error(UmrWqe(lkey, kAccess, kCheckFree | kInline).key(PRM(mkc, lr), 1),
                 core::SendFault::no_key);
    const uint32_t again = lkey | 0x77;
    expect_change(UmrWqe(again, kVariant | kFree, kCheckNotFree | kInline));
    EXPECT_EQ(key_now(PRM(mkc, free)), 0u);
    EXPECT_EQ(key_now(PRM(mkc, mkey_7_0)), 0x77u);
    EXPECT_TRUE(can_be_written(again));
    EXPECT_FALSE(can_be_written(lkey));
    expect_error(UmrWqe(again, kFree, kCheckNotFree | kInline), core::SendFault::no_key);
    EXPECT_EQ(status_of(REQUEST(DESTROY_MKEY, destroy_mkey).number(lkey >> 8)), FwStatus::ok);
}

TEST_F(UmrTest, AResetDestroysKeysOfWhateverVariant) {
    const uint32_t again = lkey | 0x77;
    expect_change(UmrWqe(again, kVariant));
    ASSERT_TRUE(can_be_written(again));
    function->reset();
    EXPECT_FALSE(device->query_mkey(lkey >> 8));
    EXPECT_FALSE(can_be_written(again));
    load_driver();
}

TEST_F(UmrTest, WhatIsNotThereIsAnError) {
    using core::SendFault;
    expect_error(UmrWqe(0x123400, kLw), SendFault::no_key);
    expect_error(UmrWqe(0x7fffff00, kLw), SendFault::no_key);
    expect_error(UmrWqe(lkey | 1, kLw), SendFault::no_key); // of another variant
    expect_error(UmrWqe(lkey, kPd | kLw).key(PRM(mkc, pd), 0xabcde), SendFault::no_key);
    uint32_t own = 0;
    function->with_firmware([&](const Firmware& firmware) { own = firmware.reserved_lkey; });
    ASSERT_NE(own, 0u);
    expect_error(UmrWqe(own, kLw), SendFault::no_key);
    EXPECT_TRUE(can_be_written(lkey)) << "nothing has changed";
    EXPECT_EQ(key_now(PRM(mkc, pd)), pd);
}

TEST_F(UmrTest, WhatTheDeviceCannotChangeIsAnError) {
    using core::SendFault;
    expect_error(UmrWqe(lkey, kLw | kLen), SendFault::bad_key_change);
    expect_error(UmrWqe(lkey, kLw | kAtomic), SendFault::bad_key_change);
    expect_error(UmrWqe(lkey, kLr | kLw), SendFault::bad_key_change); // no local read
    expect_error(UmrWqe(lkey, kLw, kOffsetEnable), SendFault::bad_key_change);
    UmrWqe translation(lkey, kLw);
    translation.bytes[21] = 1; // xlt_octowords
    expect_error(translation, SendFault::bad_key_change);
    UmrWqe with_data(lkey, kLw, 0);
    with_data.bytes.resize(128 + 16);
    expect_error(with_data, SendFault::bad_key_change);
    UmrWqe cut_off(lkey, kLw);
    cut_off.bytes.resize(112);
    expect_error(cut_off, SendFault::bad_ds);
    expect_error(UmrWqe(lkey, kLw), SendFault::bad_opcode, 0x08); // RDMA write
    expect_error(UmrWqe(lkey, kLw), SendFault::off_wire, 0x0a);   // send
    EXPECT_TRUE(can_be_written(lkey)) << "nothing has changed";
}

TEST_F(UmrTest, TheDriverWaitsForTheInterrupt) {
    write_register(uar * 4096 + 0x40, eq << 24);
    net::store_be(at(cq_record) + 4, 0u); // armed
    poll();
    expect_change(UmrWqe(lkey, kLw));
    const std::byte* const eqe = at(eq_ring);
    EXPECT_EQ(eqe[1], std::byte{0}) << "completion event";
    EXPECT_EQ(net::load_be<uint32_t>(eqe + 32 + 24), cq);
    EXPECT_EQ(messages.size(), 1u);
}

TEST_F(UmrTest, TheRingWraps) {
    for (uint32_t i = 0; i < 100; i++) {
        net::store_be(at(cq_record), consumer);
        expect_change(UmrWqe(lkey, kLw).key(PRM(mkc, lw), i % 2));
        EXPECT_EQ(can_be_written(lkey), i % 2 != 0);
    }
}

TEST_F(UmrTest, OtherQueuesChangeNoKeys) {
    uint64_t sq_ring = 0;
    const uint64_t sq_record = alloc(kPage);
    constexpr Field kWq = inside(PRM(create_sq_in, ctx), PRM(sqc, wq));
    const Number sq =
        made_with_ring(sq_request(cq, 0).set(inside(kWq, PRM(wq, dbr_addr)), sq_record), sq_ring);
    ASSERT_EQ(status_of(REQUEST(MODIFY_SQ, modify_sq)
                            .number(sq)
                            .set(inside(PRM(modify_sq_in, ctx), PRM(sqc, state)), 1)),
              FwStatus::ok);
    ring = sq_ring;
    record = sq_record;
    qpn = sq;
    post(UmrWqe(lkey, kLw));
    EXPECT_EQ(static_cast<uint8_t>(next_cqe()[54]),
              static_cast<uint8_t>(core::SendFault::bad_opcode));
    EXPECT_TRUE(can_be_written(lkey));
}

TEST_F(UmrTest, TheQpHoldsItsCqAndNeedsARing) {
    constexpr Field kContext = PRM(create_qp_in, qpc);
    const Request destroy_cq = REQUEST(DESTROY_CQ, destroy_cq).number(cq);
    EXPECT_EQ(status_of(qp_request().set(inside(kContext, PRM(qpc, cqn_snd)), 0xabcde)),
              FwStatus::bad_resource);
    EXPECT_EQ(status_of(qp_request().set(inside(kContext, PRM(qpc, cqn_snd)), 0)),
              FwStatus::bad_resource);
    EXPECT_EQ(status_of(qp_request().set(inside(kContext, PRM(qpc, dbr_addr)), kMemory)),
              FwStatus::bad_parameter);
    EXPECT_EQ(status_of(qp_request().set(inside(kContext, PRM(qpc, log_sq_size)), 7)),
              FwStatus::bad_parameter)
        << "longer than its page";
    EXPECT_EQ(status_of(qp_request().set(inside(kContext, PRM(qpc, rq_type)), 0)),
              FwStatus::bad_parameter)
        << "nobody would send to it";
    EXPECT_EQ(status_of(destroy_cq), FwStatus::resource_busy);
    EXPECT_EQ(status_of(REQUEST(DESTROY_QP, destroy_qp).number(qpn)), FwStatus::ok);
    EXPECT_EQ(status_of(destroy_cq), FwStatus::ok);
}

/// It changes keys of every user.
TEST_F(UmrTest, ProgramsHaveNone) {
    constexpr Field kUid{16, 16};
    const Number user = made(REQUEST(CREATE_UCTX, create_uctx));
    EXPECT_EQ(status_of(qp_request().set(kUid, user)), FwStatus::bad_parameter);
}

} // namespace
} // namespace pci_test
