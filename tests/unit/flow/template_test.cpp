// SPDX-License-Identifier: BSD-3-Clause
// Rules from templates: the same rules as from create, without an allocation per rule.
#include "drivers/net/rawqp/flow_tag.hpp"
#include "tests/unit/flow/templates.hpp"

namespace rawqp::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(TemplateTest, RulesAreThoseOfCreate) {
    configure(64);
    start();
    auto* const of = marking_table(8);
    ASSERT_NE(of, nullptr) << error.message;
    EXPECT_THAT(device.flows, IsEmpty());
    const Rule rules[] = {flow(0x0a000001, 53).queue(2).mark(7),
                          flow(0x0a110002, 0).queue(0).mark(0)};
    for (const Rule& rule : rules) {
        rte_flow* const made = enqueue(of, rule);
        ASSERT_NE(made, nullptr) << error.message;
        ASSERT_THAT(device.flows, SizeIs(1));
        const Bytes bytes = device.flows[0]->bytes;
        const auto queues = device.flows[0]->qp->queues;
        EXPECT_THAT(refused(rule), HasSubstr("matches eth/ipv4/udp"));
        EXPECT_EQ(table.async_destroy(1, made, nullptr, &error), 0);
        EXPECT_THAT(device.flows, IsEmpty());
        rte_flow* const usual = create(rule);
        ASSERT_NE(usual, nullptr) << error.message;
        EXPECT_EQ(device.flows[0]->bytes, bytes);
        EXPECT_EQ(device.flows[0]->qp->queues, queues);
        EXPECT_EQ(enqueue(of, rule), nullptr);
        EXPECT_EQ(rte_errno, EEXIST);
        EXPECT_EQ(table.destroy(usual, &error), 0);
    }
    EXPECT_TRUE(device.rx_queues.marks);
}

TEST_F(TemplateTest, ClassesOfAnRssHaveTheValuesToo) {
    configure(64);
    start();
    auto ipv4 = zeroed<rte_flow_item_ipv4>(), mask = ipv4;
    ipv4.hdr.src_addr = rte_cpu_to_be_32(0x0a000001);
    mask.hdr.src_addr = 0xffffffff;
    const Rule rule = Rule()
                          .item(RTE_FLOW_ITEM_TYPE_IPV4, &ipv4, &mask)
                          .rss({0, 1}, RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_UDP);
    auto* const of = table_of(pattern_of(rule), actions_of(rule, rule), 4);
    ASSERT_NE(of, nullptr) << error.message;
    ASSERT_NE(enqueue(of, rule), nullptr) << error.message;
    std::vector<Bytes> made;
    for (const auto* each : device.rules())
        made.push_back(each->bytes);
    EXPECT_THAT(made, SizeIs(2));
    table.flush(&error);
    ASSERT_NE(create(rule), nullptr);
    for (size_t i = 0; i < made.size(); ++i)
        EXPECT_EQ(device.rules()[i]->bytes, made[i]);
}

#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
TEST_F(TemplateTest, TablesByIndexAreRefusedAsSuch) {
    rte_flow_template_table_attr attributes{};
    attributes.flow_attr.ingress = 1;
    attributes.nb_flows = 8;
    attributes.insertion_type = RTE_FLOW_TABLE_INSERTION_TYPE_INDEX;
    configure(8);
    auto* pattern = pattern_of(flow(0, 0));
    auto* actions = actions_of(Rule().queue(1), Rule().queue(1));
    EXPECT_EQ(table.create_template_table(attributes, {&pattern, 1}, {&actions, 1}, &error),
              nullptr);
    EXPECT_EQ(rte_errno, ENOTSUP);
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ATTR);
    EXPECT_THAT(error.message, HasSubstr("have no index"));
}
#endif

