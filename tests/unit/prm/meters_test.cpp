// SPDX-License-Identifier: BSD-3-Clause
// Flow meters by command: their owner, their number, and entries that name them.
#include "tests/unit/prm/object_requests.hpp"
#include "tests/unit/prm/transports.hpp"

namespace prm_test {
namespace {

constexpr uint16_t kType = MLX5_GENERAL_OBJECT_TYPES_FLOW_METER_ASO;
constexpr Field kCreate = PRM(create_flow_meter_aso_obj_in, flow_meter_aso_obj);
constexpr Field kContext = PRM(set_fte_in, flow_context);

class FlowMetersTest : public TransportTest {
  protected:
    FlowMetersTest() { pd = made(by(mine, REQUEST(ALLOC_PD, alloc_pd))); }

    Request create(uint64_t log_range = 0) { return meters_request(log_range, pd); }
    static Request about(uint16_t opcode, Number number) {
        return about_object(opcode, number, kType);
    }
    static Request query(Number number, uint64_t offset = 0) {
        return about(MLX5_CMD_OP_QUERY_GENERAL_OBJECT, number).set({0x61, 31}, offset);
    }
    static Request destroy(Number number) {
        return about(MLX5_CMD_OP_DESTROY_GENERAL_OBJECT, number);
    }
    Number table(uint64_t type) {
        constexpr Field kTable = PRM(create_flow_table_in, flow_table_context);
        return made(by(mine, REQUEST(CREATE_FLOW_TABLE, create_flow_table)
                                 .set(PRM(create_flow_table_in, table_type), type)
                                 .set(inside(kTable, PRM(flow_table_context, log_size)), 2)));
    }
    /// An entry that meters and drops.
    Request entry(Number in_table, Number meters, uint64_t type = MLX5_EXE_ASO_FLOW_METER) {
        const Number group =
            made(by(mine, REQUEST(CREATE_FLOW_GROUP, create_flow_group)
                              .set(PRM(create_flow_group_in, table_id), in_table)));
        constexpr Field kAso = inside(kContext, PRM(flow_context, execute_aso[3]));
        constexpr Field kControl = inside(kAso, PRM(execute_aso, exe_aso_ctrl));
        return by(mine,
                  REQUEST(SET_FLOW_TABLE_ENTRY, set_fte)
                      .set(PRM(set_fte_in, table_id), in_table)
                      .set(inside(kContext, PRM(flow_context, group_id)), group)
                      .set(inside(kContext, PRM(flow_context, action)),
                           MLX5_FLOW_CONTEXT_ACTION_DROP | MLX5_FLOW_CONTEXT_ACTION_EXECUTE_ASO)
                      .set(inside(kAso, PRM(execute_aso, valid)), 1)
                      .set(inside(kAso, PRM(execute_aso, aso_object_id)), meters)
                      .set(inside(kControl, PRM(exe_aso_ctrl_flow_meter, aso_type)), type));
    }
    Request remove(Number in_table) {
        return by(mine, REQUEST(DELETE_FLOW_TABLE_ENTRY, delete_fte)
                            .set(PRM(delete_fte_in, table_id), in_table));
    }
    Number pd = 0;
};

TEST_P(FlowMetersTest, TheyAreTheirUsers) {
    EXPECT_EQ(status(by(mine, meters_request(0, 0xabcde))), FwStatus::bad_resource) << "no such PD";
    EXPECT_EQ(status(by(other, create())), FwStatus::bad_resource) << "somebody else's";
    const Number meters = made(by(mine, create()));
    for (const Request& command : {query(meters), destroy(meters)})
        EXPECT_EQ(status(by(other, command)), FwStatus::bad_resource);
    const Request dealloc = by(mine, REQUEST(DEALLOC_PD, dealloc_pd).number(pd));
    EXPECT_EQ(status(dealloc), FwStatus::resource_busy);
    EXPECT_EQ(status(by(mine, destroy(meters))), FwStatus::ok);
    EXPECT_EQ(status(by(mine, query(meters))), FwStatus::bad_resource);
    EXPECT_EQ(status(dealloc), FwStatus::ok);
}

TEST_P(FlowMetersTest, TheyComeInRanges) {
    const Number range = made(by(mine, create(3))), next = made(by(mine, create()));
    EXPECT_EQ(next, range + 8) << "numbers of their own";
    EXPECT_EQ(status(by(mine, query(range, 7))), FwStatus::ok);
    EXPECT_EQ(status(by(mine, query(range, 8))), FwStatus::bad_resource);
    EXPECT_EQ(status(by(mine, query(range + 1))), FwStatus::bad_resource);
    EXPECT_EQ(status(by(mine, destroy(range + 1))), FwStatus::bad_resource) << "all at once";
    EXPECT_EQ(status(by(mine, destroy(range))), FwStatus::ok);
    EXPECT_EQ(status(by(mine, query(next))), FwStatus::ok);
}

TEST_P(FlowMetersTest, ThereAreNoMoreThanTheCapabilitiesSay) {
    const auto caps = run(REQUEST(QUERY_HCA_CAP, query_hca_cap, 1 | 12 << 1)); // current, QoS
    const auto cap = [&](Field field) {
        return caps.get(inside(PRM(query_hca_cap_out, capability), field));
    };
    const uint32_t at_once = cap(PRM(qos_cap, log_meter_aso_max_alloc));
    const uint32_t in_all = cap(PRM(qos_cap, log_max_num_meter_aso));
    EXPECT_EQ(cap(PRM(qos_cap, log_meter_aso_granularity)), 0u);
    EXPECT_EQ(status(by(mine, create(at_once + 1))), FwStatus::bad_parameter);
    EXPECT_EQ(status(by(mine, create(31))), FwStatus::bad_parameter);
    for (uint32_t left = 1u << (in_all - at_once); left != 0; left--)
        ASSERT_EQ(status(by(mine, create(at_once))), FwStatus::ok);
    EXPECT_EQ(status(by(mine, create())), FwStatus::exceeded_limit);
}

TEST_P(FlowMetersTest, ParametersComeWithTheCommand) {
    constexpr Field kSecond = PRM(flow_meter_aso_obj, flow_meter_parameters[1]);
    const std::pair<Field, uint32_t> fields[] = {
        {PRM(flow_meter_parameters, valid), 1},
        {PRM(flow_meter_parameters, start_color), MLX5_FLOW_METER_COLOR_GREEN},
        {PRM(flow_meter_parameters, both_buckets_on_green), 1},
        {PRM(flow_meter_parameters, meter_mode), MLX5_FLOW_METER_MODE_NUM_PACKETS},
        {PRM(flow_meter_parameters, cbs_exponent), 1},
        {PRM(flow_meter_parameters, cbs_mantissa), 2},
        {PRM(flow_meter_parameters, cir_exponent), 3},
        {PRM(flow_meter_parameters, cir_mantissa), 4},
        {PRM(flow_meter_parameters, ebs_exponent), 5},
        {PRM(flow_meter_parameters, ebs_mantissa), 6},
        {PRM(flow_meter_parameters, eir_exponent), 7},
        {PRM(flow_meter_parameters, eir_mantissa), 8}};
    Request request = by(mine, create(1));
    for (const auto& [field, value] : fields)
        request.set(inside(inside(kCreate, kSecond), field), value);
    const Number meters = made(request);
    for (const uint64_t offset : {0, 1}) {
        const Answer answer = run(by(mine, query(meters, offset)));
        constexpr Field kObject{8 * PRM_BYTES(general_obj_out_cmd_hdr), 0};
        for (const auto& [field, value] : fields)
            EXPECT_EQ(answer.get(inside(inside(kObject, kSecond), field)), value) << field.offset;
        EXPECT_EQ(
            answer.get(inside(kObject, inside(PRM(flow_meter_aso_obj, flow_meter_parameters[0]),
                                              PRM(flow_meter_parameters, valid)))),
            0u);
    }
    request.in.resize(request.in.size() - 4);
    EXPECT_EQ(status(request), FwStatus::bad_input_length);
}

TEST_P(FlowMetersTest, EntriesNameOneOfARange) {
    constexpr uint64_t kReceive = 0, kTransmit = 1;
    const Number meters = made(by(mine, create(2)));
    for (const uint64_t type : {kReceive, kTransmit}) {
        const Number in = table(type);
        const Request metering = entry(in, meters + 3);
        EXPECT_EQ(status(metering), FwStatus::ok);
        EXPECT_EQ(status(by(mine, destroy(meters))), FwStatus::resource_busy);
        EXPECT_EQ(status(remove(in)), FwStatus::ok);
    }
    EXPECT_EQ(status(by(mine, destroy(meters))), FwStatus::ok);
}

TEST_P(FlowMetersTest, EntriesThatAreRefused) {
    constexpr uint64_t kReceive = 0, kSniffer = 5;
    const Number meters = made(by(mine, create(2)));
    EXPECT_EQ(status(entry(table(kReceive), meters + 4)), FwStatus::bad_resource);
    EXPECT_EQ(status(entry(table(kReceive), meters, 1)), FwStatus::bad_parameter) << "another type";
    EXPECT_EQ(status(entry(table(kSniffer), meters)), FwStatus::bad_parameter);
    Request none = entry(table(kReceive), meters);
    constexpr Field kAso = inside(kContext, PRM(flow_context, execute_aso[3]));
    none.set(inside(kAso, PRM(execute_aso, valid)), 0);
    EXPECT_EQ(status(none), FwStatus::bad_parameter) << "none is valid";
    const Number foreign_pd = made(by(other, REQUEST(ALLOC_PD, alloc_pd)));
    const Number foreign = made(by(other, meters_request(0, foreign_pd)));
    EXPECT_EQ(status(entry(table(kReceive), foreign)), FwStatus::bad_resource);
}

INSTANTIATE_TEST_SUITE_P(Transports, FlowMetersTest, transports(), name_of);

} // namespace
} // namespace prm_test
