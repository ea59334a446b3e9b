// SPDX-License-Identifier: BSD-3-Clause
// The numbers of TCP, which testpmd cannot ask for, as fields of a template table: software
// steering serves its group. FlowFields has them in group 0.
#include "tests/functional/ethdev/flow_rules.hpp"

#include <array>

namespace test {
namespace {

class FlowNumbers : public FlowRules {
  protected:
    static constexpr uint32_t kSequence = 0x89abcdef, kAck = 0x13579bdf;
    static constexpr rte_flow_item_ipv4 kAny{};
    static constexpr rte_flow_item kEnd{
        .type = RTE_FLOW_ITEM_TYPE_END, .spec = nullptr, .last = nullptr, .mask = nullptr};

    void SetUp() override {
        ASSERT_NO_FATAL_FAILURE(PortTest::SetUp());
        ASSERT_EQ(rte_eth_dev_stop(kPort), 0);
        const rte_flow_port_attr port{};
        const rte_flow_queue_attr queue{.size = 8};
        const rte_flow_queue_attr* queues[] = {&queue};
        ASSERT_EQ(rte_flow_configure(kPort, &port, 1, queues, &error), 0) << error.message;
        ASSERT_EQ(rte_eth_dev_start(kPort), 0);
    }
    /// A table of group 1 for rules with this mask, and a jump there.
    void make_table(const rte_flow_item_tcp& mask) {
        rte_flow_pattern_template_attr pattern_attr{};
        pattern_attr.relaxed_matching = pattern_attr.ingress = 1;
        const rte_flow_item items[] = {ipv4(nullptr, &kAny), tcp(nullptr, &mask), kEnd};
        pattern = rte_flow_pattern_template_create(kPort, &pattern_attr, items, &error);
        ASSERT_NE(pattern, nullptr) << error.message;
        rte_flow_actions_template_attr actions_attr{};
        actions_attr.ingress = 1;
        actions = rte_flow_actions_template_create(kPort, &actions_attr, to_queue.data(),
                                                   to_queue.data(), &error);
        ASSERT_NE(actions, nullptr) << error.message;
        rte_flow_template_table_attr attr{};
        attr.flow_attr.group = 1;
        attr.flow_attr.ingress = 1;
        attr.nb_flows = 4;
        table = rte_flow_template_table_create(kPort, &attr, &pattern, 1, &actions, 1, &error);
        ASSERT_NE(table, nullptr) << error.message;
        const rte_flow_action_jump jump{.group = 1};
        const rte_flow_item all[] = {ipv4(nullptr, nullptr), kEnd};
        const rte_flow_action way{.type = RTE_FLOW_ACTION_TYPE_JUMP, .conf = &jump};
        ASSERT_NE(try_rule(all, way, error), nullptr) << error.message;
    }
    void destroy_table() {
        EXPECT_EQ(rte_flow_flush(kPort, &error), 0) << error.message;
        EXPECT_EQ(rte_flow_template_table_destroy(kPort, table, &error), 0) << error.message;
        EXPECT_EQ(rte_flow_actions_template_destroy(kPort, actions, &error), 0) << error.message;
        EXPECT_EQ(rte_flow_pattern_template_destroy(kPort, pattern, &error), 0) << error.message;
    }
    [[nodiscard]] rte_flow* add(const rte_flow_item_tcp& spec) {
        const rte_flow_op_attr now{};
        const rte_flow_item items[] = {ipv4(&kAny, nullptr), tcp(&spec, nullptr), kEnd};
        rte_flow* const rule = rte_flow_async_create(kPort, 0, &now, table, items, 0,
                                                     to_queue.data(), 0, nullptr, &error);
        EXPECT_NE(rule, nullptr) << error.message;
        if (rule != nullptr) finish();
        return rule;
    }
    void remove(rte_flow* rule) {
        const rte_flow_op_attr now{};
        EXPECT_EQ(rte_flow_async_destroy(kPort, 0, &now, rule, nullptr, &error), 0)
            << error.message;
        finish();
    }
    /// Waits for the operation that was enqueued.
    void finish() {
        ASSERT_EQ(rte_flow_push(kPort, 0, &error), 0) << error.message;
        rte_flow_op_result result{};
        int pulled = 0;
        ASSERT_TRUE(wait(10000, [&] {
            pulled = rte_flow_pull(kPort, 0, &result, 1, &error);
            return pulled != 0;
        }));
        ASSERT_EQ(pulled, 1) << error.message;
        EXPECT_EQ(result.status, RTE_FLOW_OP_SUCCESS);
    }
    [[nodiscard]] static rte_flow_item ipv4(const rte_flow_item_ipv4* spec,
                                            const rte_flow_item_ipv4* mask) {
        return {.type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = spec, .last = nullptr, .mask = mask};
    }
    [[nodiscard]] static rte_flow_item tcp(const rte_flow_item_tcp* spec,
                                           const rte_flow_item_tcp* mask) {
        return {.type = RTE_FLOW_ITEM_TYPE_TCP, .spec = spec, .last = nullptr, .mask = mask};
    }
    [[nodiscard]] static rte_flow_item_tcp numbers(uint32_t sequence, uint32_t ack) {
        rte_flow_item_tcp item{};
        item.hdr.sent_seq = rte_cpu_to_be_32(sequence);
        item.hdr.recv_ack = rte_cpu_to_be_32(ack);
        return item;
    }
    /// IPv4 and TCP.
    [[nodiscard]] static Frame segment(uint32_t sequence, uint32_t ack) {
        constexpr size_t kL3 = 14, kL4 = 34;
        Frame made = frame(1, 80, RTE_ETHER_TYPE_IPV4);
        std::fill(made.begin() + kL3, made.end(), uint8_t{0});
        auto& ip = *reinterpret_cast<rte_ipv4_hdr*>(&made[kL3]);
        ip.version_ihl = RTE_IPV4_VHL_DEF;
        ip.total_length = rte_cpu_to_be_16(static_cast<uint16_t>(made.size() - kL3));
        ip.next_proto_id = IPPROTO_TCP;
        ip.time_to_live = 64;
        auto& header = *reinterpret_cast<rte_tcp_hdr*>(&made[kL4]);
        header.data_off = sizeof header / 4 << 4;
        header.sent_seq = rte_cpu_to_be_32(sequence);
        header.recv_ack = rte_cpu_to_be_32(ack);
        return made;
    }
    /// Nothing takes what misses in the group, so another packet shows that it has been lost.
    [[nodiscard]] static bool is_taken(const Frame& packet) {
        EXPECT_TRUE(send(mbuf_of(rx_pool(), packet)));
        EXPECT_TRUE(send(mbuf_of(rx_pool(), frame(2))));
        bool taken = false;
        EXPECT_TRUE(wait(10000, [&] {
            if (rte_mbuf* const got = receive(1, 0)) {
                rte_pktmbuf_free(got);
                taken = true;
            }
            rte_mbuf* const last = receive(0, 0);
            rte_pktmbuf_free(last);
            return last != nullptr;
        }));
        if (rte_mbuf* const got = receive(1, 0)) {
            rte_pktmbuf_free(got);
            taken = true;
        }
        return taken;
    }