TEST_F(TemplateTest, NothingIsAllocatedForARule) {
    constexpr uint32_t kRules = 1000;
    configure(kRules);
    start();
    auto* const of = marking_table(kRules);
    ASSERT_NE(of, nullptr) << error.message;
    std::vector<Rule> rules;
    for (uint32_t n = 0; n < kRules; ++n)
        rules.push_back(flow(n >> 8 << 16, static_cast<uint16_t>(n & 0xff)).queue(n % 4).mark(n));
    // One rule per queue, to create the hash QPs.
    for (uint32_t n = 0; n < 4; ++n)
        ASSERT_NE(enqueue(of, rules[n]), nullptr) << error.message;
    device.flows.reserve(2 * kRules);

    // What the tests' device itself allocates for a flow.
    Bytes bytes = device.flows[0]->bytes;
    size_t before = allocations();
    ibv_flow* const bare = ibv_create_flow(device.flows[0]->qp->plain(),
                                           reinterpret_cast<ibv_flow_attr*>(bytes.data()));
    const size_t each = allocations() - before;
    ASSERT_NE(bare, nullptr);
    EXPECT_EQ(ibv_destroy_flow(bare), 0);

    std::vector<rte_flow*> made(kRules);
    for (int round = 0; round < 2; ++round) {
        before = allocations();
        for (uint32_t n = 4; n < kRules; ++n)
            made[n] = enqueue(of, rules[n]);
        EXPECT_EQ(allocations() - before, (kRules - 4) * each);
        EXPECT_EQ(device.flows.size(), kRules);
        EXPECT_EQ(enqueue(of, flow(1, 1).queue(0).mark(0)), nullptr);
        std::vector<rte_flow_op_result> results(kRules);
        while (table.pull(0, results, &error) > 0)
            ;
        before = allocations();
        for (uint32_t n = 4; n < kRules; ++n)
            EXPECT_EQ(table.async_destroy(1, made[n], nullptr, &error), 0);
        EXPECT_EQ(allocations() - before, 0u);
        while (table.pull(1, results, &error) > 0)
            ;
    }
}

TEST_F(TemplateTest, QueuesStayAsTheyAreWhileResultsAreNotPulled) {
    configure(2);
    start();
    int data = 0;
    ASSERT_NE(enqueue(marking_table(2), flow(1, 1).queue(0).mark(0), &data), nullptr);
    const rte_flow_port_attr port{};
    const rte_flow_queue_attr queue{8};
    const rte_flow_queue_attr* sizes[] = {&queue};
    EXPECT_EQ(table.configure(port, sizes, &error), -EBUSY);
    EXPECT_THAT(error.message, HasSubstr("flow queue 0 has results that are not pulled (1)"));
    std::array<rte_flow_op_result, 4> results{};
    EXPECT_EQ(table.pull(1, results, &error), 0) << "there are two queues, still";
    ASSERT_EQ(table.pull(0, results, &error), 1);
    EXPECT_EQ(results[0].user_data, &data);
    EXPECT_EQ(table.configure(port, sizes, &error), 0) << error.message;
    EXPECT_EQ(table.pull(1, results, &error), -EINVAL);
}

