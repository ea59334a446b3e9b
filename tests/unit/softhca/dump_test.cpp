// SPDX-License-Identifier: BSD-3-Clause
// What `softhca dump` shows, and that every field of a rule has a name.
#include "app/softhca/core/describe.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

namespace {

using namespace testbed;
using nlohmann::json;

json row_of(const json& rows, const char* key, uint64_t value) {
    for (const json& row : rows)
        if (row.at(key) == value) return row;
    ADD_FAILURE() << "nothing with " << key << " " << value << " in " << rows;
    return json::object();
}

class DumpTest : public Testbed {};

TEST_F(DumpTest, EveryObjectSaysWhatItRefersTo) {
    const Number rqt = *device->create_rqt(std::vector{rq.number});
    TirAttr spread;
    spread.rqt = rqt;
    spread.fields = {.src_ip = true, .dst_ip = true};
    const Number tir = *device->create_tir(spread);
    FlowAttr flow;
    flow.priority = 3;
    flow.mask.outer.dst_port = 0xffff;
    flow.value.outer.dst_port = 4789;
    flow.tag = 9;
    flow.tirs = {tir};
    const Number rule = *device->create_flow(flow);

    const json dump = device->dump();
    EXPECT_EQ(dump["device"], "mlx5_0");
    EXPECT_EQ(row_of(dump["rqts"], "number", rqt)["rqs"], json{rq.number});
    const json shown_tir = row_of(dump["tirs"], "number", tir);
    EXPECT_EQ(shown_tir["rqt"], rqt);
    EXPECT_EQ(shown_tir["hashes"], (json{"src_ip", "dst_ip"}));
    const json shown_rule = row_of(dump["rules"], "number", rule);
    EXPECT_EQ(shown_rule["domain"], "bypass");
    EXPECT_EQ(shown_rule["match"], (json{{"dst_port", "4789"}}));
    EXPECT_EQ(shown_rule["tag"], 9);
    EXPECT_EQ(shown_rule["to_tirs"], json{tir});
    EXPECT_EQ(row_of(dump["sqs"], "number", sq.number)["cq"], tx_cq.number);
    EXPECT_EQ(row_of(dump["cqs"], "number", rx_cq.number)["entries"], 128);
    EXPECT_EQ(row_of(dump["mkeys"], "number", lkey >> 8)["bytes"], kMemory);
    EXPECT_EQ(row_of(dump["pds"], "number", pd)["users"], 3) << "a key, an SQ, an RQ";
}

TEST_F(DumpTest, RingsShowWhatIsPosted) {
    const std::byte* const frame = put(0, frames::build(frames::Spec{}));
    const uint16_t good = sq.post(Wqe(mlx5::WqeOpcode::send).eth().data(lkey, frame, 60));
    const uint16_t bad = sq.post(Wqe(static_cast<mlx5::WqeOpcode>(0x55)).eth());
    sq.ring_doorbell();
    post_buffers(rq, 6);

    const json posted = device->dump()["posted"];
    const json sent = row_of(posted, "index", good);
    EXPECT_EQ(sent["queue"], sq.number);
    EXPECT_EQ(sent["kind"], "SEND");
    EXPECT_EQ(sent["segments"], 1);
    EXPECT_EQ(sent["memory"],
              json{fmt::format("{:#x}:{:#x}+60", lkey, reinterpret_cast<uintptr_t>(frame))});
    EXPECT_EQ(row_of(posted, "index", bad)["will_fail"], "unknown opcode");
    const auto of_rq =
        std::ranges::count_if(posted, [&](const json& row) { return row["queue"] == rq.number; });
    EXPECT_EQ(of_rq, 4) << "the oldest ones";
    EXPECT_EQ(device->sq_counters(sq.number)->wqes, 0u) << "looking executes nothing";
}

TEST_F(DumpTest, FlowTablesAreFlat) {
    FlowKey udp;
    udp.outer.ip_proto = 0xff;
    const Number table = *device->create_flow_table({.level = 2, .log_size = 3});
    const Number group = *device->create_flow_group(table, {.first = 4, .last = 7, .mask = udp});
    const Number counter = *device->create_flow_counters();
    ASSERT_TRUE(device->create_flow_counters(128)) << "of these, only those in use are shown";
    const Number edits = *device->create_header_edits(
        {{HeaderEdit::Kind::set, {EditField::ipv4_ttl, 0, 8}, {}, 64}});
    udp.outer.ip_proto = 17;
    ASSERT_TRUE(device->set_flow_entry(table, 5,
                                       {.group = group,
                                        .value = udp,
                                        .tirs = {direct_tir(rq)},
                                        .counters = {counter},
                                        .rewrite = {.edits = edits}}));
    ASSERT_TRUE(device->set_flow_table_root(table));

    const json dump = device->dump();
    EXPECT_EQ(row_of(dump["flow_tables"], "number", table)["root_of"], json{"receive"});
    EXPECT_EQ(row_of(dump["flow_groups"], "number", group)["fields"], json{"ip_proto"});
    const json entry = row_of(dump["flow_entries"], "index", 5);
    EXPECT_EQ(entry["table"], table);
    EXPECT_EQ(entry["match"], (json{{"ip_proto", "17"}}));
    EXPECT_EQ(entry["counters"], json{counter});
    EXPECT_EQ(entry["changes"], fmt::format("header edits {}", edits));
    EXPECT_EQ(row_of(dump["header_edits"], "number", edits)["edits"],
              json{"set ipv4_ttl[7:0] = 0x40"});
    EXPECT_EQ(row_of(dump["flow_counters"], "number", counter)["packets"], 0);
    EXPECT_EQ(dump["flow_counters"].size(), 1u);
}

std::string text(const FieldTexts& fields) {
    std::string all;
    for (const auto& [name, value] : fields)
        all += (all.empty() ? "" : " ") + name + "=" + value;
    return all;
}

TEST(Describe, ValuesAndMasks) {
    FlowKey value, mask;
    value.outer.dst_mac = frames::kOurMac;
    mask.outer.dst_mac.fill(0xff);
    value.outer.src_ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 1, 0, 0};
    mask.outer.src_ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0};
    value.outer.vlan_tci = 5;
    mask.outer.vlan_tci = 0xfff;
    value.outer.ip_version = 4;
    mask.outer.ip_version = 0xf; // all of its bits
    value.inner.dst_ip = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    mask.inner.dst_ip.fill(0xff);
    value.tunnel.vxlan_vni = 77;
    mask.tunnel.vxlan_vni = 0xffffffff;
    value.meta.reg_c[3] = 0x10;
    mask.meta.reg_c[3] = 0xf0;
    EXPECT_EQ(text(describe_fields(value, mask)),
              "dst_mac=02:15:b3:00:00:01 vlan_tci=5&0xfff ip_version=4 src_ip=10.1.0.0/16 "
              "vxlan_vni=77 "
              "inner.dst_ip=fd00::1 reg_c3=0x10&0xf0");
    mask.outer.src_ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 255, 0};
    EXPECT_TRUE(text(describe_fields(value, mask)).find("src_ip=10.1.0.0&255.0.255.0") !=
                std::string::npos);
}

