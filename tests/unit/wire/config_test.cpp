// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/config.hpp"

#include <cstdlib>
#include <gtest/gtest.h>

namespace {

using namespace softhca;

PortConfig port(std::string_view text) {
    auto parsed = parse_port(text);
    EXPECT_TRUE(parsed) << text << ": " << parsed.error().what;
    return parsed ? *parsed : PortConfig{};
}

std::string port_error(std::string_view text) {
    const auto parsed = parse_port(text);
    return parsed ? "" : parsed.error().what;
}

std::string json_error(const std::string& text) {
    const auto parsed = config_from_json(text);
    return parsed ? "" : parsed.error().what;
}

TEST(Config, PortTakesEveryOption) {
    const PortConfig p =
        port("wire=link:x,netdev=tap:kn0,mac=02:00:00:00:AB:01,mtu=9000,"
             "speed=25G,pause=on,devx=on,device=rdma0,pci=0000:3B:00.1,carrier=always,"
             "steering_format=1");
    EXPECT_EQ(p.wire, "link:x");
    EXPECT_TRUE(p.netdev_tap);
    EXPECT_EQ(p.netdev, "kn0");
    EXPECT_EQ(p.mac, (std::array<uint8_t, 6>{2, 0, 0, 0, 0xab, 1}));
    EXPECT_EQ(p.mtu, 9000);
    EXPECT_EQ(p.speed_mbps, 25000u);
    EXPECT_TRUE(p.pause);
    EXPECT_EQ(p.devx, true);
    EXPECT_EQ(port("devx=off").devx, false);
    EXPECT_EQ(port("mtu=1500").devx, std::nullopt);
    EXPECT_TRUE(p.carrier_always);
    EXPECT_EQ(p.steering_format, 1);
    EXPECT_FALSE(port("mtu=1500").steering_format);
    EXPECT_EQ(p.device, "rdma0");
    EXPECT_EQ(p.pci, "0000:3b:00.1");
}

TEST(Config, CommasInsideAWireStayWithIt) {
    EXPECT_EQ(port("wire=gen:size=60,count=9,mtu=9000").wire, "gen:size=60,count=9");
    EXPECT_EQ(port("wire=gen:size=60,count=9,mtu=9000").mtu, 9000);
    EXPECT_EQ(port("mtu=100,wire=pcap:a,b").wire, "pcap:a,b");
}

TEST(Config, EmulatedAndUnnamedNetdevs) {
    EXPECT_FALSE(port("netdev=eth7").netdev_tap);
    EXPECT_EQ(port("netdev=eth7").netdev, "eth7");
    EXPECT_TRUE(port("netdev=tap").netdev_tap);
    EXPECT_EQ(port("netdev=tap").netdev, "");
}

TEST(Config, BadOptionsAreNamed) {
    for (const char* bad : {"mac=02:00:00:00:00",
                            "mac=03:00:00:00:00:01",
                            "mac=00:00:00:00:00:00",
                            "mac=02-00-00-00-00-01",
                            "mac=+2:00:00:00:00:01",
                            "mac=0x:00:00:00:00:01",
                            "mtu=67",
                            "mtu=9979",
                            "mtu=",
                            "mtu=-1",
                            "mtu=1500x",
                            "mtu=99999999999",
                            "speed=7",
                            "speed=G",
                            "speed=4294967G",
                            "pause=yes",
                            "devx=yes",
                            "carrier=no",
                            "steering_format=2",
                            "steering_format=v1",
                            "device=a/b",
                            "device=",
                            "device=..",
                            "pci=0000:ca:20.0",
                            "pci=0000:ca:00.8",
                            "pci=ca:00.0",
                            "netdev=",
                            "netdev=tap:",
                            "netdev=a b",
                            "netdev=lo",
                            "netdev=tap:lo",
                            "netdev=sixteen-letters-",
                            "wire=",
                            "color=red",
                            "loop"}) {
        const std::string error = port_error(bad);
        const std::string key = std::string(bad).substr(0, std::string(bad).find('='));
        EXPECT_NE(error.find(key), std::string::npos) << bad << " gives: " << error;
    }
}

TEST(Config, CompleteGivesDistinctDefaults) {
    Config config;
    config.ports.resize(10);
    config.threads = 16;
    config.cpus = {3, 5};
    ASSERT_TRUE(complete(config));
    EXPECT_EQ(config.threads, 10u);
    EXPECT_EQ(config.cpus, (std::vector<int>{3, 5, 3, 5, 3, 5, 3, 5, 3, 5}));
    EXPECT_EQ(config.ports[0].device, "mlx5_0");
    EXPECT_EQ(config.ports[0].pci, "0000:ca:00.0");
    EXPECT_EQ(config.ports[0].netdev, "soft0");
    EXPECT_EQ(config.ports[9].device, "mlx5_9");
    EXPECT_EQ(config.ports[9].pci, "0000:ca:01.1");
    EXPECT_NE(config.ports[0].mac, config.ports[1].mac);
    EXPECT_EQ(config.ports[0].mac[0], 0x02);
}

TEST(Config, NoPortMeansOneLoop) {
    Config config;
    ASSERT_TRUE(complete(config));
    ASSERT_EQ(config.ports.size(), 1u);
    EXPECT_EQ(config.ports[0].wire, "loop");
}

TEST(Config, SharedNamesAreRefused) {
    for (const auto& [first, second, said] :
         {std::tuple{"device=a", "device=a", "device=a"},
          std::tuple{"device=mlx5_1", "wire=loop", "device=mlx5_1"},
          std::tuple{"netdev=soft1", "wire=loop", "netdev=soft1"},
          std::tuple{"wire=tap:t", "netdev=tap:t", "netdev=t"},
          std::tuple{"pci=0000:01:00.0", "pci=0000:01:00.0", "pci=0000:01:00.0"}}) {
        Config config;
        config.ports = {port(first), port(second)};
        const auto done = complete(config);
        ASSERT_FALSE(done) << first << " beside " << second;
        EXPECT_NE(done.error().what.find(said), std::string::npos) << done.error().what;
    }
}

TEST(Config, JsonKeepsEverything) {
    Config config;
    config.ports = {port("wire=pcap:a,b,netdev=tap:t0,mac=02:00:00:00:00:09,speed=1G,pause=on"),
                    port("wire=gen:size=99,mtu=1600")};
    config.threads = 2;
    ASSERT_TRUE(complete(config));
    config.ports[0].wire_fd = 7;
    config.ports[0].netdev_fd = 8;
    config.cpus = {1, 0};
    config.runtime_dir = "/tmp/softhca-1";
    config.verbose = 2;

    const auto again = config_from_json(to_json(config));
    ASSERT_TRUE(again) << again.error().what;
    EXPECT_EQ(to_json(*again), to_json(config));
    EXPECT_EQ(again->ports[0].wire_fd, 7);
    EXPECT_EQ(again->ports[0].netdev_fd, 8);
    EXPECT_TRUE(again->ports[0].netdev_tap);
    EXPECT_EQ(again->ports[0].mac, config.ports[0].mac);
    EXPECT_EQ(again->cpus, config.cpus);
    EXPECT_EQ(again->runtime_dir, "/tmp/softhca-1");
}

TEST(Config, FileOfAUser) {
    const auto config = config_from_json(R"({
        // remarks are welcome
        "threads": 2, "cpus": [0, 1],
        "ports": [{"wire": "link:a", "mtu": 9000, "pause": true}, {"speed": "25G"}]})");
    ASSERT_TRUE(config) << config.error().what;
    EXPECT_EQ(config->ports[0].mtu, 9000);
    EXPECT_TRUE(config->ports[0].pause);
    EXPECT_EQ(config->ports[1].speed_mbps, 25000u);
}