TEST_F(TemplateTest, QueuesAreAsManyAndAsLongAsIsTold) {
    rte_flow_port_info limits;
    rte_flow_queue_info longest;
    ASSERT_EQ(FlowTable::info(&limits, &longest), 0);
    EXPECT_GE(limits.max_nb_counters, 100'000u);
    EXPECT_GE(limits.max_nb_aging_objects, 100'000u);
    EXPECT_EQ(limits.max_nb_meters, 0u);
    rte_flow_queue_attr queue{1};
    std::vector<const rte_flow_queue_attr*> sizes(limits.max_nb_queues, &queue);
    EXPECT_EQ(table.configure({}, sizes, &error), 0) << error.message;
    EXPECT_EQ(table.push(limits.max_nb_queues - 1, &error), 0);
    EXPECT_EQ(table.push(limits.max_nb_queues, &error), -EINVAL);
    sizes.push_back(&queue);
    EXPECT_EQ(table.configure({}, sizes, &error), -EINVAL);
    sizes.resize(1);
    for (const uint32_t size : {longest.max_size, longest.max_size + 1}) {
        queue.size = size;
        EXPECT_EQ(table.configure({}, sizes, &error), size > longest.max_size ? -EINVAL : 0);
    }
}

TEST_F(TemplateTest, QueuesGiveEachResultOnce) {
    configure(2);
    start();
    auto* const of = marking_table(2);
    int data[3];
    ASSERT_NE(enqueue(of, flow(1, 1).queue(0).mark(0), &data[0]), nullptr);
    rte_flow* const second = enqueue(of, flow(1, 2).queue(0).mark(0), &data[1]);
    EXPECT_EQ(enqueue(of, flow(1, 3).queue(0).mark(0)), nullptr);
    EXPECT_EQ(rte_errno, EAGAIN);
    EXPECT_THAT(error.message, HasSubstr("call rte_flow_pull"));
    EXPECT_EQ(table.async_destroy(0, second, nullptr, &error), -EAGAIN);
    EXPECT_THAT(device.flows, SizeIs(2));
    std::array<rte_flow_op_result, 4> results{};
    ASSERT_EQ(table.pull(0, results, &error), 2);
    EXPECT_EQ(results[0].user_data, &data[0]);
    EXPECT_EQ(results[1].user_data, &data[1]);
    EXPECT_EQ(results[1].status, RTE_FLOW_OP_SUCCESS);
    EXPECT_EQ(table.pull(0, results, &error), 0);

    EXPECT_EQ(enqueue(of, flow(1, 3).queue(0).mark(0)), nullptr);
    EXPECT_EQ(rte_errno, ENOSPC);
    EXPECT_THAT(error.message, HasSubstr("all rules of the table are in use"));
    EXPECT_EQ(table.async_destroy(0, second, &data[2], &error), 0);
    EXPECT_NE(enqueue(of, flow(1, 3).queue(0).mark(0)), nullptr) << error.message;
    EXPECT_EQ(table.pull(0, results, &error), 2);
    EXPECT_EQ(results[0].user_data, &data[2]);
    EXPECT_EQ(table.async_destroy(7, second, nullptr, &error), -EINVAL);
    EXPECT_THAT(error.message, HasSubstr("no flow queue 7"));
}

TEST_F(TemplateTest, StopAndStartKeepTheRules) {
    configure(8);
    auto* const of = marking_table(2);
    ASSERT_NE(of, nullptr) << error.message;
    ASSERT_NE(enqueue(of, flow(1, 1).queue(3).mark(9)), nullptr) << error.message;
    EXPECT_THAT(device.flows, IsEmpty());
    start();
    EXPECT_THAT(device.flows, SizeIs(1));
    table.stop();
    EXPECT_THAT(device.flows, IsEmpty());
    start();
    EXPECT_EQ(device.flows[0]->qp->queues, std::vector<uint16_t>{3});
}

/// Operations are refused at once, and not by the next start.
TEST_F(TemplateTest, ATableMayNameAQueueThatIsGone) {
    configure(8);
    auto* const of =
        table_of(pattern_of(flow(0, 0)), actions_of(Rule().queue(3), Rule().queue(3)), 2);
    ASSERT_NE(of, nullptr) << error.message;
    start();
    table.stop();
    device.rx_queues.configured = 2;
    EXPECT_EQ(enqueue(of, flow(1, 1)), nullptr);
    EXPECT_EQ(rte_errno, EINVAL);
    EXPECT_THAT(error.message, HasSubstr("Rx queue 3, and the port has 2"));
    device.rx_queues.configured = 4;
    EXPECT_NE(enqueue(of, flow(1, 1)), nullptr) << error.message;
    start();
    EXPECT_THAT(device.flows, SizeIs(1));
}

/// With verbs, which reads no counters of a stopped port: known counts are not the next rule's.
TEST_F(TemplateTest, OfAStoppedPortARuleThatFollowsHasCountedNothing) {
    device.offers_counters = true;
    configure(64);
    start();
    const auto hits = [&](rte_flow* rule) {
        const rte_flow_action action{RTE_FLOW_ACTION_TYPE_COUNT, nullptr};
        rte_flow_query_count result{};
        EXPECT_EQ(table.query(rule, &action, &result, &error), 0) << error.message;
        return result.hits;
    };
    const Rule counting = Rule().queue(1).action(RTE_FLOW_ACTION_TYPE_COUNT);
    auto* const of = table_of(pattern_of(flow(0, 0)), actions_of(counting, counting), 1);
    ASSERT_NE(of, nullptr) << error.message;
    rte_flow* const former = enqueue(of, flow(1, 1));
    ASSERT_NE(former, nullptr) << error.message;
    ASSERT_THAT(device.counters, SizeIs(1));
    device.counters[0]->packets = 5;
    EXPECT_EQ(hits(former), 5u);
    table.stop();
    EXPECT_EQ(table.async_destroy(0, former, nullptr, &error), 0);
    rte_flow* const next = enqueue(of, flow(1, 2));
    ASSERT_NE(next, nullptr) << error.message;
    EXPECT_EQ(hits(next), 0u);
    EXPECT_EQ(table.destroy(next, &error), 0);
    EXPECT_EQ(table.destroy(of, &error), 0);
}

TEST_F(TemplateTest, AFailureOfTheDeviceLeavesNothing) {
    configure(8);
    start();
    auto* const of = marking_table(1);
    const Rule rule = flow(1, 1).queue(3).mark(9);
    for (int nth = 1;; ++nth) {
        device.fail_call(nth, ENOMEM);
        if (enqueue(of, rule) != nullptr) break;
        EXPECT_EQ(rte_errno, ENOMEM);
        EXPECT_THAT(device.flows, IsEmpty());
    }
    std::array<rte_flow_op_result, 8> results{};
    EXPECT_EQ(table.pull(0, results, &error), 1);
}

TEST_F(TemplateTest, LifeOfTemplatesAndTables) {
    configure(8);
    start();
    auto* const pattern = pattern_of(flow(0, 0));
    auto* const actions = actions_of(Rule().queue(1), Rule().queue(0));
    auto* const of = table_of(pattern, actions, 2);
    ASSERT_NE(of, nullptr) << error.message;
    EXPECT_EQ(table.destroy(pattern, &error), -EBUSY);
    EXPECT_STREQ(error.message,
                 "this pattern template has 1 template table made of it: destroy it first");
    EXPECT_EQ(table.destroy(actions, &error), -EBUSY);
    rte_flow* const rule = enqueue(of, flow(1, 1).queue(0));
    EXPECT_EQ(table.destroy(of, &error), -EBUSY);
    EXPECT_EQ(table.destroy(rule, &error), 0);
    EXPECT_EQ(table.destroy(of, &error), 0);
    EXPECT_EQ(enqueue(of, flow(1, 1).queue(0)), nullptr);
    EXPECT_THAT(error.message, HasSubstr("no such template table"));
    EXPECT_EQ(table.destroy(of, &error), -EINVAL);
    EXPECT_EQ(table.destroy(pattern, &error), 0);
    EXPECT_EQ(table_of(pattern, actions, 2), nullptr);
    EXPECT_EQ(table.destroy(actions, &error), 0);
    EXPECT_EQ(table.destroy(actions, &error), -EINVAL);
}

TEST_F(TemplateTest, SharedRssOfATableIsUpdated) {
    configure(8);
    start();
    const uint16_t queues[] = {0, 1, 2, 3};
    rte_flow_action_rss conf{};
    conf.types = RTE_ETH_RSS_NONFRAG_IPV4_UDP;
    conf.queue = queues;
    conf.queue_num = 2;
    rte_flow_action rss{};
    rss.type = RTE_FLOW_ACTION_TYPE_RSS;
    rss.conf = &conf;
    rte_flow_indir_action_conf directions{};
    directions.ingress = 1;
    auto* const handle = table.share(&directions, &rss, &error);
    const Rule actions = Rule().indirect(handle);
    auto* const of = table_of(pattern_of(flow(0, 0)), actions_of(actions, actions), 1);
    ASSERT_NE(of, nullptr) << error.message;
    for (int round = 0; round < 2; ++round) {
        rte_flow* const rule = enqueue(of, flow(1, 1).indirect(handle));
        ASSERT_NE(rule, nullptr) << error.message;
        conf.queue = queues + 2 - 2 * round;
        ASSERT_EQ(table.update_shared(handle, &rss, &error), 0) << error.message;
        EXPECT_EQ(device.flows[0]->qp->queues.front(), 2 - 2 * round);
        ASSERT_EQ(table.destroy(rule, &error), 0);
    }
    EXPECT_EQ(table.destroy(of, &error), 0);
}

/// What follows the end of a rule's list is not part of it. What the template fixes may be omitted.
TEST_F(TemplateTest, AListIsNotReadPastItsEnd) {
    configure(8);
    start();
    auto* const of = table_of(pattern_of(flow(0, 0)),
                              actions_of(Rule().mark(1).queue(1), Rule().mark(1).queue(0)), 8);
    ASSERT_NE(of, nullptr) << error.message;
    const Rule rule = flow(1, 1).mark(1).queue(2);
    const std::vector<rte_flow_item> items(rule.pattern(), rule.pattern() + 5);
    const std::vector<rte_flow_action> actions(rule.actions(), rule.actions() + 3);
    const auto make = [&](const auto& its_items, const auto& its_actions) {
        return table.async_create(0, of, its_items.data(), 0, its_actions.data(), 0, nullptr,
                                  &error);
    };
    auto ended = items;
    ended[1].type = RTE_FLOW_ITEM_TYPE_END; // before all items with values
    EXPECT_EQ(make(ended, actions), nullptr);
    EXPECT_EQ(rte_errno, EINVAL);
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ITEM);
    EXPECT_EQ(error.cause, &ended[1]);
    EXPECT_THAT(error.message, HasSubstr("item end in place of the template's ipv4"));
    auto does = actions;
    does[0].type = RTE_FLOW_ACTION_TYPE_END;
    EXPECT_EQ(make(items, does), nullptr);
    EXPECT_EQ(rte_errno, EINVAL);
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ACTION);
    EXPECT_EQ(error.cause, &does[0]);
    EXPECT_THAT(error.message, HasSubstr("action end in place of the template's queue"));
    EXPECT_NE(make(items, actions), nullptr) << error.message;
}

