// SPDX-License-Identifier: BSD-3-Clause
// Control calls: what depends on what, what is refused and why.
#include "app/softhca/core/mkey.hpp"
#include "tests/unit/softhca/refusal.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <malloc.h>
#include <nlohmann/json.hpp>
#include <set>

namespace testbed {
namespace {

class Objects : public Testbed {
  protected:
    CqAttr cq_attr() {
        CqAttr attr;
        attr.ring = pages.area();
        attr.doorbell = cq_doorbell(&cq_record);
        attr.log_entries = 4;
        return attr;
    }
    RqAttr rq_attr() {
        RqAttr attr;
        attr.pd = pd;
        attr.cqn = rx_cq.number;
        attr.ring = pages.area();
        attr.doorbell = receive_doorbell(&doorbell);
        attr.log_wqes = 4;
        attr.log_wqe_bytes = 4;
        return attr;
    }
    SqAttr sq_attr() {
        SqAttr attr;
        attr.pd = pd;
        attr.cqn = tx_cq.number;
        attr.ring = pages.area();
        attr.doorbell = send_doorbell(&doorbell);
        attr.log_wqebbs = 4;
        return attr;
    }
    Pages pages{64 * 1024};
    mlx5::CqDoorbell cq_record{};
    mlx5::QueueDoorbell doorbell{};
};

TEST_F(Objects, InUseMeansBusy) {
    const Number tir = direct_tir(rq);
    FlowAttr attr;
    attr.tirs = {tir};
    const Number flow = device->create_flow(attr).value();
    const std::array rqns{rq.number, rq.number};
    const Number rqt = device->create_rqt(rqns).value();
    TirAttr spread;
    spread.rqt = rqt;
    const Number rss_tir = device->create_tir(spread).value();

    EXPECT_EQ(refusal(device->destroy_tir(tir)), Status::busy);
    EXPECT_EQ(refusal(device->destroy_rq(rq.number)), Status::busy);
    EXPECT_EQ(refusal(device->destroy_rqt(rqt)), Status::busy);
    EXPECT_EQ(refusal(device->destroy_cq(rx_cq.number)), Status::busy);
    EXPECT_EQ(refusal(device->destroy_cq(tx_cq.number)), Status::busy);
    EXPECT_EQ(refusal(device->dealloc_pd(pd)), Status::busy);

    EXPECT_TRUE(device->destroy_flow(flow));
    EXPECT_TRUE(device->destroy_tir(tir));
    EXPECT_EQ(refusal(device->destroy_rq(rq.number)), Status::busy);
    EXPECT_TRUE(device->destroy_tir(rss_tir));
    EXPECT_TRUE(device->destroy_rqt(rqt));
    EXPECT_TRUE(device->destroy_rq(rq.number));
    EXPECT_TRUE(device->destroy_cq(rx_cq.number));
    EXPECT_TRUE(device->destroy_sq(sq.number));
    EXPECT_TRUE(device->destroy_cq(tx_cq.number));
    EXPECT_EQ(refusal(device->dealloc_pd(pd)), Status::busy);
    EXPECT_TRUE(device->destroy_mkey(lkey));
    EXPECT_TRUE(device->dealloc_pd(pd));
    const nlohmann::json objects = device->stats()["objects"];
    for (const auto& [kind, count] : objects.items())
        EXPECT_EQ(count, 0) << kind;
}

TEST_F(Objects, UnknownNumbers) {
    const Number none = 0xfffff0;
    EXPECT_EQ(refusal(device->dealloc_pd(none)), Status::bad_resource);
    EXPECT_EQ(refusal(device->destroy_cq(none)), Status::bad_resource);
    EXPECT_EQ(refusal(device->destroy_sq(none)), Status::bad_resource);
    EXPECT_EQ(refusal(device->destroy_rq(none)), Status::bad_resource);
    EXPECT_EQ(refusal(device->destroy_rqt(none)), Status::bad_resource);
    EXPECT_EQ(refusal(device->destroy_tir(none)), Status::bad_resource);
    EXPECT_EQ(refusal(device->destroy_flow(none)), Status::bad_resource);
    EXPECT_EQ(refusal(device->destroy_mkey(none)), Status::bad_resource);
    EXPECT_EQ(refusal(device->destroy_mkey(0xffffffff)), Status::bad_resource);
    EXPECT_EQ(refusal(device->modify_sq(none, QueueState::ready)), Status::bad_resource);
    EXPECT_EQ(refusal(device->modify_rq(none, QueueState::ready)), Status::bad_resource);
    EXPECT_EQ(refusal(device->modify_rq_vlan_strip(none, true)), Status::bad_resource);
    EXPECT_EQ(refusal(device->query_sq(none)), Status::bad_resource);
    EXPECT_EQ(refusal(device->query_rq(none)), Status::bad_resource);
    EXPECT_EQ(refusal(device->sq_counters(none)), Status::bad_resource);
    EXPECT_EQ(refusal(device->rq_counters(none)), Status::bad_resource);
    EXPECT_EQ(refusal(device->modify_rqt(none, {})), Status::bad_resource);
    EXPECT_EQ(refusal(device->destroy_sq(rq.number)), Status::bad_resource) << "an RQ is no SQ";
    EXPECT_EQ(refusal(device->destroy_flow(0)), Status::bad_resource);
}

TEST_F(Objects, CqAttributes) {
    CqAttr attr = cq_attr();
    attr.log_entries = Limits::kLogMaxCqEntries + 1;
    EXPECT_EQ(refusal(device->create_cq(attr)), Status::limit);
    attr = cq_attr();
    attr.cqe_size = 96;
    EXPECT_EQ(refusal(device->create_cq(attr)), Status::bad_parameter);
    attr = cq_attr();
    attr.log_entries = 11; // 128 KiB, but the ring has 64
    EXPECT_EQ(refusal(device->create_cq(attr)), Status::bad_parameter);
    attr = cq_attr();
    attr.doorbell = {};
    EXPECT_EQ(refusal(device->create_cq(attr)), Status::bad_parameter);
    attr = cq_attr();
    attr.ring = DmaArea::contiguous(pages.data() + 8, 4096);
    EXPECT_EQ(refusal(device->create_cq(attr)), Status::bad_parameter);
    attr = cq_attr();
    attr.ring = DmaArea();
    EXPECT_EQ(refusal(device->create_cq(attr)), Status::bad_parameter);
}

TEST_F(Objects, QueueAttributes) {
    SqAttr send = sq_attr();
    send.log_wqebbs = Limits::kLogMaxWqebbs + 1;
    EXPECT_EQ(refusal(device->create_sq(send)), Status::limit);
    send = sq_attr();
    send.pd = 0xfffff0;
    EXPECT_EQ(refusal(device->create_sq(send)), Status::bad_resource);
    send = sq_attr();
    send.cqn = rq.number;
    EXPECT_EQ(refusal(device->create_sq(send)), Status::bad_resource);
    send = sq_attr();
    send.log_wqebbs = 11;
    EXPECT_EQ(refusal(device->create_sq(send)), Status::bad_parameter);

    RqAttr receive = rq_attr();
    receive.log_wqes = Limits::kLogMaxRqWqes + 1;
    EXPECT_EQ(refusal(device->create_rq(receive)), Status::limit);
    for (const uint8_t log_bytes : {0, 3, 11, 255}) {
        receive = rq_attr();
        receive.log_wqe_bytes = log_bytes;
        EXPECT_EQ(refusal(device->create_rq(receive)), Status::bad_parameter) << int{log_bytes};
    }
    receive = rq_attr();
    receive.striding = StridingAttr{.log_strides = 4, .log_stride_bytes = 7};
    EXPECT_EQ(refusal(device->create_rq(receive)), Status::bad_parameter)
        << "no room for a next segment";
    receive.log_wqe_bytes = 5;
    receive.striding->log_stride_bytes = Limits::kLogMinStrideBytes - 1;
    EXPECT_EQ(refusal(device->create_rq(receive)), Status::bad_parameter);
    receive.striding->log_stride_bytes = 7;
    receive.striding->log_strides = Limits::kLogMaxStrides + 1;
    EXPECT_EQ(refusal(device->create_rq(receive)), Status::bad_parameter);
}

TEST_F(Objects, SpreadAttributes) {
    EXPECT_EQ(refusal(device->create_rqt({})), Status::bad_parameter);
    const std::vector<Number> three(3, rq.number), many(2 * Limits::kMaxRqtSize, rq.number),
        unknown{rq.number, 0};
    EXPECT_EQ(refusal(device->create_rqt(three)), Status::bad_parameter);
    EXPECT_EQ(refusal(device->create_rqt(many)), Status::limit);
    EXPECT_EQ(refusal(device->create_rqt(unknown)), Status::bad_resource);
    TirAttr tir;
    EXPECT_EQ(refusal(device->create_tir(tir)), Status::bad_parameter);
    tir.rqn = rq.number;
    tir.rqt = rq.number;
    EXPECT_EQ(refusal(device->create_tir(tir)), Status::bad_parameter);
    tir.rqn = 0;
    EXPECT_EQ(refusal(device->create_tir(tir)), Status::bad_resource);
}

TEST_F(Objects, FlowAttributes) {
    FlowAttr flow;
    EXPECT_EQ(refusal(device->create_flow(flow)), Status::bad_parameter)
        << "neither drop nor destination";
    flow.tirs = {0xfffff0};
    EXPECT_EQ(refusal(device->create_flow(flow)), Status::bad_resource);
    flow.tirs = {direct_tir(rq)};
    flow.drop = true;
    EXPECT_EQ(refusal(device->create_flow(flow)), Status::bad_parameter);
    flow.drop = false;
    flow.priority = Limits::kMulticastPriority + 1;
    EXPECT_EQ(refusal(device->create_flow(flow)), Status::bad_parameter);
    flow.priority = 15;
    flow.tag = 0x1000000;
    EXPECT_EQ(refusal(device->create_flow(flow)), Status::bad_parameter);
    flow.tag = 0xffffff;
    EXPECT_TRUE(device->create_flow(flow));
    // Bits outside the mask are not part of a rule: this one equals the first except for its tag.
    flow.value.outer.dst_port = 99;
    flow.tag = 1;
    EXPECT_EQ(refusal(device->create_flow(flow)), Status::exists);
}

/// Fronts announce these limits, and pass on the device's status when one more object is created.
TEST_F(Objects, ThereAreAsManyAsTheLimitsSay) {
    const auto fill = [](const auto& create) {
        for (size_t made = 0;; made++)
            if (const auto one = create(); !one) return std::pair(made, one.error());
    };
    const auto left = [](uint8_t log_most, size_t used) {
        return std::pair((size_t{1} << log_most) - used, Status::limit);
    };
    const std::array one{rq.number};
    TirAttr tir;
    tir.rqn = rq.number;
    EXPECT_EQ(fill([&] { return device->create_sq(sq_attr()); }), left(Limits::kLogMaxSqs, 1));
    EXPECT_EQ(fill([&] { return device->create_rqt(one); }), left(Limits::kLogMaxRqts, 0));
    EXPECT_EQ(fill([&] { return device->create_tir(tir); }), left(Limits::kLogMaxTirs, 0));
    EXPECT_EQ(fill([&] { return device->alloc_pd(); }), left(Limits::kLogMaxPds, 1));
    EXPECT_EQ(fill([&] { return device->create_cq(cq_attr()); }), left(Limits::kLogMaxCqs, 2));
}

TEST_F(Objects, NumbersAreUniqueAndFit24Bits) {
    std::set<Number> seen{pd, tx_cq.number, rx_cq.number, sq.number, rq.number};
    EXPECT_EQ(seen.size(), 5u);
    for (int i = 0; i < 1000; i++) {
        const Number number = device->alloc_pd().value();
        EXPECT_TRUE(seen.insert(number).second);
        EXPECT_NE(number, 0u);
        EXPECT_LE(number, 0xffffffu);
    }
}

/// A prepared key takes tens of kilobytes.
TEST_F(Objects, KeysThatNoTirHashesByAnyMoreTakeNoMemory) {
    TirAttr attr;
    attr.rqn = rq.number;
    attr.fields.src_ip = true;
    const Number tir = device->create_tir(attr).value();
    const size_t before = mallinfo2().uordblks;
    for (uint8_t key = 1; key <= 100; key++) {
        attr.toeplitz_key.fill(key);
        ASSERT_TRUE(device->modify_tir(tir, attr));
    }
    EXPECT_LT(mallinfo2().uordblks, before + 200'000);
}

TEST_F(Objects, Mkeys) {
    MkeyAttr attr{
        .pd = pd, .iova = 0, .length = 4096, .memory = DmaArea::contiguous(memory.data(), 4095)};
    EXPECT_EQ(refusal(device->create_mkey(attr)), Status::bad_parameter)
        << "longer than its memory";
    attr.memory = DmaArea::contiguous(memory.data(), 4096);
    attr.iova = ~0ull - 100;
    EXPECT_EQ(refusal(device->create_mkey(attr)), Status::bad_parameter) << "wraps around";
    attr.iova = 0;
    attr.pd = 0xfffff0;
    EXPECT_EQ(refusal(device->create_mkey(attr)), Status::bad_resource);
    attr.pd = pd;
    // Destroyed keys are not reused soon, and no key is ever MLX5_INVALID_LKEY.
    std::set<uint32_t> seen{lkey};
    for (int i = 0; i < 200000; i++) {
        const uint32_t key = device->create_mkey(attr).value();
        ASSERT_TRUE(seen.insert(key).second);
        ASSERT_NE(key, mlx5::kInvalidLkey);
        ASSERT_TRUE(device->destroy_mkey(key));
    }
}

TEST(MkeyTable, Full) {
    MkeyTable table;
    std::byte byte{};
    const MkeyAttr attr{.pd = 1, .length = 1, .memory = DmaArea::contiguous(&byte, 1)};
    size_t count = 0;
    while (table.insert(attr) != 0)
        count++;
    EXPECT_EQ(count, MkeyTable::kEntries - 2);
    EXPECT_EQ(table.size(), count);
}

TEST_F(Objects, StatsAreComplete) {
    steer_all(rq);
    post_buffers(rq, 2);
    wire->incoming.push_back(frames::build({}));
    run();
    const nlohmann::json stats = device->stats();
    EXPECT_EQ(stats["device"], "mlx5_0");
    EXPECT_EQ(stats["mac"], "02:15:b3:00:00:01");
    EXPECT_EQ(stats["mtu"], 1500);
    EXPECT_EQ(stats["link_up"], true);
    EXPECT_EQ(stats["counters"]["delivered"], 1);
    EXPECT_EQ(stats["counters"].size(), sizeof(PortCounters) / sizeof(uint64_t));
    EXPECT_EQ(stats["objects"]["flows"], 1);
    ASSERT_EQ(stats["rqs"].size(), 1u);
    EXPECT_EQ(stats["rqs"][0]["number"], rq.number);
    EXPECT_EQ(stats["rqs"][0]["packets"], 1);
    EXPECT_EQ(stats["rqs"][0]["state"], "ready");
    EXPECT_EQ(stats["rqs"][0]["pending"], 1);
    ASSERT_EQ(stats["sqs"].size(), 1u);
    EXPECT_EQ(stats["sqs"][0]["cq"], tx_cq.number);
}

} // namespace
} // namespace testbed
