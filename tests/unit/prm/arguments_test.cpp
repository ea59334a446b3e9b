// SPDX-License-Identifier: BSD-3-Clause
// Arguments of header edits by command: their owner, their number, and the capabilities.
#include "tests/unit/prm/object_requests.hpp"
#include "tests/unit/prm/transports.hpp"

namespace prm_test {
namespace {

constexpr Field kAccessPd{8 * PRM_BYTES(general_obj_out_cmd_hdr) + 0x88, 24};

class ArgumentsTest : public TransportTest {
  protected:
    ArgumentsTest() { pd = made(by(mine, REQUEST(ALLOC_PD, alloc_pd))); }

    Request create(uint64_t log_range = 0) { return arguments_request(log_range, pd); }
    static Request about(uint16_t opcode, Number number) {
        return about_object(opcode, number, kArgumentType);
    }
    static Request query(Number number) { return about(MLX5_CMD_OP_QUERY_GENERAL_OBJECT, number); }
    static Request destroy(Number number) {
        return about(MLX5_CMD_OP_DESTROY_GENERAL_OBJECT, number);
    }
    uint64_t capability(Field field) {
        return run(REQUEST(QUERY_HCA_CAP, query_hca_cap, 1))
            .get(inside(PRM(query_hca_cap_out, capability), field));
    }
    Number pd = 0;
};

TEST_P(ArgumentsTest, TheyAreTheirUsers) {
    EXPECT_EQ(status(by(mine, arguments_request(0, 0xabcde))), FwStatus::bad_resource)
        << "no such PD";
    EXPECT_EQ(status(by(other, create())), FwStatus::bad_resource) << "somebody else's";
    const Number arguments = made(by(mine, create()));
    for (const Request& command : {query(arguments), destroy(arguments)})
        EXPECT_EQ(status(by(other, command)), FwStatus::bad_resource);
    const Answer answer = run(by(mine, query(arguments)));
    EXPECT_EQ(answer.status(), FwStatus::ok);
    EXPECT_EQ(answer.get(kAccessPd), pd);
    const Request dealloc = by(mine, REQUEST(DEALLOC_PD, dealloc_pd).number(pd));
    EXPECT_EQ(status(dealloc), FwStatus::resource_busy);
    EXPECT_EQ(status(by(mine, destroy(arguments))), FwStatus::ok);
    EXPECT_EQ(status(by(mine, query(arguments))), FwStatus::bad_resource);
    EXPECT_EQ(status(dealloc), FwStatus::ok);
}

TEST_P(ArgumentsTest, TheyComeInRanges) {
    const Number range = made(by(mine, create(3))), next = made(by(mine, create()));
    EXPECT_EQ(next, range + 8) << "numbers of their own";
    EXPECT_EQ(status(by(mine, query(range + 1))), FwStatus::bad_resource);
    EXPECT_EQ(status(by(mine, destroy(range + 1))), FwStatus::bad_resource) << "all at once";
    EXPECT_EQ(status(by(mine, destroy(range))), FwStatus::ok);
    EXPECT_EQ(made(by(mine, create(2))), range) << "what is free is given again";
    EXPECT_EQ(status(by(mine, query(next))), FwStatus::ok);
}

TEST_P(ArgumentsTest, ThereAreNoMoreThanTheCapabilitiesSay) {
    constexpr uint32_t kAtOnce = 12, kInAll = 20;
    EXPECT_EQ(status(by(mine, create(kAtOnce + 1))), FwStatus::bad_parameter);
    EXPECT_EQ(status(by(mine, create(31))), FwStatus::bad_parameter);
    Request cut = by(mine, create());
    cut.in.resize(cut.in.size() - 4);
    EXPECT_EQ(status(cut), FwStatus::bad_input_length);
    for (uint32_t left = 1u << (kInAll - kAtOnce); left != 0; left--)
        ASSERT_EQ(status(by(mine, create(kAtOnce))), FwStatus::ok);
    EXPECT_EQ(status(by(mine, create())), FwStatus::exceeded_limit);
}

/// In format 1; because of these, libmlx5 builds lists of edits that rules share.
TEST_P(ArgumentsTest, CapabilitiesSayWhatThereIs) {
    constexpr Field kTypes = PRM(cmd_hca_cap, general_obj_types);
    EXPECT_EQ(capability({kTypes.offset + 63 - kArgumentType, 1}), 1u);
    EXPECT_EQ(capability({0x763, 5}), 20u) << "log_max_num_header_modify_argument";
    EXPECT_EQ(capability({0x76c, 4}), 0u) << "log_header_modify_argument_granularity";
    EXPECT_EQ(capability({0x773, 5}), 12u) << "log_header_modify_argument_max_alloc";
}

/// The PDs that they hold are released.
TEST_P(ArgumentsTest, TheyGoWithTheRest) {
    (void)made(by(mine, create(4)));
    transport->device().destroy_all_flow_tables();
    EXPECT_TRUE(transport->device().dealloc_pd(pd));
}

INSTANTIATE_TEST_SUITE_P(Fronts, ArgumentsTest, transports(1), name_of);

/// Software steering of format 0 has no lists for them.
class NoArgumentsTest : public ArgumentsTest {};
TEST_P(NoArgumentsTest, AreOffered) {
    constexpr Field kTypes = PRM(cmd_hca_cap, general_obj_types);
    EXPECT_EQ(capability({kTypes.offset + 63 - kArgumentType, 1}), 0u);
}
INSTANTIATE_TEST_SUITE_P(Fronts, NoArgumentsTest, transports(0), name_of);

} // namespace
} // namespace prm_test
