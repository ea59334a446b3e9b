// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/wire/spec.hpp"

#include <filesystem>
#include <gtest/gtest.h>

namespace {

using namespace softhca::wire;

template <class Spec> Spec parsed(std::string_view text) {
    const auto spec = parse_wire_spec(text);
    EXPECT_TRUE(spec) << text << ": " << spec.error().what;
    const auto* wanted = spec ? std::get_if<Spec>(&*spec) : nullptr;
    EXPECT_TRUE(wanted) << text << " is another kind of wire";
    return wanted ? *wanted : Spec{};
}

TEST(WireSpec, WellFormedOnesAreTakenApart) {
    parsed<LoopSpec>("loop");
    parsed<SinkSpec>("sink");
    EXPECT_EQ(parsed<TapSpec>("tap:cable0").name, "cable0");
    EXPECT_FALSE(parsed<TapSpec>("tap:cable0").plain);
    EXPECT_EQ(parsed<TapSpec>("tap:cable0:plain").name, "cable0");
    EXPECT_TRUE(parsed<TapSpec>("tap:cable0:plain").plain);
    EXPECT_EQ(parsed<LinkSpec>("link:a.b-c_1").name, "a.b-c_1");
    EXPECT_EQ(parsed<PairSpec>("pair:x").name, "x");
    EXPECT_EQ(parsed<SocketSpec>("socket:/run/a:b,c").path, "/run/a:b,c");
    EXPECT_EQ(parsed<PcapSpec>("pcap:in.pcap").in, "in.pcap");
    EXPECT_EQ(parsed<PcapSpec>("pcap:in.pcap,out.pcap").out, "out.pcap");
    EXPECT_EQ(parsed<PcapSpec>("pcap:,out.pcap").in, "");
    EXPECT_EQ(parsed<GenSpec>("gen").size, 60u);
    const auto gen = parsed<GenSpec>("gen:count=5,size=1514,flows=7,rate=1000");
    EXPECT_EQ(gen.count, 5u);
    EXPECT_EQ(gen.size, 1514u);
    EXPECT_EQ(gen.flows, 7u);
    EXPECT_EQ(gen.rate, 1000u);
}

struct Malformed {
    const char* text;
    const char* said; ///< what the error must name
};

class WireSpecError : public testing::TestWithParam<Malformed> {};

TEST_P(WireSpecError, SaysWhatIsWrong) {
    const auto spec = parse_wire_spec(GetParam().text);
    ASSERT_FALSE(spec);
    EXPECT_NE(spec.error().what.find(GetParam().said), std::string::npos) << spec.error().what;
    EXPECT_GT(spec.error().code, 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, WireSpecError,
    testing::Values(Malformed{"", "tap:NAME[:plain], socket:PATH"}, Malformed{"lop", "'lop'"},
                    Malformed{"loop:x", "':x'"}, Malformed{"loop,mtuu=9000", "',mtuu=9000'"},
                    Malformed{"sink:", "no parameters"}, Malformed{"tap", "bad name"},
                    Malformed{"tap:", "bad name"}, Malformed{"tap:a/b", "a/b"},
                    Malformed{"tap:sixteen-letters-", "15"}, Malformed{"tap:..", "bad name"},
                    Malformed{"tap:a:fast", "'fast' is no option"}, Malformed{"link:a b", "a b"},
                    Malformed{"link:../x", "bad name"}, Malformed{"pair:", "bad name"},
                    Malformed{"socket:", "path"}, Malformed{"pcap:", "which file"},
                    Malformed{"pcap", "which file"}, Malformed{"pcap:a,a", "overwritten"},
                    Malformed{"gen:size", "'size'"}, Malformed{"gen:size=59", "from 60"},
                    Malformed{"gen:size=99999", "size=99999"}, Malformed{"gen:size=-1", "size=-1"},
                    Malformed{"gen:size=", "size="}, Malformed{"gen:count=0", "count=0"},
                    Malformed{"gen:flows=0", "flows=0"}, Malformed{"gen:rate=x", "rate=x"},
                    Malformed{"gen:speed=5", "'speed'"}, Malformed{"gen:count=5,,size=60", "''"}),
    [](const auto& instance) { return "n" + std::to_string(instance.index); });

TEST(WireSpec, PathsBecomeAbsolute) {
    const std::string here = std::filesystem::current_path().string();
    EXPECT_EQ(with_absolute_paths("socket:a,b"), "socket:" + here + "/a,b");
    EXPECT_EQ(with_absolute_paths("pcap:in"), "pcap:" + here + "/in");
    EXPECT_EQ(with_absolute_paths("pcap:/in,o,ut"), "pcap:/in," + here + "/o,ut");
    EXPECT_EQ(with_absolute_paths("pcap:,out"), "pcap:," + here + "/out");
    const std::string longest = "socket:" + std::string(100, 'x'); // too long after another path
    for (const std::string& same : {longest, std::string("gen:size=64"), std::string("nothing")})
        EXPECT_EQ(with_absolute_paths(same), same);
}

TEST(WireSpec, LongSocketPathIsRefused) {
    const auto spec = parse_wire_spec("socket:/" + std::string(107, 'x'));
    ASSERT_FALSE(spec);
    EXPECT_NE(spec.error().what.find("100 bytes"), std::string::npos) << spec.error().what;
}

} // namespace
