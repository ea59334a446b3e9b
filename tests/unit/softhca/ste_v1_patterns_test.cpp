// SPDX-License-Identifier: BSD-3-Clause
// Software steering, format 1: accelerated lists, where a pattern says what is done and arguments
// supply the values; and the WQEs that write arguments.
#include "app/softhca/core/requests.hpp"
#include "tests/unit/softhca/ste_v1.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace {

using namespace testbed;
using namespace softhca::core::ste;
using frames::Spec;
using ::mlx5::CqeSyndrome;
using ::mlx5::WqeOpcode;

constexpr uint8_t kTtlField = 0x0e, kL4Ports = 0x18; // mlx5_ifc.h, as in ste_v1_test.cpp
constexpr size_t kArgument = 64;

class SteV1Patterns : public SteV1Bed {
  protected:
    SteV1Patterns() {
        patterns = *device->alloc_icm(IcmKind::edit_patterns, 4096);
        arguments = *device->create_edit_arguments(pd, 4);
        receives();
    }
    /// As libmlx5 writes it (dr_rdma_handle_flow_access_arg_segments).
    static Wqe writing(Number argument, const Bytes& data, uint8_t what = 1) {
        Wqe wqe(WqeOpcode::flow_table_access);
        wqe.bytes[0] = what;
        frames::put32(wqe.bytes, 12, argument);
        wqe.bytes.resize(wqe.bytes.size() + 48);
        wqe.bytes.insert(wqe.bytes.end(), data.begin(), data.end());
        return wqe;
    }
    void post(TestSq& queue, const Wqe& wqe) {
        queue.post(wqe);
        queue.ring_doorbell();
        run();
    }
    void write_argument(Number argument, Bytes data) {
        data.resize(kArgument);
        post(rc, writing(argument, data));
        const auto* const cqe = tx_cq.poll();
        ASSERT_NE(cqe, nullptr);
        EXPECT_EQ(TestCq::opcode(*cqe), ::mlx5::CqeOpcode::req);
        EXPECT_EQ(cqe->sop_drop_qpn, 0x2c000000u | rc.number);
        tx_cq.release();
    }
    /// Splits a list as libmlx5 does: the pattern has no values, the argument is the whole list.
    void put_pattern(const Actions& list, Number argument) {
        Bytes pattern = list.bytes;
        for (size_t at = 0; at < pattern.size(); at += kEditBytes)
            if (pattern[at] != static_cast<uint8_t>(ActionId::copy))
                frames::put32(pattern, at + 4, 0);
        write(patterns + kPatternAt * mlx5_rings::kEditListUnit, pattern.data(), pattern.size());
        for (size_t at = 0; at < list.bytes.size(); at += kArgument, argument++) {
            const auto from = list.bytes.begin() + static_cast<ptrdiff_t>(at);
            const size_t bytes = std::min(kArgument, list.bytes.size() - at);
            write_argument(argument, Bytes(from, from + static_cast<ptrdiff_t>(bytes)));
        }
    }
    [[nodiscard]] MaskSte edited(uint8_t count, Number argument) const {
        return mask_ste(to_tir(tir), Actions().pattern(count, kPatternAt, argument));
    }
    [[nodiscard]] std::string written(Number argument) const {
        const auto dump = device->dump();
        for (const auto& row : dump["edit_arguments"])
            if (row["number"] == argument) return row["data"];
        return "";
    }
    void expect_fault(TestSq& queue, const Wqe& wqe, SendFault fault, CqeSyndrome syndrome) {
        post(queue, wqe);
        const auto* const cqe = tx_cq.poll_error(::mlx5::CqeOpcode::req_error);
        ASSERT_NE(cqe, nullptr);
        EXPECT_EQ(cqe->vendor_syndrome, static_cast<uint8_t>(fault));
        EXPECT_EQ(cqe->syndrome, static_cast<uint8_t>(syndrome));
        EXPECT_EQ(written(arguments), "");
        tx_cq.release();
        ASSERT_TRUE(device->destroy_sq(queue.number));
    }
    void expect_fault(const Wqe& wqe, SendFault fault,
                      CqeSyndrome syndrome = CqeSyndrome::local_qp_operation) {
        TestSq queue(*device, rc_of(pd), 6);
        expect_fault(queue, wqe, fault, syndrome);
    }
    [[nodiscard]] SqAttr rc_of(Number in_pd) const {
        SqAttr attr;
        attr.pd = in_pd;
        attr.cqn = tx_cq.number;
        attr.rc = true;
        return attr;
    }

    static constexpr uint32_t kPatternAt = 3; ///< in units of 64 bytes
    uint64_t patterns = 0;
    Number arguments = 0;
    TestSq rc{*device, rc_of(pd), 2}; ///< of four WQEBBs; a write takes two
};

// ---------------------------------------------------------------- writing arguments

TEST_F(SteV1Patterns, AWqeWritesAnArgument) {
    const Bytes data = frames::pattern(kArgument);
    write_argument(arguments + 1, data);
    EXPECT_EQ(written(arguments + 1), fmt::format("{:02x}", fmt::join(data, "")));
    EXPECT_EQ(device->dump()["edit_arguments"].size(), 1u) << "no other";
    write_argument(arguments + 1, {1});
    EXPECT_EQ(written(arguments + 1), "01" + std::string(126, '0'));
}

TEST_F(SteV1Patterns, AWqeMayGoRoundTheEndOfTheRing) {
    post(rc, Wqe(WqeOpcode::nop));
    ASSERT_NE(tx_cq.poll(), nullptr);
    write_argument(arguments, {1});
    write_argument(arguments + 1, frames::pattern(kArgument, 1));
    EXPECT_EQ(written(arguments + 1).substr(0, 2), fmt::format("{:02x}", frames::pattern(1, 1)[0]));
}

