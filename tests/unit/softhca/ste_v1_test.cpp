// SPDX-License-Identifier: BSD-3-Clause
// Software steering: hand-made entries of format 1, and what they do to packets.
#include "common/net/parse.hpp"
#include "tests/unit/softhca/meters.hpp"
#include "tests/unit/softhca/ste_v1.hpp"

#include <random>

namespace {

using namespace testbed;
using namespace softhca::core::ste;
using frames::Spec;

constexpr uint16_t kL2Source = 0x005, kIpv4Tuple = 0x007, kRegisters = 0x10f;
constexpr uint8_t kTtlField = 0x0e, kL4Ports = 0x18, kReg0 = 0x90, kReg1 = 0x91;

using SteV1Test = SteV1Bed;

TEST_F(SteV1Test, AnEntryThatMatchesLeadsToItsTirWithATag) {
    receives();
    Spec spec;
    MaskSte made = mask_ste(to_tir(tir), Actions().flow_tag(0x1234));
    want(made, kL2Source, 4, Bytes(spec.src.begin(), spec.src.end()));
    put_ste(0, made);
    post_buffers(rq, 1);
    receive(frames::build(spec));
    EXPECT_EQ(expect_packet(rx_cq).sop_drop_qpn, 0x1234u);
    spec.src[5] ^= 1;
    receive(frames::build(spec));
    EXPECT_EQ(device->counters().delivered, 1u);
    EXPECT_EQ(device->counters().drop_rule, 1u) << "the miss address is that of drops";
}

TEST_F(SteV1Test, TheHashOfTheMaskedTagPicksTheEntry) {
    receives();
    constexpr unsigned kFirst = 64, kEntries = 64;
    MaskSte root = mask_ste(entry_at(kFirst), {}, kEntries);
    root.head.next_definer = kIpv4Tuple;
    root.byte_mask = 0x0030; // bytes 10 and 11: the destination port
    put_ste(0, root);
    for (uint16_t port = 1; port < 20; port++) {
        Spec spec;
        spec.dst_port = port;
        Tag tag{};
        net::store_be(tag.data() + 10, port);
        const unsigned index = mlx5_rings::ste_format(1).hash({.hashed = 0xffff}, tag) % kEntries;
        for (unsigned i = 0; i < kEntries; i++)
            put_ste(kFirst + i, mask_ste(to_drop()));
        put_ste(kFirst + index, mask_ste(to_tir(tir)));
        EXPECT_EQ(passed(frames::build(spec)), frames::build(spec)) << port;
    }
}

/// Here that of the registers, which the previous entry has set.
TEST_F(SteV1Test, OfLookupsByWordsTheNumberIsAnotherOne) {
    receives();
    constexpr unsigned kFirst = 64, kEntries = 64;
    MaskSte root = mask_ste(entry_at(kFirst), Actions().set(kReg0, 0, 32, 0x01020304), kEntries);
    root.head.next_definer = kRegisters & 0xff;
    root.next_format = mlx5_rings::v1::kNextMasksWords;
    root.byte_mask = 0xffff;
    put_ste(0, root);
    Tag tag{};
    net::store_be(tag.data(), uint32_t{0x01020304});
    const unsigned index = mlx5_rings::ste_format(1).hash({.hashed = 0xffff}, tag) % kEntries;
    ASSERT_NE(index, 0u) << "that of all zeros, which a wrong lookup sees";
    for (unsigned i = 0; i < kEntries; i++)
        put_ste(kFirst + i, mask_ste(to_drop()));
    put_ste(kFirst + index, mask_ste(to_tir(tir)));
    EXPECT_EQ(passed(frames::build(Spec{})), frames::build(Spec{}));
}

TEST_F(SteV1Test, EntriesCountTheirPacketsBeforeTheyChangeThem) {
    receives();
    const Number counter = *device->create_flow_counters();
    MaskSte made = mask_ste(to_tir(tir), Actions().insert(HeaderAnchor::start, 6, 0x81000005));
    count(made.head, counter);
    const Bytes frame = frames::build(Spec{});
    (void)passed_by(made, frame);
    EXPECT_EQ(device->query_flow_counter(counter, false)->packets, 1u);
    EXPECT_EQ(device->query_flow_counter(counter, false)->bytes, frame.size());
}

// ---------------------------------------------------------------- set, add and copy

TEST_F(SteV1Test, AnEditStandsInTheEntryItself) {
    receives();
    Spec spec, changed;
    changed.ttl = 9;
    EXPECT_EQ(
        passed_by(mask_ste(to_tir(tir), Actions().set(kTtlField, 8, 8, 9)), frames::build(spec)),
        frames::build(changed));
    changed.ttl = static_cast<uint8_t>(spec.ttl - 1);
    EXPECT_EQ(
        passed_by(mask_ste(to_tir(tir), Actions().add(kTtlField, 8, 8, 0xff)), frames::build(spec)),
        frames::build(changed));
    changed = spec;
    changed.dst_port = spec.src_port;
    EXPECT_EQ(passed_by(mask_ste(to_tir(tir), Actions().copy(kL4Ports, 0, 16, kL4Ports, 16)),
                        frames::build(spec)),
              frames::build(changed));
}

TEST_F(SteV1Test, EachFieldIsWhereTheFormatHasIt) {
    receives();
    const Spec v4{}, v6 = frames::ipv6_spec();
    Spec tcp;
    tcp.proto = frames::kTcp;
    Spec tagged;
    tagged.tags = {{0x8100, 5}};
    const auto with = [](Spec spec, auto change) {
        change(spec);
        return spec;
    };
    struct Case {
        uint8_t field, first, length;
        uint32_t value;
        Spec before, after;
    };
    const Case cases[] = {
        {0x00, 0, 32, 0x02112233, v4,
         with(v4, [](Spec& s) { s.dst = {2, 0x11, 0x22, 0x33, 0, 1}; })},
        {0x01, 16, 16, 0x4455, v4, with(v4, [](Spec& s) { s.dst[4] = 0x44, s.dst[5] = 0x55; })},
        {0x02, 0, 16, 0x6007, tagged, with(tagged, [](Spec& s) { s.tags[0].tci = 0x6007; })},
        {0x08, 0, 32, 0x02112233, v4,
         with(v4, [](Spec& s) { s.src = {2, 0x11, 0x22, 0x33, 0, 2}; })},
        {0x09, 16, 16, 0x4455, v4, with(v4, [](Spec& s) { s.src[4] = 0x44, s.src[5] = 0x55; })},
        {0x0e, 8, 8, 3, v6, with(v6, [](Spec& s) { s.ttl = 3; })},
        {0x0e, 16, 2, 1, v4, with(v4, [](Spec& s) { s.tos = 1; })},
        {0x0e, 18, 6, 5, v4, with(v4, [](Spec& s) { s.tos = 20; })},
        {0x18, 16, 16, 7, v4, with(v4, [](Spec& s) { s.src_port = 7; })},
        {0x18, 0, 16, 7, tcp, with(tcp, [](Spec& s) { s.dst_port = 7; })},
        {0x19, 16, 9, 2, tcp, with(tcp, [](Spec& s) { s.tcp_flags = 2; })},
        {0x40, 0, 32, 0x01020304, v4,
         with(v4,
              [](Spec& s) {
                  s.src_ip = {1, 2, 3, 4};
              })},
        {0x41, 0, 32, 0x01020304, v4,
         with(v4,
              [](Spec& s) {
                  s.dst_ip = {1, 2, 3, 4};
              })},
        {0x45, 0, 32, 0x01020304, v6,
         with(v6,
              [](Spec& s) { s.dst_ip[4] = 1, s.dst_ip[5] = 2, s.dst_ip[6] = 3, s.dst_ip[7] = 4; })},
        {0x4f, 0, 32, 0x01020304, v6,
         with(v6,
              [](Spec& s) {
                  s.src_ip[12] = 1, s.src_ip[13] = 2, s.src_ip[14] = 3, s.src_ip[15] = 4;
              })},
        {0x5e, 0, 32, 99, tcp, with(tcp, [](Spec& s) { s.sequence = 99; })},
        {0x5f, 0, 32, 99, tcp, with(tcp, [](Spec& s) { s.ack = 99; })},
    };
    for (const Case& one : cases) {
        const auto edit = Actions().set(one.field, one.first, one.length, one.value);
        EXPECT_EQ(passed_by(mask_ste(to_tir(tir), edit), frames::build(one.before)),
                  frames::build(one.after))
            << int{one.field} << " from " << int{one.first};
    }
}

TEST_F(SteV1Test, RegistersThatAnEntrySetsAreSeenByLaterOnes) {
    receives();
    // In the order of the lookup of registers 0 to 3.
    const uint8_t fields[] = {kReg0, kReg1, 0x8e, 0x8f};
    Actions list;
    for (const uint8_t field : fields)
        list.set(field, 0, 32, 0x01010101u * field);
    put_list(list);
    put_ste(0, mask_ste(entry_at(1), Actions().list(4, kListAt)));
    MaskSte second = mask_ste(to_tir(tir));
    Bytes wanted;
    for (const uint8_t field : fields)
        wanted.insert(wanted.end(), 4, field);
    want(second, kRegisters, 0, wanted);
    put_ste(1, second);
    EXPECT_EQ(passed(frames::build(Spec{})), frames::build(Spec{}));
}

TEST_F(SteV1Test, EditsOfAListAreMadeOneAfterTheOther) {
    receives();
    put_list(Actions()
                 .set(0x00, 0, 32, 0x02112233)
                 .set(0x01, 16, 16, 0x4455)
                 .add(kTtlField, 8, 8, 0xff)
                 .nothing()
                 .nothing()
                 .copy(kL4Ports, 0, 16, kL4Ports, 16));
    Spec spec, changed;
    changed.dst = {0x02, 0x11, 0x22, 0x33, 0x44, 0x55};
    changed.ttl = static_cast<uint8_t>(spec.ttl - 1);
    changed.dst_port = spec.src_port;
    EXPECT_EQ(passed_by(mask_ste(to_tir(tir), Actions().list(5, kListAt)), frames::build(spec)),
              frames::build(changed));
}

// ---------------------------------------------------------------- tags and tunnels

TEST_F(SteV1Test, TagsGoAndCome) {
    receives();
    Spec tagged, twice;
    tagged.tags = {{0x8100, 5}};
    twice.tags = {{0x88a8, 6}, {0x8100, 5}};
    const Bytes plain = frames::build(Spec{});
    const auto pop = [&](uint32_t tags) {
        return mask_ste(to_tir(tir), Actions().remove(HeaderAnchor::first_vlan, 0, 2 * tags));
    };
    EXPECT_EQ(passed_by(pop(1), frames::build(tagged)), plain);
    EXPECT_EQ(passed_by(pop(1), frames::build(twice)), frames::build(tagged));
    EXPECT_EQ(passed_by(pop(2), frames::build(twice)), plain);
    receive(frames::build(tagged));
    receive(plain);
    EXPECT_EQ(device->counters().drop_rewrite, 2u) << "there are no two tags to take off";
    put_ste(0, mask_ste(to_tir(tir), Actions().remove(HeaderAnchor::first_vlan, 0, 3)));
    receive(frames::build(tagged));
    EXPECT_EQ(device->counters().drop_rewrite, 3u) << "nor one and a half";
    const MaskSte push =
        mask_ste(to_tir(tir), Actions().insert(HeaderAnchor::start, 6, 0x81000005));
    EXPECT_EQ(passed_by(push, plain), frames::build(tagged));
}

TEST_F(SteV1Test, WhatATunnelCarriesComesOut) {
    receives();
    const Bytes inner = frames::build(Spec{});
    const MaskSte decap = mask_ste(
        to_tir(tir), Actions().remove_to(HeaderAnchor::start, HeaderAnchor::inner_l2).flow_tag(7));
    EXPECT_EQ(passed_by(decap, frames::vxlan(1, inner)), inner);
    const Bytes elsewhere = frames::vxlan(1, inner, false, 8472);
    device->set_vxlan_ports({{8472}});
    EXPECT_EQ(passed_by(decap, elsewhere), inner);
    receive(inner);
    EXPECT_EQ(device->counters().drop_rewrite, 1u) << "there is no tunnel";
}

TEST_F(SteV1Test, AListPutsAnL2HeaderInPlaceOfATunnels) {
    receives();
    const Bytes inner = frames::build(Spec{});
    Bytes expected = inner;
    const Bytes l2 = {2, 1, 2, 3, 4, 5, 2, 6, 7, 8, 9, 10, 0x08, 0x00};
    std::copy(l2.begin(), l2.end(), expected.begin());
    put_list(put_l2_for_tunnel(l2));
    EXPECT_EQ(passed_by(mask_ste(to_tir(tir), Actions().list(6, kListAt)), frames::vxlan(1, inner)),
              expected);
}

TEST_F(SteV1Test, WhatIsSentGetsATunnel) {
    sends(8);
    const Bytes frame = frames::build(Spec{});
    const Bytes tunnel = frames::vxlan(1, {});
    const auto number = [&](ReformatKind kind) {
        return *device->create_reformat(kind, std::as_bytes(std::span(tunnel)));
    };
    put_ste(8, mask_ste(to_send(), Actions().encap(number(ReformatKind::l2_to_l2_tunnel))));
    send(frame);
    ASSERT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(wire->sent[0], frames::vxlan(1, frame));

    // Replaces the frame's L2 header, by a match entry, which has room for both actions.
    put_ste(8, match_ste(to_send(), Actions()
                                        .remove_to(HeaderAnchor::start, HeaderAnchor::l3)
                                        .encap(number(ReformatKind::l2_to_l3_tunnel))));
    send(frame);
    ASSERT_EQ(wire->sent.size(), 2u);
    EXPECT_EQ(wire->sent[1], frames::vxlan(1, Bytes(frame.begin() + 14, frame.end())));

    put_ste(8, mask_ste(to_drop()));
    send(frame);
    EXPECT_EQ(wire->sent.size(), 2u);
    EXPECT_EQ(device->counters().drop_tx_rule, 1u);
}

// ---------------------------------------------------------------- meters and samplers

TEST_F(SteV1Test, AMeterPutsTheColorIntoARegister) {
    receives();
    const Number meters = *device->create_meters(
        {.pd = pd, .pairs = 1, .meters = {packets_only(0), packets_only(2, 1)}});
    put_ste(0, mask_ste(entry_at(1), Actions().meter(meters, 1, 1, Color::green)));
    std::array<Number, 3> counters{};
    for (uint8_t color = 0; color < counters.size(); color++) {
        MaskSte one = mask_ste(to_drop());
        want(one, kRegisters, 15, {color}); // reg_c_3
        miss(one.head, entry_at(2 + color));
        counters[color] = *device->create_flow_counters();
        count(one.head, counters[color]);
        put_ste(1 + color, one);
    }
    for (int i = 0; i < 6; i++)
        receive(frames::build(Spec{}));
    const auto packets = [&](Color color) {
        return device->query_flow_counter(counters[static_cast<size_t>(color)], false)->packets;
    };
    EXPECT_EQ(packets(Color::green), 2u);
    EXPECT_EQ(packets(Color::yellow), 1u);
    EXPECT_EQ(packets(Color::red), 3u);
}

TEST_F(SteV1Test, AMeterSeesThePacketAsActionsBeforeItHaveLeftIt) {
    receives();
    Spec tagged;
    tagged.tags = {{0x8100, 5}};
    const Bytes plain = frames::build(Spec{}), frame = frames::build(tagged);
    // Has tokens for the frame without its tag, but not for the whole frame.
    const MeterAttr bytes{.valid = true,
                          .mode = MeterMode::l2_bytes,
                          .committed = {.size_mantissa = static_cast<uint8_t>(plain.size())}};
    const auto colored = [&](const Actions& actions) {
        const Number meters = *device->create_meters({.pd = pd, .pairs = 1, .meters = {bytes, {}}});
        Actions all = actions;
        all.meter(meters, 0, 1, Color::green);
        put_ste(0, match_ste(entry_at(1), all));
        MaskSte green = mask_ste(to_tir(tir));
        want(green, kRegisters, 15, {static_cast<uint8_t>(Color::green)});
        put_ste(1, green);
        const uint64_t before = device->counters().drop_rule;
        post_buffers(rq, 1);
        receive(frame);
        return device->counters().drop_rule == before;
    };
    EXPECT_FALSE(colored({}));
    EXPECT_TRUE(colored(Actions().remove(HeaderAnchor::first_vlan, 0, 2)));
}

TEST_F(SteV1Test, ASamplerHasAnAddress) {
    receives();
    const auto leads_to_tir = [&](uint8_t level) {
        const Number made = *device->create_flow_table({.level = level});
        const Number group = *device->create_flow_group(made, {});
        EXPECT_TRUE(device->set_flow_entry(made, 0, {.group = group, .tirs = {tir}}));
        return made;
    };
    const Number sampler = *device->create_sampler(
        {.level = 1, .ratio = 1, .copies = leads_to_tir(2), .all = leads_to_tir(3)});
    put_ste(0, mask_ste(address_of(Place::sampler, sampler)));
    post_buffers(rq, 2);
    receive(frames::build(Spec{}));
    EXPECT_EQ(device->counters().delivered, 2u);
    put_ste(0, mask_ste(address_of(Place::sampler, sampler + 1)));
    receive(frames::build(Spec{}));
    EXPECT_EQ(device->counters().drop_rule, 1u) << "there is no such sampler";
}

// ---------------------------------------------------------------- bad entries

TEST_F(SteV1Test, WhatIsNoEntryDropsThePacket) {
    receives();
    uint64_t drops = 0;
    const auto drop = [&](const auto& entry, const char* why) {
        put_ste(0, entry);
        receive(frames::build(Spec{}));
        EXPECT_EQ(device->counters().drop_rule, ++drops) << why;
    };
    for (const uint8_t format : {2, 3, 5, 0xff}) {
        MaskSte made = mask_ste(to_tir(tir));
        made.head.format = format;
        drop(made, "no such format");
    }
    for (const uint16_t lookup : {0x000, 0x001, 0x010, 0x0ff, 0x100, 0x115}) {
        MaskSte made = mask_ste(to_tir(tir));
        made.head.format = static_cast<uint8_t>(lookup >> 8);
        made.head.definer = static_cast<uint8_t>(lookup);
        miss(made.head, to_tir(tir)); // a miss would be delivered
        drop(made, "no such lookup");
    }
    MatchSte match = match_ste(to_tir(tir));
    match.head.definer = 0x77;
    miss(match.head, to_tir(tir));
    drop(match, "no such definer");
    const Actions bad[] = {
        Actions().word(0x01000000),                              // no such id
        Actions().word(0xff000000),                              //
        Actions().nothing().word(0x06000000),                    // cut off
        Actions().nothing().word(0x0e000000),                    // likewise
        Actions().id(ActionId::aso, 1).word(0x01000000),         // no meter
        Actions().id(ActionId::remove_to_header, 0x000500),      // to no such header
        Actions().id(ActionId::remove_by_size, 0x3f0001),        // from no such header
        Actions().id(ActionId::insert_inline, 0x3f0000).word(0), //
    };
    for (const Actions& actions : bad)
        drop(mask_ste(to_tir(tir), actions), "no action");
    for (const uint64_t nowhere : {uint64_t{0}, to_tir(0xfffff), to_send()})
        drop(mask_ste(nowhere), "leads nowhere");
    put_ste(0, mask_ste(entry_at(0)));
    receive(frames::build(Spec{}));
    EXPECT_EQ(device->counters().drop_rule_loop, 1u) << "leads to itself";
    EXPECT_EQ(device->counters().delivered, 0u);
}

TEST_F(SteV1Test, WhatAnEntryCannotDoLosesThePacket) {
    receives();
    put_list(Actions().id(ActionId::flow_tag, 1).nothing().set(0, 0, 32, 0));
    Actions long_list;
    for (int i = 0; i < 255; i++)
        long_list.insert(HeaderAnchor::start, 0, 0);
    write(edits + 2048, long_list.bytes.data(), long_list.bytes.size());
    const Actions bad[] = {
        Actions().list(1, kListAt),                            // a list must not do that
        Actions().list(255, 2048 / mlx5_rings::kEditListUnit), // makes the frame too long
        Actions().word(0x06000020).word(0),                    // before the first bit of a field
        Actions().meter(12345, 0, 1, Color::green),
        Actions().encap(12345),
        Actions().remove(HeaderAnchor::start, 0, 0x3f), // more than the frame has
        Actions().remove(HeaderAnchor::start, 0x7f, 1),
        Actions().remove_to(HeaderAnchor::l3, HeaderAnchor::start),
        Actions().remove_to(HeaderAnchor::first_vlan, HeaderAnchor::l3),
        Actions().insert(HeaderAnchor::start, 0x7f, 0),
        Actions().insert(HeaderAnchor::inner_l2, 0, 0),
    };
    uint64_t drops = 0;
    for (const Actions& actions : bad) {
        put_ste(0, mask_ste(to_tir(tir), actions));
        receive(frames::build(Spec{}));
        EXPECT_EQ(device->counters().drop_rewrite, ++drops);
    }
    EXPECT_EQ(device->counters().delivered, 0u);
}

/// Entries, actions and lists with valid types but random contents: whatever happens to the packet,
/// the device goes on.
TEST_F(SteV1Test, RandomEntriesDoNoHarm) {
    receives();
    constexpr unsigned kEntries = 16, kRounds = 3000, kListBytes = 2048;
    std::minstd_rand dice(1);
    const auto random_bytes = [&](auto& into) {
        for (auto& byte : into)
            byte = static_cast<std::decay_t<decltype(byte)>>(dice());
    };
    constexpr uint8_t kIds[] = {0, 5, 6, 7, 8, 9, 0x0a, 0x0b, 0x0c, 0x0e, 0x0f, 0x12};
    const auto random_id = [&] { return kIds[dice() % std::size(kIds)]; };
    const Number meters = *device->create_meters({.pd = pd, .pairs = 1});
    const uint64_t patterns = *device->alloc_icm(IcmKind::edit_patterns, 4096);
    const Number arguments = *device->create_edit_arguments(pd, 32);
    const Bytes tunnel = frames::vxlan(1, {});
    (void)*device->create_reformat(ReformatKind::l2_to_l2_tunnel, std::as_bytes(std::span(tunnel)));
    const Number definer = *device->create_definer({.layout = 0});
    const Bytes frame = frames::vxlan(1, frames::build(Spec{}));
    for (unsigned round = 0; round < kRounds; round++) {
        Bytes list(kListBytes);
        random_bytes(list);
        for (size_t at = 0; at < list.size(); at += 8) {
            list[at] = random_id();
            list[at + 1] &= 0x1f; // valid anchors, more often than not
        }
        write(edits, list.data(), list.size());
        write(patterns, list.data(), list.size());
        for (unsigned index = 0; index < kEntries; index++) {
            std::array<uint8_t, 64> entry;
            random_bytes(entry);
            auto* const head = reinterpret_cast<v1::SteHead*>(entry.data());
            head->format = std::array<uint8_t, 3>{0, 1, 4}[dice() % 3];
            head->definer = static_cast<uint8_t>(dice() % 2 ? definer : dice() % 0x18);
            lead(*head, entry_at(dice() % kEntries), 1u << dice() % 3);
            miss(*head, dice() % 4 ? entry_at(dice() % kEntries) : to_tir(tir));
            const size_t actions = head->format == 4 ? 20 : 24;
            entry[actions] = random_id();
            entry[actions + 1] = dice() % 2 ? 0 : entry[actions + 1] & 0x1f;
            if (entry[actions] == 0x12) net::store_be(&entry[actions + 2], uint16_t(meters));
            if (entry[actions] == 0x0e) {
                net::store_be(&entry[actions + 1], uint16_t{0}); // pattern 0..255
                net::store_be(&entry[actions + 5], uint16_t{0});
                entry[actions + 3] &= 0x1f;
                entry[actions + 7] = static_cast<uint8_t>(arguments + dice() % 40);
            }
            if (entry[actions] == 0x0f) net::store_be(&entry[actions + 2], uint16_t(dice() % 32));
            if (head->format != 4 && dice() % 2) std::fill_n(entry.begin() + 32, 32, uint8_t{0});
            put_ste(index, entry);
        }
        receive(frame);
    }
    // Each was dropped for a counted reason, if only for lack of a buffer.
    const auto counters = device->counters();
    EXPECT_EQ(counters.drop_out_of_buffer + counters.drop_rule + counters.drop_rule_loop +
                  counters.drop_rewrite + counters.drop_oversize,
              kRounds);
    EXPECT_GT(counters.drop_out_of_buffer, 0u);
    EXPECT_GT(counters.drop_rewrite, 0u);
}

} // namespace
