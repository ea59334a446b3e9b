// SPDX-License-Identifier: BSD-3-Clause
// Send WQEs that read and write meters.
#include "app/softhca/core/requests.hpp"
#include "common/mlx5/aso.hpp"
#include "tests/unit/softhca/meters.hpp"

#include <cstring>

namespace {

using namespace testbed;

/// What a driver's write to meter 0 or 1 of a pair covers: flags, both buckets, tokens and time.
constexpr uint64_t kFirstMeter = 0x80ffffffull << 32, kSecondMeter = 0x80ffffff;

class MeterWqeTest : public MetersTest {
  protected:
    MeterWqeTest() { meters = pairs({}); }

    static mlx5::WqeAsoCtrlSeg writing(uint64_t mask) {
        mlx5::WqeAsoCtrlSeg aso{};
        aso.data_mask_mode = mlx5::kAsoBytewise;
        aso.operators = mlx5::kAsoAlwaysTrue << 4 | mlx5::kAsoAlwaysTrue;
        aso.joining = mlx5::kAsoOr;
        aso.data_mask = mask;
        return aso;
    }
    /// Makes the WQE return the previous contents of the pair.
    mlx5::WqeAsoCtrlSeg reading(mlx5::WqeAsoCtrlSeg aso = {}) {
        const auto to = reinterpret_cast<uint64_t>(memory_at(0));
        aso.va_high = static_cast<uint32_t>(to >> 32);
        aso.va_low_read = static_cast<uint32_t>(to) | mlx5::kAsoRead;
        aso.lkey = lkey;
        return aso;
    }
    static std::array<mlx5::MeterParams, 2> parameters() {
        std::array<mlx5::MeterParams, 2> both{};
        both[0].flags = 0xb6ffffff; // valid, start yellow, mode bytes with L2 and gap; reserved
        both[0].reserved = 0xffffffff;
        both[0].cbs_cir = 0x1f811e82; // 0x81 * 2^31, 0x82 * 10^9 / 2^30
        both[0].ebs_eir = 0x01020304;
        both[1].flags = 0xcb000000; // valid, overflow, start red, both on green, packets
        both[1].cbs_cir = 0x07030000;
        both[1].ebs_eir = 0x07040201;
        return both;
    }
    template <class T> static void append(Bytes& bytes, const T& what) {
        const auto* const first = reinterpret_cast<const uint8_t*>(&what);
        bytes.insert(bytes.end(), first, first + sizeof what);
    }
    Wqe wqe(const mlx5::WqeAsoCtrlSeg& aso, bool with_data = true,
            uint8_t type = mlx5::kAsoPolicer) {
        Wqe made(mlx5::WqeOpcode::access_aso);
        made.bytes[0] = type;
        frames::put32(made.bytes, 12, meters);
        append(made.bytes, aso);
        if (with_data) append(made.bytes, parameters());
        return made;
    }
    void post(TestSq& queue, const Wqe& one) {
        queue.post(one);
        queue.ring_doorbell();
        run();
    }
    void expect_done() {
        const mlx5::Cqe* const cqe = tx_cq.poll();
        ASSERT_NE(cqe, nullptr);
        EXPECT_EQ(TestCq::opcode(*cqe), mlx5::CqeOpcode::req);
    }
    void expect_fault(const Wqe& one, SendFault fault, mlx5::CqeSyndrome syndrome) {
        TestSq queue(*device, pd, tx_cq.number, 6);
        expect_fault(queue, one, fault, syndrome);
    }
    void expect_fault(TestSq& queue, const Wqe& one, SendFault fault, mlx5::CqeSyndrome syndrome) {
        const auto before = *device->query_meters(meters);
        post(queue, one);
        const mlx5::ErrorCqe* const cqe = tx_cq.poll_error(mlx5::CqeOpcode::req_error);
        ASSERT_NE(cqe, nullptr);
        EXPECT_EQ(cqe->vendor_syndrome, static_cast<uint8_t>(fault));
        EXPECT_EQ(cqe->syndrome, static_cast<uint8_t>(syndrome));
        EXPECT_EQ((*device->query_meters(meters))[0].attr(), before[0].attr());
        tx_cq.release();
        ASSERT_TRUE(device->destroy_sq(queue.number));
    }
    Number meters = 0;
};

TEST_F(MeterWqeTest, BothMetersOfAPair) {
    post(sq, wqe(writing(kFirstMeter | kSecondMeter)));
    expect_done();
    EXPECT_EQ(sq.producer, 2) << "WQEBBs";
    const auto now = *device->query_meters(meters);
    EXPECT_EQ(now[0].attr(), (MeterAttr{.valid = true,
                                        .start = Color::undefined,
                                        .mode = MeterMode::wire_bytes,
                                        .committed = {0x82, 0x1e, 0x81, 0x1f},
                                        .excess = {4, 3, 2, 1}}));
    EXPECT_EQ(now[1].attr(), (MeterAttr{.valid = true,
                                        .overflow = true,
                                        .both_on_green = true,
                                        .start = Color::red,
                                        .mode = MeterMode::packets,
                                        .committed = {0, 0, 3, 7},
                                        .excess = {1, 2, 4, 7}}));
    EXPECT_EQ(now[1].committed_tokens(), 3u * 128) << "full";
    EXPECT_EQ(now[1].excess_tokens(), 4u * 128);
    EXPECT_EQ(wire->sent.size(), 0u);
}

TEST_F(MeterWqeTest, TheOtherMeterGoesOn) {
    meters = pairs(packets_only(5), packets_only(5));
    ASSERT_TRUE(lead(
        root, {{.pair = meters, .meter = 0, .reg_c = 1}, {.pair = meters, .meter = 1, .reg_c = 2}},
        table(1)));
    receive(2);
    post(sq, wqe(writing(kSecondMeter)));
    expect_done();
    auto now = *device->query_meters(meters);
    EXPECT_EQ(now[0].attr(), packets_only(5));
    EXPECT_EQ(now[0].committed_tokens(), 3u * 128);
    EXPECT_EQ(now[1].committed_tokens(), 3u * 128) << "full, as its size is 3 now";
    post(sq, wqe(writing(kFirstMeter)));
    expect_done();
    now = *device->query_meters(meters);
    EXPECT_EQ(now[0].attr().mode, MeterMode::wire_bytes);
    EXPECT_TRUE(now[1].attr().overflow);
}

TEST_F(MeterWqeTest, BytesOutsideTheMaskStay) {
    meters = pairs(packets_only(5));
    constexpr uint64_t kCommittedSize = 0x3ull << (63 - 9); // bytes 8 and 9
    post(sq, wqe(writing(kCommittedSize)));
    expect_done();
    MeterAttr expected = packets_only(5);
    expected.committed.size_exponent = 0x1f;
    expected.committed.size_mantissa = 0x81;
    EXPECT_EQ((*device->query_meters(meters))[0].attr(), expected);
}

TEST_F(MeterWqeTest, ReadsWhatWasThere) {
    const MeterAttr attr{.valid = true,
                         .overflow = true,
                         .both_on_green = true,
                         .start = Color::green,
                         .mode = MeterMode::packets,
                         .committed = {1, 2, 3, 4},
                         .excess = {5, 6, 7, 8}};
    meters = pairs(attr, packets_only(2));
    ASSERT_TRUE(lead(root, {{.pair = meters, .meter = 1}}, table(1)));
    receive(1);
    post(sq, wqe(reading(writing(kFirstMeter))));
    expect_done();
    std::array<mlx5::MeterParams, 2> read;
    std::memcpy(&read, memory_at(0), sizeof read);
    EXPECT_EQ(read[0].flags, 0xeb000000u);
    EXPECT_EQ(read[0].cbs_cir, 0x04030201u);
    EXPECT_EQ(read[0].committed_tokens, 3u << 4);
    EXPECT_EQ(read[0].ebs_eir, 0x08070605u);
    EXPECT_EQ(read[0].excess_tokens, 7u << 8);
    EXPECT_EQ(read[1].flags, 0xb3000000u);
    EXPECT_EQ(read[1].committed_tokens, 128u);
    EXPECT_EQ((*device->query_meters(meters))[0].attr().mode, MeterMode::wire_bytes) << "written";
}

TEST_F(MeterWqeTest, ReadsWithoutData) {
    meters = pairs(packets_only(2));
    const uint16_t before = sq.producer;
    post(sq, wqe(reading(), false));
    expect_done();
    EXPECT_EQ(sq.producer - before, 1);
    EXPECT_EQ(get(memory_at(0), 1), Bytes{0xb3});
    EXPECT_EQ((*device->query_meters(meters))[0].attr(), packets_only(2));
}

TEST_F(MeterWqeTest, Conditions) {
    const auto written = [&](uint8_t operators, uint8_t joining) {
        meters = pairs({});
        mlx5::WqeAsoCtrlSeg aso = writing(kFirstMeter);
        aso.operators = operators;
        aso.joining = joining;
        post(sq, wqe(aso));
        expect_done();
        return (*device->query_meters(meters))[0].attr().valid;
    };
    EXPECT_FALSE(written(0x00, mlx5::kAsoOr));
    EXPECT_TRUE(written(0x01, mlx5::kAsoOr));
    EXPECT_TRUE(written(0x10, mlx5::kAsoOr));
    EXPECT_FALSE(written(0x10, 0));
    EXPECT_FALSE(written(0x01, 0));
    EXPECT_TRUE(written(0x11, 0));
}

TEST_F(MeterWqeTest, Faults) {
    using mlx5::CqeSyndrome;
    const auto changed = [&](auto change) {
        mlx5::WqeAsoCtrlSeg aso = writing(kFirstMeter);
        change(aso);
        return wqe(aso);
    };
    expect_fault(changed([](auto& aso) { aso.operators = 0x21; }), SendFault::bad_meter_write,
                 CqeSyndrome::local_qp_operation);
    expect_fault(changed([](auto& aso) { aso.operators = 0x12; }), SendFault::bad_meter_write,
                 CqeSyndrome::local_qp_operation);
    expect_fault(changed([](auto& aso) { aso.data_mask_mode = 0; }), SendFault::bad_meter_write,
                 CqeSyndrome::local_qp_operation);
    expect_fault(wqe(writing(kFirstMeter), false), SendFault::bad_ds,
                 CqeSyndrome::local_qp_operation);
    expect_fault(wqe(writing(kFirstMeter), true, 5), SendFault::bad_opcode,
                 CqeSyndrome::local_qp_operation);
    Wqe cut(mlx5::WqeOpcode::access_aso);
    cut.bytes[0] = mlx5::kAsoPolicer;
    expect_fault(cut, SendFault::bad_ds, CqeSyndrome::local_qp_operation);
    mlx5::WqeAsoCtrlSeg nowhere = reading(writing(kFirstMeter));
    nowhere.lkey = lkey + 0x100;
    expect_fault(wqe(nowhere), SendFault::protection, CqeSyndrome::local_protection);
    mlx5::WqeAsoCtrlSeg unwritable = reading(writing(kFirstMeter));
    unwritable.lkey = make_key(*device, pd, memory);
    expect_fault(wqe(unwritable), SendFault::protection, CqeSyndrome::local_protection);
    Wqe none = wqe(writing(kFirstMeter));
    frames::put32(none.bytes, 12, meters + 1);
    expect_fault(none, SendFault::no_meters, CqeSyndrome::local_protection);
    const Number other = *device->alloc_pd();
    TestSq foreign(*device, other, tx_cq.number, 6);
    expect_fault(foreign, wqe(writing(kFirstMeter)), SendFault::no_meters,
                 CqeSyndrome::local_protection);
}

} // namespace