TEST_F(SteV1Patterns, WhatIsNoWriteFails) {
    const Bytes data = frames::pattern(kArgument);
    expect_fault(writing(arguments, data, 0), SendFault::bad_opcode);
    expect_fault(writing(arguments, data, 2), SendFault::bad_opcode);
    expect_fault(writing(arguments, frames::pattern(48)), SendFault::bad_ds);
    expect_fault(writing(arguments, frames::pattern(80)), SendFault::bad_ds);
    expect_fault(writing(arguments + 4, data), SendFault::no_argument,
                 CqeSyndrome::local_protection);
    const Number other = *device->alloc_pd();
    TestSq foreign(*device, rc_of(other), 6);
    expect_fault(foreign, writing(arguments, data), SendFault::no_argument,
                 CqeSyndrome::local_protection);
    expect_fault(sq, writing(arguments, data), SendFault::bad_opcode,
                 CqeSyndrome::local_qp_operation);
}

// ---------------------------------------------------------------- entries

TEST_F(SteV1Patterns, ValuesComeFromTheArgument) {
    put_pattern(Actions()
                    .set(0x00, 0, 32, 0x02112233)
                    .set(0x01, 16, 16, 0x4455)
                    .add(kTtlField, 8, 8, 0xff)
                    .copy(kL4Ports, 0, 16, kL4Ports, 16),
                arguments);
    Spec spec, changed;
    changed.dst = {0x02, 0x11, 0x22, 0x33, 0x44, 0x55};
    changed.ttl = static_cast<uint8_t>(spec.ttl - 1);
    changed.dst_port = spec.src_port;
    EXPECT_EQ(passed_by(edited(4, arguments), frames::build(spec)), frames::build(changed));
    // The same pattern with another argument.
    write_argument(arguments + 2, Actions().set(0, 0, 32, 0x02aaaaaa).set(1, 16, 16, 0xbbbb).bytes);
    changed = spec;
    changed.dst = {0x02, 0xaa, 0xaa, 0xaa, 0xbb, 0xbb};
    EXPECT_EQ(passed_by(edited(2, arguments + 2), frames::build(spec)), frames::build(changed));
}

/// Its value when the entry was written does not count.
TEST_F(SteV1Patterns, AnArgumentMayBeWrittenAnew) {
    put_pattern(Actions().set(kTtlField, 8, 8, 9), arguments);
    put_ste(0, edited(1, arguments));
    Spec spec, changed;
    changed.ttl = 9;
    EXPECT_EQ(passed(frames::build(spec)), frames::build(changed));
    write_argument(arguments, {0, 0, 0, 0, 0, 0, 0, 10}); // the pattern has the rest
    changed.ttl = 10;
    EXPECT_EQ(passed(frames::build(spec)), frames::build(changed));
}

TEST_F(SteV1Patterns, LongListsHaveSeveralArguments) {
    Actions list;
    for (uint8_t i = 0; i < 8; i++)
        list.set(kTtlField, 8, 8, i);
    list.set(kL4Ports, 0, 16, 99);
    put_pattern(list, arguments);
    Spec spec, changed;
    changed.ttl = 7;
    EXPECT_EQ(passed_by(edited(8, arguments), frames::build(spec)), frames::build(changed));
    changed.dst_port = 99;
    EXPECT_EQ(passed_by(edited(9, arguments), frames::build(spec)), frames::build(changed));
}

/// As libmlx5 does if a tunnel has no inner L2 header, by a match entry.
TEST_F(SteV1Patterns, HeadersComeAndGo) {
    const Bytes inner = frames::build(Spec{});
    Bytes expected = inner;
    const Bytes l2 = {2, 1, 2, 3, 4, 5, 2, 6, 7, 8, 9, 10, 0x08, 0x00};
    std::copy(l2.begin(), l2.end(), expected.begin());
    put_pattern(put_l2_for_tunnel(l2), arguments);
    const MatchSte entry =
        match_ste(to_tir(tir), Actions().flow_tag(7).pattern(6, kPatternAt, arguments));
    EXPECT_EQ(passed_by(entry, frames::vxlan(1, inner)), expected);
}

TEST_F(SteV1Patterns, WhatIsNotThereLosesThePacket) {
    put_pattern(Actions().set(kTtlField, 8, 8, 9), arguments);
    const uint32_t behind = static_cast<uint32_t>(
        kIcmRanges[static_cast<size_t>(IcmKind::edit_patterns)].bytes() / kArgument);
    const Number freed = *device->create_edit_arguments(pd, 1);
    ASSERT_TRUE(device->destroy_edit_arguments(freed));
    const std::pair<Actions, const char*> bad[] = {
        {Actions().pattern(1, kPatternAt, arguments + 4), "no such argument"},
        {Actions().pattern(9, kPatternAt, arguments + 3), "not as many"},
        {Actions().pattern(1, kPatternAt, 0), "nor that"},
        {Actions().pattern(1, kPatternAt, freed), "it is gone"},
        {Actions().pattern(1, behind, arguments), "the pattern is no memory"},
        {Actions().pattern(9, behind - 1, arguments), "the end of it is not"},
    };
    uint64_t drops = 0;
    for (const auto& [actions, why] : bad) {
        put_ste(0, mask_ste(to_tir(tir), actions));
        receive(frames::build(Spec{}));
        EXPECT_EQ(device->counters().drop_rewrite, ++drops) << why;
    }
    EXPECT_EQ(device->counters().delivered, 0u);
    EXPECT_NE(passed_by(edited(1, arguments), frames::build(Spec{})), Bytes{});
}

} // namespace
