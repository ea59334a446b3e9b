// SPDX-License-Identifier: BSD-3-Clause
// Flow objects have an owner, and counters come in bulks.
#include "tests/unit/prm/flow_requests.hpp"
#include "tests/unit/prm/header_requests.hpp"
#include "tests/unit/prm/object_requests.hpp"
#include "tests/unit/prm/users.hpp"

#include <atomic>
#include <thread>

namespace prm_test {
namespace {

constexpr uint32_t kForward = MLX5_FLOW_CONTEXT_ACTION_FWD_DEST;

class FlowObjectsTest : public TransportTest {
  protected:
    FlowObjectsTest() {
        first = made(by(mine, table_request(1)));
        second = made(by(mine, table_request(2)));
        group = made(by(mine, group_request(first)));
    }
    /// An entry of the first table that leads to this one.
    Request entry_request(Number to, Number counter = 0) {
        return prm_test::entry_request(first, group, to, counter);
    }
    Number counters(uint16_t uid, uint64_t bulk) {
        return run(by(uid, REQUEST(ALLOC_FLOW_COUNTER, alloc_flow_counter)
                               .set(PRM(alloc_flow_counter_in, flow_counter_bulk), bulk)))
            .get(PRM(alloc_flow_counter_out, flow_counter_id));
    }
    static Request query(Number counter, uint64_t count = 0) {
        return REQUEST(QUERY_FLOW_COUNTER, query_flow_counter)
            .set(PRM(query_flow_counter_in, flow_counter_id), counter)
            .set(PRM(query_flow_counter_in, num_of_counters), count);
    }
    static Request release(Number counter) {
        return REQUEST(DEALLOC_FLOW_COUNTER, dealloc_flow_counter)
            .set(PRM(dealloc_flow_counter_in, flow_counter_id), counter);
    }
    Number first = 0, second = 0, group = 0;
};

TEST_P(FlowObjectsTest, EntriesMayIgnoreLevels) {
    EXPECT_EQ(status(by(mine, entry_request(first))), FwStatus::bad_parameter);
    EXPECT_EQ(status(by(mine, entry_request(first).set(PRM(set_fte_in, ignore_flow_level), 1))),
              FwStatus::ok);
}

TEST_P(FlowObjectsTest, TablesAreTheirUsers) {
    const auto table = [&](Request request, Field at) { return by(other, request.set(at, first)); };
    for (const Request& command :
         {table(REQUEST(QUERY_FLOW_TABLE, query_flow_table), PRM(query_flow_table_in, table_id)),
          table(REQUEST(DESTROY_FLOW_TABLE, destroy_flow_table),
                PRM(destroy_flow_table_in, table_id)),
          table(REQUEST(MODIFY_FLOW_TABLE, modify_flow_table)
                    .set(PRM(modify_flow_table_in, modify_field_select),
                         MLX5_MODIFY_FLOW_TABLE_MISS_TABLE_ID),
                PRM(modify_flow_table_in, table_id)),
          by(other, group_request(first)), by(other, entry_request(second)),
          table(REQUEST(DELETE_FLOW_TABLE_ENTRY, delete_fte), PRM(delete_fte_in, table_id)),
          table(REQUEST(QUERY_FLOW_TABLE_ENTRY, query_fte), PRM(query_fte_in, table_id)),
          by(other, REQUEST(DESTROY_FLOW_GROUP, destroy_flow_group)
                        .set(PRM(destroy_flow_group_in, table_id), first)
                        .set(PRM(destroy_flow_group_in, group_id), group))})
        EXPECT_EQ(status(command), FwStatus::bad_resource)
            << std::hex << net::load_be<uint16_t>(command.in.data());
    EXPECT_EQ(status(by(mine, entry_request(second))), FwStatus::ok);
}

TEST_P(FlowObjectsTest, EntriesNameWhatTheirOwnerHas) {
    const Number foreign = made(by(other, table_request(3)));
    EXPECT_EQ(status(by(mine, entry_request(foreign))), FwStatus::bad_resource);
    EXPECT_EQ(status(by(mine, entry_request(second, counters(other, 0)))), FwStatus::bad_resource);
    constexpr Field kContext = PRM(set_fte_in, flow_context);
    const Request edits = edits_request().page(set_ttl(0));
    const Number not_mine =
        run(by(other, edits)).get(PRM(alloc_modify_header_context_out, modify_header_id));
    const auto editing = [&](Number context) {
        return by(mine, entry_request(second)
                            .set(inside(kContext, PRM(flow_context, action)),
                                 kForward | MLX5_FLOW_CONTEXT_ACTION_MOD_HDR)
                            .set(inside(kContext, PRM(flow_context, modify_header_id)), context));
    };
    EXPECT_EQ(status(editing(not_mine)), FwStatus::bad_resource);
    EXPECT_EQ(status(by(0, editing(0))), FwStatus::bad_resource) << "there is no context 0";
    EXPECT_EQ(status(by(mine, REQUEST(DEALLOC_MODIFY_HEADER_CONTEXT, dealloc_modify_header_context)
                                  .set(PRM(dealloc_modify_header_context_in, modify_header_id),
                                       not_mine))),
              FwStatus::bad_resource);
    EXPECT_EQ(status(by(0, editing(not_mine))), FwStatus::ok) << "the driver sees everything";
}

TEST_P(FlowObjectsTest, CountersComeInBulks) {
    constexpr uint64_t kFour = 4, kUnknown = 0x80;
    EXPECT_EQ(status(REQUEST(ALLOC_FLOW_COUNTER, alloc_flow_counter)
                         .set(PRM(alloc_flow_counter_in, flow_counter_bulk), kUnknown)),
              FwStatus::bad_parameter);
    const Number bulk = counters(mine, kFour), next = counters(mine, 0);
    const uint32_t size = kFour * kCounterBulk;
    EXPECT_FALSE(bulk <= next && next < bulk + size) << "a number of its own";
    EXPECT_EQ(status(by(mine, query(bulk + size - 1))), FwStatus::ok);
    EXPECT_EQ(status(by(other, query(bulk + size - 1))), FwStatus::bad_resource);
    EXPECT_EQ(status(by(mine, release(bulk + 1))), FwStatus::bad_resource) << "all at once";
    ASSERT_EQ(status(by(mine, entry_request(second, bulk + size - 1))), FwStatus::ok);
    EXPECT_EQ(status(by(mine, release(bulk))), FwStatus::resource_busy);
    EXPECT_EQ(status(by(mine, REQUEST(DELETE_FLOW_TABLE_ENTRY, delete_fte)
                                  .set(PRM(delete_fte_in, table_id), first))),
              FwStatus::ok);
    EXPECT_EQ(status(by(mine, release(bulk))), FwStatus::ok);
    EXPECT_EQ(status(by(mine, query(bulk))), FwStatus::bad_resource);
    EXPECT_EQ(status(by(mine, query(next))), FwStatus::ok);
}

Request about_sampler(uint16_t opcode, Number number) {
    return about_object(opcode, number, MLX5_GENERAL_OBJECT_TYPES_SAMPLER);
}

TEST_P(FlowObjectsTest, SamplersAreGeneralObjects) {
    constexpr uint64_t kToSampler = MLX5_IFC_FLOW_DESTINATION_TYPE_FLOW_SAMPLER;
    EXPECT_EQ(status(by(mine, sampler_request(second, 0))), FwStatus::bad_parameter);
    EXPECT_EQ(status(by(other, sampler_request(second, 5))), FwStatus::bad_resource);
    const Number sampler = made(by(mine, sampler_request(second, 5)));
    const auto query = about_sampler(MLX5_CMD_OP_QUERY_GENERAL_OBJECT, sampler);
    EXPECT_EQ(status(by(other, query)), FwStatus::bad_resource);
    const Answer answer = run(by(mine, query));
    constexpr Field kRatio = PRM(sampler_obj, sample_ratio),
                    kTable = PRM(sampler_obj, sample_table_id);
    constexpr size_t kHead = 8 * PRM_BYTES(general_obj_out_cmd_hdr);
    EXPECT_EQ(answer.get({kHead + kRatio.offset, kRatio.width}), 5u);
    EXPECT_EQ(answer.get({kHead + kTable.offset, kTable.width}), second);

    Request entry = entry_request(sampler);
    entry.in[entry.in.size() - 8] = kToSampler;
    const auto destroy = about_sampler(MLX5_CMD_OP_DESTROY_GENERAL_OBJECT, sampler);
    ASSERT_EQ(status(by(mine, entry)), FwStatus::ok);
    EXPECT_EQ(status(by(mine, destroy)), FwStatus::resource_busy);
    ASSERT_EQ(status(by(mine, REQUEST(DELETE_FLOW_TABLE_ENTRY, delete_fte)
                                  .set(PRM(delete_fte_in, table_id), first))),
              FwStatus::ok);
    const auto destroy_table = REQUEST(DESTROY_FLOW_TABLE, destroy_flow_table)
                                   .set(PRM(destroy_flow_table_in, table_id), second);
    EXPECT_EQ(status(by(mine, destroy_table)), FwStatus::resource_busy);
    EXPECT_EQ(status(by(other, destroy)), FwStatus::bad_resource);
    EXPECT_EQ(status(by(mine, destroy)), FwStatus::ok);
    EXPECT_EQ(status(by(mine, query)), FwStatus::bad_resource);
    EXPECT_EQ(status(by(mine, entry)), FwStatus::bad_resource);
    EXPECT_EQ(status(by(mine, destroy_table)), FwStatus::ok);
}

TEST_P(FlowObjectsTest, SamplersAreOfTheKindOfTheirTables) {
    constexpr uint64_t kReceives = 0, kSends = 1, kSniffs = 5;
    const auto table = [&](uint64_t type) {
        return made(by(mine, table_request(3).set(PRM(create_flow_table_in, table_type), type)));
    };
    const auto sampler = [&](Number of, uint64_t type) {
        return by(mine,
                  sampler_request(of, 5).set(inside(PRM(create_sampler_obj_in, sampler_object),
                                                    PRM(sampler_obj, table_type)),
                                             type));
    };
    const Number sending = table(kSends);
    EXPECT_EQ(status(sampler(table(kSniffs), kReceives)), FwStatus::bad_parameter);
    EXPECT_EQ(status(sampler(second, kSends)), FwStatus::bad_parameter);
    EXPECT_EQ(status(sampler(sending, kReceives)), FwStatus::bad_parameter);
    for (const auto& [of, type] : {std::pair{second, kReceives}, {sending, kSends}}) {
        const Answer answer =
            run(by(mine, about_sampler(MLX5_CMD_OP_QUERY_GENERAL_OBJECT, made(sampler(of, type)))));
        const auto has = [&](Field address) { // its low word
            constexpr size_t kHead = 8 * PRM_BYTES(general_obj_out_cmd_hdr);
            return answer.get({kHead + address.offset + 32, 32}) != 0;
        };
        EXPECT_EQ(has(PRM(sampler_obj, sw_steering_icm_address_rx)), type == kReceives);
        EXPECT_EQ(has(PRM(sampler_obj, sw_steering_icm_address_tx)), type == kSends);
    }
}

TEST_P(FlowObjectsTest, OtherGeneralObjectsAreUnknown) {
    for (const uint16_t opcode :
         {MLX5_CMD_OP_CREATE_GENERAL_OBJECT, MLX5_CMD_OP_QUERY_GENERAL_OBJECT,
          MLX5_CMD_OP_DESTROY_GENERAL_OBJECT})
        EXPECT_EQ(status(by(mine, about_object(opcode, 1, MLX5_GENERAL_OBJECT_TYPES_IPSEC))),
                  FwStatus::bad_parameter);
    EXPECT_EQ(status(by(mine, about_sampler(MLX5_CMD_OP_CREATE_GENERAL_OBJECT, 0))),
              FwStatus::bad_input_length);
}

class CountersInMemoryTest : public UsersTest {
  protected:
    static constexpr uint64_t kAddress = 0x10000; // of mkey_request()

