// SPDX-License-Identifier: BSD-3-Clause
// What rules tell those of later groups about a packet: the device's registers, in matches and in
// the commands that set them.
#include "drivers/net/rawqp/flow_tag.hpp"
#include "tests/unit/flow/templates.hpp"

namespace rawqp::test {
namespace {

using testing::HasSubstr;
using verbs_test::DevxObject;

constexpr uint16_t kEntry = 0x936, kGroup = 0x933;
constexpr size_t kMaskAt = 64, kValueAt = 128, kRegister = 3 * 64 + 0x160 / 8; ///< of register 0
constexpr size_t kRegisterA = 3 * 64 + 0x180 / 8, kMarkRegister = 3 * 64 + 0x80 / 8;

class MetadataTest : public TemplateTest {
  protected:
    MetadataTest() : TemplateTest(FlowEngine::mlx5) {
        configure(8);
        start();
    }
    const DevxObject& made(uint16_t opcode) const {
        for (const auto& object : device.devx_objects)
            if (object->opcode() == opcode) return *object;
        throw std::logic_error("no such object");
    }
    static Rule tagged(uint32_t data, uint8_t index, uint32_t mask = ~0u) {
        const rte_flow_item_tag spec{data, index}, all{mask, 0xff};
        Rule rule = Rule().item(RTE_FLOW_ITEM_TYPE_TAG, &spec, &all).item(RTE_FLOW_ITEM_TYPE_IPV4);
        rule.attr.group = 1;
        return rule;
    }
    /// A rule of group 1 that matches this mark.
    static Rule marked(uint32_t id, uint32_t mask = ~0u) {
        const rte_flow_item_mark spec{id}, bits{mask};
        Rule rule = Rule().item(RTE_FLOW_ITEM_TYPE_MARK, &spec, &bits);
        rule.attr.group = 1;
        return rule;
    }
    static Rule sent(Rule rule, uint32_t group = 0) {
        rule.attr.group = group;
        rule.attr.ingress = 0;
        rule.attr.egress = 1;
        return rule;
    }
    static Rule set_tag(uint32_t data, uint32_t mask, uint8_t index) {
        const rte_flow_action_set_tag conf{data, mask, index};
        return Rule().action(RTE_FLOW_ACTION_TYPE_SET_TAG, &conf);
    }
    /// The commands of a rule of group 0 that also jumps.
    Bytes commands(Rule rule) {
        const rte_flow_action_jump jump{1};
        rte_flow* const made = create(rule.action(RTE_FLOW_ACTION_TYPE_JUMP, &jump));
        EXPECT_NE(made, nullptr) << error.message;
        Bytes bytes = made != nullptr ? device.flow_actions.back()->bytes : Bytes{};
        table.flush(nullptr);
        return bytes;
    }
};

TEST_F(MetadataTest, EachRunOfBitsIsACommand) {
    EXPECT_EQ(commands(set_tag(0x12345678, ~0u, 0)), hex("1053 0000 12345678"));
    EXPECT_EQ(commands(set_tag(0x12345678, ~0u, 3)), hex("1057 0000 12345678"));
    EXPECT_EQ(commands(set_tag(0x12345678, 0x00ffff00, 1)), hex("1054 0810 00003456"));
    EXPECT_EQ(commands(set_tag(0x80000001, 0x80000001, 2)),
              hex("1055 0001 00000001 1055 1f01 00000001"));
    EXPECT_FALSE(device.rx_queues.metadata);
    const rte_flow_action_set_meta meta{0xabcdef01, 0xffff0000};
    EXPECT_EQ(commands(Rule().action(RTE_FLOW_ACTION_TYPE_SET_META, &meta)),
              hex("1052 1010 0000abcd 1050 1010 0000abcd")); // matched, and reported
    EXPECT_TRUE(device.rx_queues.metadata);
    rte_flow_action_modify_field field{};
    field.dst.field = RTE_FLOW_FIELD_TAG;
    field.dst.level = 3;
    field.src.field = RTE_FLOW_FIELD_VALUE;
    field.width = 32;
    const uint32_t number = 0x11223344; // as in the item: in CPU order
    std::memcpy(field.src.value, &number, sizeof number);
    EXPECT_EQ(commands(Rule().action(RTE_FLOW_ACTION_TYPE_MODIFY_FIELD, &field)),
              hex("1057 0000 11223344"));
}

/// Later groups match it there, where packets without a mark differ from those with mark 0.
TEST_F(MetadataTest, AMarkBeforeAJumpIsInARegister) {
    EXPECT_EQ(commands(Rule().mark(5)), hex("1058 0000 80000005"));
    EXPECT_EQ(commands(Rule().mark(0)), hex("1058 0000 80000000"));
    EXPECT_EQ(commands(Rule().action(RTE_FLOW_ACTION_TYPE_FLAG)), hex("1058 0000 00000000"));
    EXPECT_EQ(commands(set_tag(7, ~0u, 0).mark(5)), hex("1053 0000 00000007 1058 0000 80000005"));
    const size_t made = device.flow_actions.size();
    ASSERT_NE(create(Rule().mark(5).queue(1)), nullptr) << error.message;
    EXPECT_EQ(device.flow_actions.size(), made) << "there is no later group";
}

TEST_F(MetadataTest, ModifyFieldSetsAMark) {
    rte_flow_action_modify_field conf{};
    conf.dst.field = RTE_FLOW_FIELD_MARK;
    conf.src.field = RTE_FLOW_FIELD_VALUE;
    conf.width = 24;
    const auto by_modify_field = [&](uint32_t id) {
        std::memcpy(conf.src.value, &id, sizeof id);
        return Rule().action(RTE_FLOW_ACTION_TYPE_MODIFY_FIELD, &conf);
    };
    EXPECT_EQ(commands(by_modify_field(5)), hex("1058 0000 80000005"));
    EXPECT_EQ(commands(by_modify_field(0xaa000005)), hex("1058 0000 80000005")) << "24 bits of it";
    EXPECT_THAT(refused(by_modify_field(kMarkMax + 1).queue(1)), HasSubstr("id 0xfffffe does not"));
    EXPECT_THAT(refused(by_modify_field(5).mark(5).queue(1)), HasSubstr("has mark already"));
    EXPECT_THAT(refused(sent(by_modify_field(5))), HasSubstr("is for received packets"));
    conf.operation = RTE_FLOW_MODIFY_ADD;
    EXPECT_THAT(refused(by_modify_field(5).queue(1)), HasSubstr("set, not added to"));
    conf.operation = RTE_FLOW_MODIFY_SET;
    conf.width = 16;
    EXPECT_THAT(refused(by_modify_field(5).queue(1)), HasSubstr("use offset 0 and width 24"));
}

TEST_F(MetadataTest, MarksAreShared) {
    const rte_flow_action_jump jump{1};
    const auto to_port = [&](uint16_t port, uint32_t mark) {
        return create(flow(1, port).mark(mark).action(RTE_FLOW_ACTION_TYPE_JUMP, &jump));
    };
    ASSERT_NE(to_port(1, 5), nullptr) << error.message;
    const size_t one = device.flow_actions.size();
    ASSERT_NE(to_port(2, 5), nullptr) << error.message;
    EXPECT_EQ(device.flow_actions.size(), one);
    ASSERT_NE(to_port(3, 6), nullptr) << error.message;
    EXPECT_EQ(device.flow_actions.size(), one + 1);
}

TEST_F(MetadataTest, ItemMarkAsksForItsRegister) {
    struct Case {
        Rule rule;
        uint32_t mask, value;
    };
    Rule any = Rule().item(RTE_FLOW_ITEM_TYPE_MARK);
    any.attr.group = 1;
    for (const auto& [rule, mask, value] : {Case{marked(5), ~0u, 0x80000005},
                                            {marked(0), ~0u, 0x80000000},
                                            {marked(0x12345, 0xff0), 0x80000ff0, 0x80000340},
                                            {any, 0x80000000, 0x80000000}}) {
        ASSERT_NE(create(Rule(rule).queue(1)), nullptr) << error.message;
        EXPECT_EQ(made(kGroup).word(kMaskAt + kMarkRegister), mask);
        EXPECT_EQ(made(kEntry).word(kValueAt + kMarkRegister), value);
        table.flush(nullptr);
    }
}

/// Neither is zero or the spec itself, under the mask.
TEST_F(MetadataTest, ALastThatIsNoRangeIsIgnored) {
    const rte_flow_item_meta meta{0x155}, low{0xff}, high{0x255};
    const rte_flow_item_tag tag{5, 2}, all{~0u, 0xff}, none{0, 0};
    const rte_flow_item_mark mark{7};
    for (const Rule& each :
         {Rule().item(RTE_FLOW_ITEM_TYPE_META, &meta, &low, &high),
          Rule().item(RTE_FLOW_ITEM_TYPE_TAG, &tag, &all, &none),
          Rule().item(RTE_FLOW_ITEM_TYPE_TAG, &tag, &all, &tag),
          Rule().item<rte_flow_item_mark>(RTE_FLOW_ITEM_TYPE_MARK, &mark, nullptr, &mark)}) {
        Rule rule = each;
        rule.attr.group = 1;
        EXPECT_NE(create(rule.queue(0)), nullptr) << error.message;
        table.flush(nullptr);
    }
    const rte_flow_item_tag other{6, 2};
    Rule tags = Rule().item(RTE_FLOW_ITEM_TYPE_TAG, &tag, &all, &other).queue(0);
    EXPECT_THAT(refused(tags), HasSubstr("no ranges of metadata"));
    const rte_flow_item_mark later{8};
    Rule marks =
        Rule().item<rte_flow_item_mark>(RTE_FLOW_ITEM_TYPE_MARK, &mark, nullptr, &later).queue(0);
    EXPECT_THAT(refused(marks), HasSubstr("no ranges of metadata"));
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ITEM_LAST);
}

TEST_F(MetadataTest, RulesOfATableMatchAndGiveMarks) {
    auto* const by_mark = table_of(pattern_of(marked(0, 0xffffff)),
                                   actions_of(Rule().queue(1), Rule().queue(1)), 2, 1);
    ASSERT_NE(by_mark, nullptr) << error.message;
    ASSERT_NE(enqueue(by_mark, marked(9)), nullptr) << error.message;
    EXPECT_EQ(made(kEntry).word(kValueAt + kMarkRegister), 0x80000009u);
    EXPECT_EQ(enqueue(by_mark, marked(kMarkMax + 1)), nullptr);
    EXPECT_THAT(error.message, HasSubstr("no packet has mark 0xfffffe"));
    const rte_flow_action_jump jump{1};
    const Rule actions = Rule().mark(1).action(RTE_FLOW_ACTION_TYPE_JUMP, &jump);
    const rte_flow_action_mark from_rules{0};
    const Rule masks = Rule()
                           .action(RTE_FLOW_ACTION_TYPE_MARK, &from_rules)
                           .action(RTE_FLOW_ACTION_TYPE_JUMP, &jump);
    auto* const marking = table_of(pattern_of(flow(0, 0)), actions_of(actions, masks), 2);
    ASSERT_NE(marking, nullptr) << error.message;
    ASSERT_NE(enqueue(marking, flow(1, 2).mark(3).action(RTE_FLOW_ACTION_TYPE_JUMP, &jump)),
              nullptr)
        << error.message;
    EXPECT_EQ(device.flow_actions.back()->bytes, hex("1058 0000 80000003"));
}

TEST_F(MetadataTest, WhatIsSentHasMetadataOfTheApplication) {
    const rte_flow_item_meta meta{0x44556677};
    ASSERT_NE(create(sent(Rule().item(RTE_FLOW_ITEM_TYPE_META, &meta), 1)), nullptr)
        << error.message;
    EXPECT_EQ(made(kGroup).word(kMaskAt + kRegisterA), ~0u);
    EXPECT_EQ(made(kEntry).word(kValueAt + kRegisterA), 0x44556677u);
    ASSERT_NE(
        create(sent(Rule().item(RTE_FLOW_ITEM_TYPE_META, &meta).action(RTE_FLOW_ACTION_TYPE_DROP))),
        nullptr)
        << error.message;
    const rte_flow_action_set_meta conf{0x12, ~0u};
    EXPECT_EQ(commands(sent(Rule().action(RTE_FLOW_ACTION_TYPE_SET_META, &conf))),
              hex("1049 0000 00000012"));
    EXPECT_FALSE(device.rx_queues.metadata);
}

TEST_F(MetadataTest, ItemsAskForRegisters) {
    const rte_flow_item_tag second{0x22222222, 3};
    const rte_flow_item_meta meta{0x33333333};
    Rule rule = tagged(0x11111111, 0, 0xffff)
                    .item(RTE_FLOW_ITEM_TYPE_TAG, &second)
                    .item(RTE_FLOW_ITEM_TYPE_UDP) // headers go on as if without them
                    .item(RTE_FLOW_ITEM_TYPE_META, &meta)
                    .queue(1);
    ASSERT_NE(create(rule), nullptr) << error.message;
    const auto& group = made(kGroup);
    const auto& entry = made(kEntry);
    const auto masked = [&](size_t number) { return group.word(kMaskAt + kRegister - 4 * number); };
    const auto wanted = [&](size_t number) {
        return entry.word(kValueAt + kRegister - 4 * number);
    };
    EXPECT_EQ(masked(2), 0xffffu);
    EXPECT_EQ(wanted(2), 0x1111u);
    EXPECT_EQ(masked(6), ~0u);
    EXPECT_EQ(wanted(6), 0x22222222u);
    EXPECT_EQ(masked(1), ~0u);
    EXPECT_EQ(wanted(1), 0x33333333u);
    EXPECT_EQ(masked(0), 0u);
    EXPECT_EQ(group.command[kMaskAt + 0x80 / 8], 0xff); // the IP protocol
    EXPECT_EQ(entry.command[kValueAt + 0x80 / 8], 17);
}

/// Registers have no order: the second rule equals the first.
TEST_F(MetadataTest, ItsOrderDoesNotMatter) {
    const rte_flow_item_meta meta{7};
    const rte_flow_item_tag tag{5, 0};
    const auto both = [&](bool tag_first) {
        Rule rule;
        if (tag_first) rule.item(RTE_FLOW_ITEM_TYPE_TAG, &tag);
        rule.item(RTE_FLOW_ITEM_TYPE_IPV4).item(RTE_FLOW_ITEM_TYPE_META, &meta);
        if (!tag_first) rule.item(RTE_FLOW_ITEM_TYPE_TAG, &tag);
        rule.attr.group = 1;
        return rule.queue(0);
    };
    ASSERT_NE(create(both(true)), nullptr) << error.message;
    EXPECT_THAT(refused(both(false)), HasSubstr("with the same values already"));
}

/// The index of the spec says which tag; those of mask and last are ignored.
TEST_F(MetadataTest, TheIndexOfATagIsNoCondition) {
    const rte_flow_item_tag spec{5, 3};
    for (const uint8_t index : {0, 1, 0xff}) {
        const rte_flow_item_tag mask{~0u, index}, last{0, index};
        Rule rule = Rule().item(RTE_FLOW_ITEM_TYPE_TAG, &spec, &mask, &last);
        rule.item(RTE_FLOW_ITEM_TYPE_IPV4).attr.group = 1;
        rte_flow* const made = create(rule.queue(0));
        ASSERT_NE(made, nullptr) << error.message;
        EXPECT_THAT(refused(tagged(5, 3).queue(0)), HasSubstr("with the same values already"));
        EXPECT_EQ(table.destroy(made, &error), 0);
    }
}

TEST_F(MetadataTest, RulesOfATableDifferInATag) {
    auto* const of =
        table_of(pattern_of(tagged(0, 3)), actions_of(Rule().queue(1), Rule().queue(1)), 2, 1);
    ASSERT_NE(of, nullptr) << error.message;
    ASSERT_NE(enqueue(of, tagged(0x55667788, 3)), nullptr) << error.message;
    EXPECT_EQ(made(kEntry).word(kValueAt + kRegister - 4 * 6), 0x55667788u);
    EXPECT_EQ(enqueue(of, tagged(1, 2)), nullptr);
    EXPECT_THAT(error.message, HasSubstr("its index is not the template's"));
    const rte_flow_item_tag two{0, 2};
    EXPECT_THAT(refused_pattern(tagged(0, 3).item(RTE_FLOW_ITEM_TYPE_TAG, &two)),
                HasSubstr("one item tag"));
}

TEST_F(MetadataTest, Refusals) {
    Rule first = tagged(1, 0).queue(0);
    first.attr.group = 0;
    EXPECT_THAT(refused(first), HasSubstr("item tag: no rule has set it before those of group 0"));
    EXPECT_THAT(refused(tagged(1, 4).queue(0)), HasSubstr("index 4: the largest is 3"));
    const rte_flow_item_tag spec{1, 0};
    EXPECT_THAT(refused(tagged(1, 0).item(RTE_FLOW_ITEM_TYPE_TAG, &spec).queue(0)),
                HasSubstr("for this metadata already"));
    const rte_flow_item_meta meta{1}, last{5};
    Rule range =
        Rule().item<rte_flow_item_meta>(RTE_FLOW_ITEM_TYPE_META, &meta, nullptr, &last).queue(0);
    EXPECT_THAT(refused(range), HasSubstr("no ranges of metadata"));
    Rule without_rule = Rule().item(RTE_FLOW_ITEM_TYPE_META, &meta).queue(0);
    EXPECT_THAT(refused(without_rule), HasSubstr("item meta: no rule has set it"));
    Rule before = marked(1).queue(0);
    before.attr.group = 0;
    EXPECT_THAT(refused(before), HasSubstr("item mark: no rule has set it"));
    EXPECT_THAT(refused(marked(kMarkMax + 1).queue(0)), HasSubstr("the largest is 0xfffffd"));
    EXPECT_THAT(refused(sent(marked(1), 1)), HasSubstr("mark received packets only"));
    const rte_flow_item_mark mark{1};
    EXPECT_THAT(refused(marked(2, 2).item(RTE_FLOW_ITEM_TYPE_MARK, &mark).queue(0)),
                HasSubstr("for this metadata already"));
    EXPECT_THAT(refused(set_tag(1, 1, 4).queue(0)), HasSubstr("index 4: the largest is 3"));
    EXPECT_THAT(refused(set_tag(1, 0, 0).queue(0)), HasSubstr("its mask is zero"));
    EXPECT_THAT(refused(Rule().action(RTE_FLOW_ACTION_TYPE_PASSTHRU)),
                HasSubstr("into a group of 1 … 22, and jump there"));
}

} // namespace
} // namespace rawqp::test