TEST(Config, EachCpuHasAThreadUnlessItIsSaidHowMany) {
    const auto threads_of = [](const std::string& text) {
        auto config = config_from_json(text);
        EXPECT_TRUE(config) << config.error().what;
        config->ports.resize(3);
        EXPECT_TRUE(complete(*config));
        return config->threads;
    };
    EXPECT_EQ(threads_of(R"({"cpus": [0, 1]})"), 2u);
    EXPECT_EQ(threads_of(R"({"cpus": [0, 1], "threads": 1})"), 1u);
    EXPECT_EQ(threads_of(R"({"cpus": [0], "threads": 2})"), 2u);
    EXPECT_EQ(threads_of(R"({"cpus": [0, 1, 2, 3]})"), 3u);
    EXPECT_EQ(threads_of("{}"), 1u);
}

TEST(Config, BadJsonIsNamed) {
    EXPECT_NE(json_error("{").find("not valid JSON"), std::string::npos);
    EXPECT_NE(json_error("[]").find("JSON object"), std::string::npos);
    EXPECT_NE(json_error("\xff\xfe").find("not valid JSON"), std::string::npos);
    for (const auto& [text, said] :
         {std::pair{R"({"port": []})", "\"port\""}, std::pair{R"({"ports": {}})", "\"ports\""},
          std::pair{R"({"ports": [5]})", "\"ports\""},
          std::pair{R"({"ports": [{"mtu": 1.5}]})", "\"mtu\""},
          std::pair{R"({"ports": [{"mtu": 12}]})", "mtu=12"},
          std::pair{R"({"ports": [{"wire": null}]})", "\"wire\""},
          std::pair{R"({"ports": [{"wire_fd": "x"}]})", "\"wire_fd\""},
          std::pair{R"({"ports": [{"what": 1}]})", "'what'"},
          std::pair{R"({"threads": 0})", "\"threads\""},
          std::pair{R"({"threads": "2"})", "\"threads\""},
          std::pair{R"({"threads": 18446744073709551615})", "\"threads\""},
          std::pair{R"({"cpus": [0, "a"]})", "\"cpus\""}, std::pair{R"({"cpus": 1})", "\"cpus\""},
          std::pair{R"({"runtime_dir": 1})", "\"runtime_dir\""}})
        EXPECT_NE(json_error(text).find(said), std::string::npos)
            << text << ": " << json_error(text);
}

TEST(Config, MissingFileAndVariable) {
    const auto file = load_config_file("/nonexistent/nic.json");
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, ENOENT);
    EXPECT_NE(file.error().what.find("/nonexistent/nic.json"), std::string::npos);

    const char* before = std::getenv(kConfigVariable);
    const std::string kept = before ? before : "";
    unsetenv(kConfigVariable);
    const auto config = load_config();
    ASSERT_FALSE(config);
    EXPECT_NE(config.error().what.find(kConfigVariable), std::string::npos);
    if (before) setenv(kConfigVariable, kept.c_str(), 1);
}

} // namespace