TEST_F(TemplateTest, Refusals) {
    configure(8);
    start();
    auto eth = zeroed<rte_flow_item_eth>();
    auto eth_mask = eth;
    eth_mask.hdr.ether_type = 0xffff;
    EXPECT_THAT(refused_pattern(Rule().item(RTE_FLOW_ITEM_TYPE_ETH, &eth, &eth_mask)),
                HasSubstr("item eth: field type decides"));
    eth_mask = zeroed<rte_flow_item_eth>();
    eth_mask.has_vlan = 1;
    EXPECT_THAT(refused_pattern(Rule().item(RTE_FLOW_ITEM_TYPE_ETH, &eth, &eth_mask)),
                HasSubstr("item eth: field has_"));
    auto ipv4 = zeroed<rte_flow_item_ipv4>(), ipv4_mask = ipv4;
    ipv4_mask.hdr.next_proto_id = 0xff;
    const Rule with_proto =
        Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_IPV4, &ipv4, &ipv4_mask);
    EXPECT_NE(pattern_of(with_proto), nullptr) << error.message;
    EXPECT_THAT(
        refused_pattern(
            Rule(with_proto).item(RTE_FLOW_ITEM_TYPE_VOID).item(RTE_FLOW_ITEM_TYPE_UDP)),
        HasSubstr("item ipv4: item udp after it decides field proto, which cannot be a rule's"));
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ITEM_MASK);
    const rte_flow_item_gre gre_mask{.c_rsvd0_ver = 0, .protocol = 0xffff};
    const rte_flow_item_gre gre{};
    const auto keyed = Rule()
                           .item(RTE_FLOW_ITEM_TYPE_IPV4)
                           .item(RTE_FLOW_ITEM_TYPE_GRE, &gre, &gre_mask)
                           .item(RTE_FLOW_ITEM_TYPE_GRE_KEY);
    EXPECT_NE(pattern_of(keyed), nullptr) << error.message;
    EXPECT_THAT(refused_pattern(Rule(keyed).item(RTE_FLOW_ITEM_TYPE_ETH)),
                HasSubstr("item gre: item eth after it decides field protocol"));
    EXPECT_THAT(refused_pattern(Rule().item(RTE_FLOW_ITEM_TYPE_UDP)), HasSubstr("out of order"));
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ITEM);
    rte_flow_pattern_template_attr relaxed{};
    relaxed.relaxed_matching = 1;
    // Its first item has no mask, and every packet has that header.
    EXPECT_NE(table.create_pattern_template(relaxed, flow(0, 0).pattern(), &error), nullptr)
        << error.message;
    const Rule any_ipv4 = Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_IPV4);
    EXPECT_EQ(table.create_pattern_template(relaxed, any_ipv4.pattern(), &error), nullptr);
    EXPECT_THAT(error.message, HasSubstr("item ipv4: relaxed matching would skip it"));
    EXPECT_EQ(error.cause, any_ipv4.pattern() + 1);
    // A template applies only to the directions that it names.
    rte_flow_pattern_template_attr of_sent{};
    of_sent.egress = 1;
    auto* const sent = table.create_pattern_template(of_sent, flow(0, 0).pattern(), &error);
    auto* const to_queue = actions_of(Rule().queue(1), Rule().queue(0));
    EXPECT_EQ(table_of(sent, to_queue, 1), nullptr);
    EXPECT_THAT(
        error.message,
        HasSubstr("a table of ingress rules with a pattern template that was made for egress"));
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ATTR);
    auto* received = pattern_of(flow(0, 0));
    auto* queueing = to_queue;
    rte_flow_template_table_attr late{};
    late.flow_attr.group = late.flow_attr.ingress = 1;
    late.flow_attr.priority = 4096;
    late.nb_flows = 1;
    EXPECT_EQ(table.create_template_table(late, {&received, 1}, {&queueing, 1}, &error), nullptr);
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY);
    EXPECT_EQ(error.cause, &late.flow_attr) << "the application's own";
    rte_flow_actions_template_attr of_switch{};
    of_switch.transfer = 1;
    auto* const switched = table.create_actions_template(of_switch, Rule().queue(1).actions(),
                                                         Rule().queue(0).actions(), &error);
    EXPECT_EQ(table_of(pattern_of(flow(0, 0)), switched, 1), nullptr);
    EXPECT_THAT(error.message, HasSubstr("with an actions template that was made for transfer"));

    EXPECT_THAT(refused_actions(Rule().queue(0), Rule().mark(0)), HasSubstr("not those of the"));
    const Rule rss = Rule().rss({0, 1});
    EXPECT_THAT(refused_actions(rss, Rule().queue(0)), HasSubstr("at that of rss"));
    // Tables refuse what translation refuses.
    auto* const pattern = pattern_of(flow(0, 0));
    EXPECT_EQ(table_of(pattern, actions_of(Rule().mark(1), Rule().mark(1)), 1), nullptr);
    EXPECT_THAT(error.message, HasSubstr("no fate action"));
    EXPECT_EQ(table_of(pattern, actions_of(Rule().queue(9), Rule().queue(0xffff)), 1), nullptr);
    EXPECT_THAT(error.message, HasSubstr("no Rx queue 9"));
    auto* const actions = actions_of(Rule().queue(1).mark(1), Rule().queue(0).mark(0));
    EXPECT_EQ(table_of(pattern, actions, 0), nullptr);
    EXPECT_THAT(error.message, HasSubstr("a table of 0 rules"));
    auto* const of = table_of(pattern, actions, 1);
    EXPECT_EQ(enqueue(of, flow(1, 1).queue(9).mark(0)), nullptr);
    EXPECT_THAT(error.message, HasSubstr("no Rx queue 9"));
    EXPECT_EQ(enqueue(of, flow(1, 1).queue(0).mark(kMarkMax + 1)), nullptr);
    EXPECT_THAT(error.message, HasSubstr("does not fit"));
    EXPECT_EQ(enqueue(of, flow(1, 1).mark(0).queue(0)), nullptr);
    EXPECT_THAT(error.message, HasSubstr("in place of the template's queue"));
    const Rule bare = Rule()
                          .item(RTE_FLOW_ITEM_TYPE_ETH)
                          .item(RTE_FLOW_ITEM_TYPE_VOID)
                          .item(RTE_FLOW_ITEM_TYPE_IPV4)
                          .item(RTE_FLOW_ITEM_TYPE_UDP)
                          .queue(0)
                          .mark(0);
    EXPECT_EQ(enqueue(of, bare), nullptr);
    EXPECT_THAT(error.message, HasSubstr("in place of the template's ipv4 with a spec"));
    EXPECT_EQ(
        table.async_create(0, of, flow(1, 1).pattern(), 1, bare.actions(), 0, nullptr, &error),
        nullptr);
    EXPECT_THAT(error.message, HasSubstr("pattern template 1 and actions template 0"));
    EXPECT_THAT(device.flows, IsEmpty());

    rte_flow_port_attr port{};
    port.nb_counters = 1; // created with tables
    EXPECT_EQ(table.configure(port, {}, &error), 0);
    for (const auto member : {&rte_flow_port_attr::nb_meters, &rte_flow_port_attr::nb_conn_tracks,
                              &rte_flow_port_attr::flags}) {
        rte_flow_port_attr wanted{};
        wanted.*member = 1;
        EXPECT_EQ(table.configure(wanted, {}, &error), -ENOTSUP);
        EXPECT_THAT(error.message, HasSubstr(wanted.flags != 0 ? "leave out RTE_FLOW_PORT_FLAG"
                                                               : "made in advance: ask for none"));
    }
    for (const uint32_t unknown : {0u, 7u})
        EXPECT_EQ(table.push(unknown, &error), -EINVAL) << "there are no flow queues";
}

} // namespace
} // namespace rawqp::test
