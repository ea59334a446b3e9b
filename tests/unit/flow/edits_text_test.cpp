// SPDX-License-Identifier: BSD-3-Clause
// What rte_flow_dev_dump() prints for the packet changes of a rule.
#include "drivers/net/rawqp/ethdev/steering/edits.hpp"

#include <gtest/gtest.h>

namespace rawqp::test {
namespace {

using enum Protocol;

std::string text(Rewrite rewrite) { return Edits{.rewrites = {rewrite}}.text(); }

TEST(EditsTextTest, FieldsAreNamedWithTheirValues) {
    EXPECT_EQ(text({.protocol = ipv4, .bit = 64, .bits = 8, .value = {9}}),
              ", ipv4 ttl set to 0x9");
    EXPECT_EQ(text({.protocol = eth, .bits = 48, .value = {2, 0, 0, 0, 0x12, 0x34}}),
              ", eth dst set to 020000001234");
    EXPECT_EQ(text({.protocol = vlan, .bit = 4, .bits = 12, .value = {0x12, 0x30}}),
              ", vlan vid set to 0x123");
    EXPECT_EQ(text({.protocol = Protocol::tag, .bit = 64, .bits = 32, .value = {0, 0, 0, 5}}),
              ", tag 2 set to 0x5");
}

TEST(EditsTextTest, PartsOfFieldsCountFromTheLowestBit) {
    EXPECT_EQ(text({.protocol = ipv4, .bit = 144, .bits = 8, .value = {7}}),
              ", ipv4 dst bits 8 to 15 set to 0x7");
}

TEST(EditsTextTest, SumsHaveASign) {
    EXPECT_EQ(text({.protocol = ipv4, .bit = 64, .bits = 8, .add = true, .value = {0xff}}),
              ", ipv4 ttl minus 0x1");
    EXPECT_EQ(text({.protocol = ipv4, .bit = 64, .bits = 8, .add = true, .value = {2}}),
              ", ipv4 ttl plus 0x2");
    EXPECT_EQ(text({.protocol = tcp,
                    .bit = 32,
                    .bits = 32,
                    .add = true,
                    .value = {0xff, 0xff, 0xff, 0xfb}}),
              ", tcp seq minus 0x5");
}

TEST(EditsTextTest, CopiesNameTheirSource) {
    EXPECT_EQ(text({.protocol = udp, .bit = 16, .bits = 16, .from = {{udp, 0}}}),
              ", udp dst set to udp src");
    EXPECT_EQ(text({.protocol = meta, .bit = 16, .bits = 16, .from = {{ipv4, 96}}}),
              ", meta data bits 0 to 15 set to ipv4 src bits 16 to 31");
}

TEST(EditsTextTest, AllInTheOrderOfTheDevice) {
    const Rewrite ttl{.protocol = ipv4, .bit = 64, .bits = 8, .value = {9}};
    EXPECT_EQ((Edits{.rewrites = {ttl}, .pop_vlan = true, .push_vlan = 0x81006005}).text(),
              ", tag taken off, ipv4 ttl set to 0x9, tag 0x6005 put on, TPID 0x8100");
    EXPECT_EQ((Edits{.rewrites = {ttl}, .reformat = Reformat::strip_tunnel}).text(),
              ", tunnel taken off, ipv4 ttl set to 0x9");
    Edits wraps{.rewrites = {ttl}, .reformat = Reformat::wrap, .header = std::vector<uint8_t>(50)};
    EXPECT_EQ(wraps.text(), ", ipv4 ttl set to 0x9, header of 50 bytes put on");
    wraps.reformat = Reformat::wrap_l3;
    EXPECT_EQ(wraps.text(),
              ", ipv4 ttl set to 0x9, header of 50 bytes put on in place of Ethernet's");
    wraps.reformat = Reformat::strip_tunnel_to_l3;
    EXPECT_EQ(wraps.text(), ", tunnel taken off up to the inner IP header, ipv4 ttl set to 0x9,"
                            " header of 50 bytes put on");
    EXPECT_EQ(Edits{}.text(), "");
}

} // namespace
} // namespace rawqp::test
