// SPDX-License-Identifier: BSD-3-Clause
// The cost of a packet, a rule or any other object does not grow with the number of others. It is
// measured in CPU time of this thread, as the best of several rounds, and the limits are generous:
// a linear cost would be a hundred times larger, not a few times.
#include "app/softhca/core/send_schedule.hpp"
#include "tests/unit/softhca/testbed.hpp"
#include "tests/unit/softhca/virtq.hpp"

#include <algorithm>
#include <ctime>
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>

namespace testbed {
namespace {

constexpr uint32_t kFew = 64, kMany = 16384;
constexpr double kMostRatio = 8; // caches hold few rules better than many

/// The least CPU time of this thread, in nanoseconds, that the work takes.
double best_time(int rounds, const std::function<void()>& work) {
    const auto now = [] {
        timespec time{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
    };
    double best = 1e18;
    for (int i = 0; i < rounds; i++) {
        const double begin = now();
        work();
        best = std::min(best, now() - begin);
    }
    return best;
}

class Scale : public Testbed {
  protected:
    static constexpr size_t kFrames = 2000;
    uint32_t rules = 0;

    /// Costs among few objects, and among many.
    static void expect_flat(double few, double many) {
        EXPECT_LT(many, kMostRatio * few);
        RecordProperty("ratio", std::to_string(many / few));
    }
    /// `make(count)` adds objects; `come_and_go` adds some and removes them again.
    static void expect_same_cost(uint32_t few, uint32_t many,
                                 const std::function<void(uint32_t)>& make,
                                 const std::function<void()>& come_and_go) {
        make(few);
        const double among_few = best_time(10, come_and_go);
        make(many - few);
        expect_flat(among_few, best_time(10, come_and_go));
    }
    void fall_asleep() {
        for (int i = 0; i < kPatience + 2; i++)
            device->poll();
    }
    /// Polls like a thread that does not sleep between rounds.
    std::function<void()> rounds = [this] {
        for (int i = 0; i < 1000; i++)
            device->poll(false);
    };
    [[nodiscard]] static Bytes address_of(uint32_t rule) {
        return {10, static_cast<uint8_t>(rule >> 16), static_cast<uint8_t>(rule >> 8),
                static_cast<uint8_t>(rule)};
    }
    /// Adds rules for IPv4 destination addresses 10.0.0.0 + n until there are `count`.
    void make_rules(uint32_t count) {
        FlowAttr attr;
        attr.drop = true;
        attr.mask.outer.ip_version = 0xff;
        attr.value.outer.ip_version = 4;
        std::fill(attr.mask.outer.dst_ip.begin() + 12, attr.mask.outer.dst_ip.end(), uint8_t{0xff});
        for (; rules < count; rules++) {
            const Bytes address = address_of(rules);
            std::copy(address.begin(), address.end(), attr.value.outer.dst_ip.begin() + 12);
            ASSERT_TRUE(device->create_flow(attr)) << rules;
        }
    }
    /// Best time for kFrames frames that hit rules all over the table.
    double frames_time() {
        const uint64_t before = device->counters().drop_rule;
        constexpr int kRounds = 10;
        std::deque<Bytes> frames;
        for (uint32_t i = 0; i < kFrames; i++)
            frames.push_back(frames::build({.dst_ip = address_of(i * 7919 % rules)}));
        const double best = best_time(kRounds, [&] {
            wire->incoming = frames;
            run();
        });
        EXPECT_EQ(device->counters().drop_rule - before, kRounds * kFrames);
        return best;
    }
};

TEST_F(Scale, APacketCostsTheSameAmongManyRules) {
    make_rules(kFew);
    const double few = frames_time();
    make_rules(kMany);
    const double many = frames_time();
    expect_flat(few, many);
}

/// Counted, not timed: a packet costs one hash table lookup per mask, however many rules there are.
TEST_F(Scale, LookupsDependOnTheMasksOnly) {
    const auto cost = [this](const char* what) {
        return device->stats()["steering"][what].get<uint64_t>();
    };
    // Rules with two more masks, which match nothing.
    FlowAttr other;
    other.drop = true;
    other.mask.tunnel.vxlan_vni = other.value.tunnel.vxlan_vni = 0xffffff;
    ASSERT_TRUE(device->create_flow(other));
    other.mask.inner.dst_port = other.value.inner.dst_port = 0xffff;
    ASSERT_TRUE(device->create_flow(other));
    constexpr uint32_t kMasks = 3;
    const auto frame_costs = [&] {
        const uint64_t lookups = cost("lookups"), probes = cost("probes");
        for (uint32_t i = 0; i < kFrames; i++)
            wire->incoming.push_back(frames::build({.dst_ip = address_of(i * 7919 % rules)}));
        const uint64_t before = device->counters().drop_rule;
        run();
        EXPECT_EQ(device->counters().drop_rule - before, kFrames);
        return std::pair(cost("lookups") - lookups, cost("probes") - probes);
    };
    make_rules(10);
    EXPECT_LE(frame_costs().first, kFrames * kMasks);
    make_rules(100'000);
    const auto [lookups, probes] = frame_costs();
    EXPECT_LE(lookups, kFrames * kMasks);
    EXPECT_LE(probes, 2 * kFrames * kMasks) << "tables are at most half full";
}

TEST_F(Scale, ARuleCostsTheSameAmongManyRules) {
    const auto add = [this] { make_rules(rules + 500); };
    const double early = best_time(4, add);
    make_rules(kMany);
    const double late = best_time(4, add);
    expect_flat(early, late);
}

TEST_F(Scale, APacketCostsTheSameAmongManyQueues) {
    make_rules(kFew);
    const double alone = frames_time();
    TestCq cq(*device, 4);
    std::vector<std::unique_ptr<TestSq>> sqs;
    std::vector<std::unique_ptr<TestRq>> rqs;
    for (int i = 0; i < 512; i++) {
        sqs.push_back(std::make_unique<TestSq>(*device, pd, cq.number, uint8_t{2}));
        rqs.push_back(std::make_unique<TestRq>(*device, pd, cq.number));
    }
    const double among_many = frames_time();
    expect_flat(alone, among_many);
}

/// Those of QPs that a program has created but does not use now.
TEST_F(Scale, ARoundCostsTheSameAmongManyIdleQueues) {
    const auto page = std::make_shared<Pages>(mlx5_rings::kUarBytes);
    const TestCq cq(*device, 4, &listener, true);
    std::vector<std::unique_ptr<TestSq>> sqs;
    std::vector<std::unique_ptr<TestRq>> rqs;
    SqAttr attr;
    attr.pd = pd;
    attr.cqn = cq.number;
    attr.registers = mlx5_rings::send_registers(page->data(), page);
    const auto make = [&](size_t count) {
        while (sqs.size() < count) {
            sqs.push_back(std::make_unique<TestSq>(*device, attr, uint8_t{2}));
            rqs.push_back(std::make_unique<TestRq>(*device, pd, cq.number));
        }
        fall_asleep();
    };
    make(8);
    const double few = best_time(10, rounds);
    make(4000);
    expect_flat(few, best_time(10, rounds));
    for (const auto& sq : sqs)
        EXPECT_TRUE(device->destroy_sq(sq->number));
}

/// SQs, RC or not, without shared registers, so that only their records can tell; and CQs that
/// nobody arms.
TEST_F(Scale, ARoundCostsTheSameAmongWhatIsLookedAtInTurns) {
    std::deque<TestCq> cqs;
    std::vector<std::unique_ptr<TestSq>> sqs;
    const auto make = [&](size_t count) {
        while (cqs.size() < count) {
            const TestCq& cq = cqs.emplace_back(*device, 2, &listener, true);
            SqAttr attr;
            attr.pd = pd;
            attr.cqn = cq.number;
            attr.rc = cqs.size() % 2 == 0;
            sqs.push_back(std::make_unique<TestSq>(*device, attr, uint8_t{2}));
        }
        fall_asleep();
    };
    make(16);
    const double few = best_time(10, rounds);
    make(4000);
    expect_flat(few, best_time(10, rounds));
    for (const auto& sq : sqs)
        EXPECT_TRUE(device->destroy_sq(sq->number));
}

/// Those of a driver that has many and uses few. All share one ring, to which nothing is posted.
TEST_F(Scale, ARoundCostsTheSameAmongManyIdleVirtioQueues) {
    VirtqAttr attr = DriverRing(memory_at(0)).attr(true);
    attr.pd = pd;
    attr.lkey = lkey;
    size_t queues = 0;
    const auto make = [&](size_t count) {
        for (; queues < count; queues++)
            ASSERT_TRUE(
                device->modify_virtq(device->create_virtq(attr).value(), VirtqState::ready));
        fall_asleep();
    };
    make(8);
    const double few = best_time(10, rounds);
    make(256);
    expect_flat(few, best_time(10, rounds));
}

/// They are notified when their peers have packets.
TEST_F(Scale, ARoundCostsTheSameAmongManyIdleHairpins) {
    constexpr HairpinSize kSize{.log_packets = 0, .log_bytes = 11};
    size_t pairs = 0;
    const auto make = [&](size_t count) {
        for (; pairs < count; pairs++) {
            const Number receives = device->create_hairpin_rq({.size = kSize}).value();
            const Number sends = device->create_hairpin_sq({.size = kSize}).value();
            ASSERT_TRUE(device->modify_sq(sends, QueueState::ready, receives));
            ASSERT_TRUE(device->modify_rq(receives, QueueState::ready, sends));
        }
        fall_asleep();
    };
    make(8);
    const double few = best_time(10, rounds);
    make(1024);
    expect_flat(few, best_time(10, rounds));
}

TEST_F(Scale, AQueuePairCostsTheSameAmongManyQueues) {
    constexpr uint32_t kFewQueues = 64, kManyQueues = 4000;
    const TestCq cq(*device, 4);
    Pages ring{4096};
    std::deque<mlx5::QueueDoorbell> records;
    std::vector<std::pair<Number, Number>> pairs;
    const auto make = [&](uint32_t count) {
        while (count--) {
            mlx5::QueueDoorbell& record = records.emplace_back();
            SqAttr sq_attr;
            sq_attr.pd = pd;
            sq_attr.cqn = cq.number;
            sq_attr.ring = ring.area();
            sq_attr.doorbell = softhca::core::mlx5_rings::send_doorbell(&record);
            sq_attr.log_wqebbs = 6;
            RqAttr rq_attr;
            rq_attr.pd = pd;
            rq_attr.cqn = cq.number;
            rq_attr.ring = ring.area();
            rq_attr.doorbell = softhca::core::mlx5_rings::receive_doorbell(&record);
            rq_attr.log_wqes = 6;
            rq_attr.log_wqe_bytes = 4;
            pairs.emplace_back(device->create_sq(sq_attr).value(),
                               device->create_rq(rq_attr).value());
        }
    };
    const auto destroy = [&](size_t count) {
        for (; count--; pairs.pop_back()) {
            ASSERT_TRUE(device->destroy_sq(pairs.back().first));
            ASSERT_TRUE(device->destroy_rq(pairs.back().second));
        }
    };
    const auto come_and_go = [&] {
        make(64);
        destroy(64);
    };
    expect_same_cost(kFewQueues, kManyQueues, make, come_and_go);
}

TEST_F(Scale, RangesOfObjectsCostTheSameAmongManyRanges) {
    std::vector<Number> made;
    const auto make = [&](uint32_t count) {
        while (count--)
            made.push_back(device->create_edit_arguments(pd, 1).value());
    };
    const auto come_and_go = [&] {
        make(64);
        for (size_t i = 0; i < 64; i++, made.pop_back())
            ASSERT_TRUE(device->destroy_edit_arguments(made.back()));
    };
    expect_same_cost(kFew, kMany, make, come_and_go);
}

/// Entries that match the same, such as a rule and its replacement, do not slow down others.
TEST_F(Scale, AnEntryCostsTheSameAmongManyEntries) {
    const Number table = *device->create_flow_table({.level = 0, .log_size = 16});
    FlowKey mask;
    mask.outer.dst_port = 0xffff;
    const Number group =
        *device->create_flow_group(table, {.first = 0, .last = 0xffff, .mask = mask});
    const auto set = [&](uint32_t index, uint32_t port) {
        FlowEntryAttr entry{.group = group, .drop = true};
        entry.value.outer.dst_port = static_cast<uint16_t>(port);
        ASSERT_TRUE(device->set_flow_entry(table, index, entry));
    };
    uint32_t entries = 0;
    const auto make = [&](uint32_t count) {
        for (const uint32_t end = entries + count; entries < end; entries++)
            set(entries, entries);
    };
    constexpr uint32_t kAlike = 0xffff;
    set(kAlike, 0);
    const auto come_and_go = [&] {
        make(64);
        for (size_t i = 0; i < 64; i++)
            ASSERT_TRUE(device->delete_flow_entry(table, --entries));
    };
    expect_same_cost(kFew, kMany, make, come_and_go);
}

} // namespace
} // namespace testbed
