// SPDX-License-Identifier: BSD-3-Clause
// Match definers by command: their owner, the layouts, and which fields they can match.
#include "tests/unit/prm/object_requests.hpp"
#include "tests/unit/prm/transports.hpp"

namespace prm_test {
namespace {

constexpr Field kObject = PRM(create_match_definer_in, obj_context);
constexpr Field kMaskEnd{8 * PRM_BYTES(match_definer) - 32, 32}; ///< the last word
constexpr Field kLastWord = inside(kObject, kMaskEnd);

class DefinersTest : public TransportTest {
  protected:
    static Request create(uint16_t layout, Field mask = {}, uint64_t bits = 0) {
        return definer_request(layout).set(mask, bits);
    }
    static Request about(uint16_t opcode, Number number) {
        return about_object(opcode, number, MLX5_OBJ_TYPE_MATCH_DEFINER);
    }
    static Request query(Number number) { return about(MLX5_CMD_OP_QUERY_GENERAL_OBJECT, number); }
    static Request destroy(Number number) {
        return about(MLX5_CMD_OP_DESTROY_GENERAL_OBJECT, number);
    }
    /// A field of the current capabilities of this kind.
    uint64_t capability(uint16_t kind, Field field) {
        return run(REQUEST(QUERY_HCA_CAP, query_hca_cap, static_cast<uint16_t>(1 | kind << 1)))
            .get(inside(PRM(query_hca_cap_out, capability), field));
    }
};

TEST_P(DefinersTest, TheyAreTheirUsers) {
    const Number definer = made(by(mine, create(22, kLastWord, 0xffff)));
    for (const Request& command : {query(definer), destroy(definer)})
        EXPECT_EQ(status(by(other, command)), FwStatus::bad_resource);
    const Answer answer = run(by(mine, query(definer)));
    EXPECT_EQ(answer.status(), FwStatus::ok);
    const Field object{8 * PRM_BYTES(general_obj_out_cmd_hdr), 0};
    EXPECT_EQ(answer.get(inside(object, PRM(match_definer, format_id))), 22u);
    EXPECT_EQ(answer.get(inside(object, kMaskEnd)), 0xffffu);
    EXPECT_EQ(status(by(mine, destroy(definer))), FwStatus::ok);
    EXPECT_EQ(status(by(mine, query(definer))), FwStatus::bad_resource);
}

TEST_P(DefinersTest, LayoutsAreThoseOfLibmlx5) {
    uint64_t made_of = 0;
    for (uint16_t layout = 0; layout < 64; layout++) {
        const FwStatus created = status(by(mine, create(layout)));
        EXPECT_TRUE(created == FwStatus::ok || created == FwStatus::bad_parameter);
        made_of |= uint64_t{created == FwStatus::ok} << layout;
    }
    uint64_t expected = 0;
    for (const unsigned layout : {0, 2, 6, 16, 22, 24, 25, 26, 28, 33})
        expected |= uint64_t{1} << layout;
    EXPECT_EQ(made_of, expected);
    EXPECT_EQ(status(by(mine, create(22 + 256))), FwStatus::bad_parameter);
}

TEST_P(DefinersTest, MasksHaveWhatTheLayoutHas) {
    const auto word = [](unsigned index) { // of a tag's eight
        return Field{kLastWord.offset - 32 * (7 - index), 32};
    };
    EXPECT_EQ(status(by(mine, create(16, word(5), ~0u))), FwStatus::ok) << "register A";
    EXPECT_EQ(status(by(mine, create(16, word(4), 1 << 31))), FwStatus::bad_parameter)
        << "a random number";
    EXPECT_EQ(status(by(mine, create(0, word(7), 0xff00))), FwStatus::ok) << "integrity";
}

TEST_P(DefinersTest, ThereAreNoMoreThanEntriesCanName) {
    Request cut = by(mine, create(0));
    cut.in.resize(cut.in.size() - 4);
    EXPECT_EQ(status(cut), FwStatus::bad_input_length);
    Number last = 0;
    for (unsigned i = 0; i < 224; i++)
        last = made(by(mine, create(0)));
    EXPECT_EQ(status(by(mine, create(0))), FwStatus::exceeded_limit);
    EXPECT_EQ(status(by(mine, destroy(last))), FwStatus::ok);
    EXPECT_EQ(made(by(mine, create(0))), last);
}

/// They tell libmlx5 what it may write, and net_mlx5 that rules may match integrity. A guest's
/// kernel does not get them: it has no part in software steering.
TEST_P(DefinersTest, CapabilitiesSayWhatThereIs) {
    constexpr uint16_t kGeneral = 0, kFlowTable = 7;
    constexpr Field kLayouts = PRM(cmd_hca_cap, match_definer_format_supported);
    constexpr uint64_t kIntegrity = 0x1ef; // eight bits, except one of PSP in between
    const uint64_t low = capability(kGeneral, {kLayouts.offset + 32, 32});
    const uint64_t high = capability(kGeneral, {kLayouts.offset, 32});
    EXPECT_EQ(low, 0x17410045u);
    EXPECT_EQ(high, 2u);
    for (const size_t fields : {0x1400, 0x1480, 0x1700, 0x1780})
        EXPECT_EQ(capability(kFlowTable, {fields, 32}), kIntegrity) << fields;
    // Entries have a later format than 0; only then does Linux allocate ICM for patterns.
    for (const Field properties : {PRM(flow_table_nic_cap, flow_table_properties_nic_receive),
                                   PRM(flow_table_nic_cap, flow_table_properties_nic_transmit)}) {
        using Bit = std::pair<Field, unsigned>;
        for (const auto& [bit, set] : {Bit{PRM(flow_table_prop_layout, sw_owner), 0},
                                       Bit{PRM(flow_table_prop_layout, sw_owner_v2), 1}})
            EXPECT_EQ(capability(kFlowTable, inside(properties, bit)), set);
    }
}

INSTANTIATE_TEST_SUITE_P(Fronts, DefinersTest, transports(1), name_of);

/// In format 0.
class NoDefinersTest : public DefinersTest {};
TEST_P(NoDefinersTest, Are) {
    EXPECT_EQ(status(by(mine, create(0))), FwStatus::bad_parameter);
    EXPECT_EQ(capability(7, {0x1400, 32}), 0u);
}
INSTANTIATE_TEST_SUITE_P(Fronts, NoDefinersTest, transports(0), name_of);

} // namespace
} // namespace prm_test