TEST(Describe, EveryByteOfAKeyHasANameOfItsOwn) {
    std::set<size_t> nameless;
    std::map<std::string, std::set<size_t>> named;
    for (size_t at = 0; at < sizeof(FlowKey); at++) {
        FlowKey mask;
        const uint8_t every_bit = 0xff;
        std::memcpy(reinterpret_cast<std::byte*>(&mask) + at, &every_bit, 1);
        const FieldTexts fields = describe_fields({}, mask);
        EXPECT_LE(fields.size(), 1u) << "byte " << at;
        if (fields.empty())
            nameless.insert(at);
        else
            named[fields[0].first].insert(at);
    }
    for (const auto& [name, bytes] : named)
        EXPECT_EQ(*bytes.rbegin() - *bytes.begin() + 1, bytes.size()) << name << " is two fields";
    std::set<size_t> reserved;
    const auto add = [&](size_t first, size_t bytes) {
        for (size_t i = 0; i < bytes; i++)
            reserved.insert(first + i);
    };
    add(offsetof(FlowKey, tunnel.reserved), 3);
    add(offsetof(FlowKey, tunnel.reserved1), 4);
    add(offsetof(FlowKey, meta.reg_b), 8); // which no rule matches, and padding
    EXPECT_EQ(nameless, reserved);
}

} // namespace