    /// Asks for the counter's value in memory, from where on it counts from zero again.
    FwStatus move_count(Number counter, uint32_t key, uint64_t address, uint64_t count = 1) {
        return status(by(mine, REQUEST(QUERY_FLOW_COUNTER, query_flow_counter)
                                   .set(PRM(query_flow_counter_in, flow_counter_id), counter)
                                   .set(PRM(query_flow_counter_in, clear), 1)
                                   .set({0x60, 32}, key)     // as net_mlx5 does
                                   .set({0x80, 64}, address) // (mlx5_prm.h of DPDK)
                                   .set({0xc1, 1}, 1)
                                   .set({0xc2, 30}, count)));
    }
    uint64_t packets(Number counter) {
        return transport->device().query_flow_counter(counter, false)->packets;
    }
    Number counter_of(uint16_t uid) {
        return run(by(uid, REQUEST(ALLOC_FLOW_COUNTER, alloc_flow_counter)))
            .get(PRM(alloc_flow_counter_out, flow_counter_id));
    }
    /// Each of them counts three packets.
    void count(const std::vector<Number>& counters) {
        core::FlowAttr drops;
        drops.drop = true;
        drops.counters = counters;
        ASSERT_TRUE(transport->device().create_flow(drops));
        transport->wire().incoming.insert(transport->wire().incoming.end(), 3, frames::build({}));
        while (transport->device().poll() != 0) {
        }
        for (const Number counter : counters)
            ASSERT_EQ(packets(counter), 3u);
    }
};

TEST_P(CountersInMemoryTest, ARunShowsAndClearsNoneOfAnotherUser) {
    const Number first = counter_of(mine), foreign = counter_of(other), last = counter_of(mine);
    ASSERT_EQ(foreign, first + 1);
    ASSERT_EQ(last, first + 2);
    count({first, foreign, last});
    const Answer answer = run(by(mine, REQUEST(QUERY_FLOW_COUNTER, query_flow_counter)
                                           .set(PRM(query_flow_counter_in, flow_counter_id), first)
                                           .set(PRM(query_flow_counter_in, clear), 1)
                                           .set({0xc2, 30}, 3)));
    ASSERT_EQ(answer.status(), FwStatus::ok);
    constexpr size_t kFirst = PRM_BYTES(query_flow_counter_out), kEach = PRM_BYTES(traffic_counter);
    const auto shown = [&](size_t index) {
        return std::vector(answer.out.begin() + static_cast<ptrdiff_t>(kFirst + index * kEach),
                           answer.out.begin() +
                               static_cast<ptrdiff_t>(kFirst + (index + 1) * kEach));
    };
    EXPECT_EQ(net::load_be<uint64_t>(shown(0).data()), 3u);
    EXPECT_EQ(shown(1), std::vector<uint8_t>(kEach)) << "neither packets nor bytes";
    EXPECT_EQ(net::load_be<uint64_t>(shown(2).data()), 3u);
    EXPECT_EQ(packets(first), 0u);
    EXPECT_EQ(packets(foreign), 3u);
    EXPECT_EQ(packets(last), 0u);
}

TEST_P(CountersInMemoryTest, WhatCannotBeWrittenIsNotCleared) {
    const Number counter = counter_of(mine);
    count({counter});
    const Number index = made(by(mine, mkey_request(MLX5_MKC_ACCESS_MODE_MTT)));
    EXPECT_EQ(move_count(counter, 0xabcde00, kAddress), FwStatus::bad_resource);
    EXPECT_EQ(move_count(counter, index << 8 | 0x55, kAddress), FwStatus::bad_resource)
        << "another variant of the key";
    EXPECT_EQ(move_count(counter, index << 8, kAddress + 2 * kPage - 8), FwStatus::bad_parameter)
        << "ends behind the memory";
    EXPECT_EQ(packets(counter), 3u);
    EXPECT_EQ(move_count(counter, index << 8, kAddress), FwStatus::ok);
    EXPECT_EQ(packets(counter), 0u);
    EXPECT_EQ(net::load_be<uint64_t>(transport->pages()), 3u);
}

/// A program that takes counts from memory as they appear must not find them a second time. This
/// one takes one of many, so that it has time before all are written. Not one at an end of a page:
/// memcpy may write there twice.
TEST_P(CountersInMemoryTest, CountsAreWrittenOnce) {
    constexpr uint64_t kBulk = 4, kCounters = kBulk * 128, kDumps = 2000;
    constexpr uint8_t kTaken = 0xff; // a count's first byte is 0 here
    constexpr size_t kAt = 100 * PRM_BYTES(traffic_counter);
    const Number bulk =
        run(by(mine, REQUEST(ALLOC_FLOW_COUNTER, alloc_flow_counter)
                         .set(PRM(alloc_flow_counter_in, flow_counter_bulk), kBulk)))
            .get(PRM(alloc_flow_counter_out, flow_counter_id));
    const Number index = made(by(mine, mkey_request(MLX5_MKC_ACCESS_MODE_MTT)));
    const std::atomic_ref count(*reinterpret_cast<uint8_t*>(transport->pages() + kAt));
    count = kTaken;
    std::atomic<uint64_t> taken{0};
    std::atomic<bool> stop{false};
    std::thread program([&] {
        while (!stop) {
            if (count == kTaken) continue;
            count = kTaken;
            taken++;
        }
    });
    FwStatus status = FwStatus::ok;
    for (uint64_t dumps = 1; dumps <= kDumps && status == FwStatus::ok; dumps++) {
        status = move_count(bulk, index << 8, kAddress, kCounters);
        while (status == FwStatus::ok && taken < dumps)
            std::this_thread::yield();
    }
    stop = true;
    program.join();
    EXPECT_EQ(status, FwStatus::ok);
    EXPECT_EQ(taken, kDumps);
}

INSTANTIATE_TEST_SUITE_P(Transports, CountersInMemoryTest, transports(), name_of);

TEST_P(FlowObjectsTest, AUserWithTablesStays) {
    const auto destroy = REQUEST(DESTROY_UCTX, destroy_uctx).set(PRM(destroy_uctx_in, uid), mine);
    EXPECT_EQ(status(destroy), FwStatus::resource_busy);
}

INSTANTIATE_TEST_SUITE_P(Transports, FlowObjectsTest, transports(), name_of);

} // namespace
} // namespace prm_test