    const rte_flow_action_queue one{.index = 1};
    const std::array<rte_flow_action, 2> to_queue{
        {{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &one},
         {.type = RTE_FLOW_ACTION_TYPE_END, .conf = nullptr}}};
    rte_flow_error error{};
    rte_flow_pattern_template* pattern = nullptr;
    rte_flow_actions_template* actions = nullptr;
    rte_flow_template_table* table = nullptr;
};

TEST_F(FlowNumbers, EntriesOfSoftwareSteeringMatchThemBitByBit) {
    struct Case {
        const char* name;
        uint32_t sequence, ack; ///< masks
    };
    for (const Case& one_of : {Case{"sequence", ~0u, 0},
                               {"ack", 0, ~0u},
                               {"both", ~0u, ~0u},
                               {"some bits", 0x00ff00f0, 0x80000001}}) {
        SCOPED_TRACE(one_of.name);
        ASSERT_NO_FATAL_FAILURE(make_table(numbers(one_of.sequence, one_of.ack)));
        rte_flow* const rule = add(numbers(kSequence & one_of.sequence, kAck & one_of.ack));
        ASSERT_NE(rule, nullptr);
        const std::string dump =
            written([&](FILE* file) { return rte_flow_dev_dump(kPort, nullptr, file, &error); });
        EXPECT_NE(dump.find("(by software steering)"), dump.npos) << dump;
        EXPECT_TRUE(is_taken(segment(kSequence, kAck)));
        EXPECT_TRUE(is_taken(segment(kSequence ^ ~one_of.sequence, kAck ^ ~one_of.ack)));
        for (unsigned bit = 0; bit < 32; ++bit) {
            const uint32_t flip = 1u << bit;
            EXPECT_EQ(is_taken(segment(kSequence ^ flip, kAck)), !(one_of.sequence & flip)) << bit;
            EXPECT_EQ(is_taken(segment(kSequence, kAck ^ flip)), !(one_of.ack & flip)) << bit;
        }
        remove(rule);
        EXPECT_FALSE(is_taken(segment(kSequence, kAck)));
        destroy_table();
    }
}

} // namespace
} // namespace test
