// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/launcher/options.hpp"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using namespace softhca::launcher;
using testing::HasSubstr;

Options parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "softhca");
    return parse_options(int(arguments.size()), arguments.data());
}

RunCommand run_command(const std::vector<const char*>& arguments) {
    Options options = parse(arguments);
    auto* command = std::get_if<RunCommand>(&options);
    EXPECT_TRUE(command);
    return command ? *command : RunCommand{};
}

std::string error_of(const std::vector<const char*>& arguments) {
    testing::internal::CaptureStderr();
    const Options options = parse(arguments);
    std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(std::holds_alternative<int>(options) && std::get<int>(options) == kExitUsage)
        << "accepted: " << testing::PrintToString(arguments);
    return said;
}

TEST(Options, ProgramKeepsItsOwnArguments) {
    const auto command = run_command({"--", "prog", "--port", "x", "--", "stat"});
    EXPECT_THAT(command.program, testing::ElementsAre("prog", "--port", "x", "--", "stat"));
    ASSERT_EQ(command.config.ports.size(), 1u);
    EXPECT_EQ(command.config.ports[0].wire, "loop");
}

TEST(Options, PortsThreadsAndCpus) {
    const auto command = run_command({"--port", "wire=pair:a", "--port=wire=pair:a,mtu=9000",
                                      "--cpus", "1,0", "-vv", "--", "prog"});
    ASSERT_EQ(command.config.ports.size(), 2u);
    EXPECT_EQ(command.config.ports[1].mtu, 9000);
    EXPECT_EQ(command.config.threads, 2u);
    EXPECT_THAT(command.config.cpus, testing::ElementsAre(1, 0));
    EXPECT_EQ(command.config.verbose, 2);
}

TEST(Options, CommandLineWinsOverTheFile) {
    char path[] = "/tmp/rawqp-unit-XXXXXX";
    close(mkstemp(path));
    std::ofstream(path) << R"({"threads": 2, "ports": [{"mtu": 2000}, {"mtu": 3000}]})";
    auto command = run_command({"--config", path, "--", "prog"});
    ASSERT_EQ(command.config.ports.size(), 2u);
    EXPECT_EQ(command.config.ports[1].mtu, 3000);
    EXPECT_EQ(command.config.threads, 2u);
    command = run_command({"--config", path, "--port", "mtu=4000", "--threads", "1", "--", "prog"});
    ASSERT_EQ(command.config.ports.size(), 1u);
    EXPECT_EQ(command.config.ports[0].mtu, 4000);
    EXPECT_EQ(command.config.threads, 1u);
    std::filesystem::remove(path);
}

/// Which of the two it stands in makes no difference.
TEST(Options, ThreadsThatAFileGivesAreNotTakenFromTheCpusOfTheCommandLine) {
    char path[] = "/tmp/rawqp-unit-XXXXXX";
    close(mkstemp(path));
    std::ofstream(path) << R"({"threads": 1, "ports": [{}, {}]})";
    EXPECT_EQ(run_command({"--config", path, "--cpus", "0,1", "--", "prog"}).config.threads, 1u);
    std::ofstream(path) << R"({"cpus": [0, 1], "ports": [{}, {}]})";
    EXPECT_EQ(run_command({"--config", path, "--", "prog"}).config.threads, 2u);
    EXPECT_EQ(run_command({"--config", path, "--cpus", "0", "--", "prog"}).config.threads, 1u);
    std::filesystem::remove(path);
}

TEST(Options, OtherCommands) {
    const Options stat = parse({"stat", "--json", "--pid", "12"});
    ASSERT_TRUE(std::holds_alternative<ShowCommand>(stat));
    EXPECT_EQ(std::get<ShowCommand>(stat).what, "stat");
    EXPECT_TRUE(std::get<ShowCommand>(stat).json);
    EXPECT_EQ(std::get<ShowCommand>(stat).where.pid, 12);
    const Options dump = parse({"dump", "--socket", "nic0.control"});
    ASSERT_TRUE(std::holds_alternative<ShowCommand>(dump));
    EXPECT_EQ(std::get<ShowCommand>(dump).what, "dump");
    EXPECT_EQ(std::get<ShowCommand>(dump).where.socket, "nic0.control");
    const Options link = parse({"link", "mlx5_1", "down"});
    ASSERT_TRUE(std::holds_alternative<LinkCommand>(link));
    EXPECT_EQ(std::get<LinkCommand>(link).device, "mlx5_1");
    EXPECT_FALSE(std::get<LinkCommand>(link).up);
}

TEST(Options, MistakesAreExplained) {
    EXPECT_THAT(error_of({}), HasSubstr("which program?"));
    EXPECT_THAT(error_of({"--"}), HasSubstr("which program?"));
    EXPECT_THAT(error_of({"ibv_devinfo"}), HasSubstr("put -- in front"));
    EXPECT_THAT(error_of({"--prot", "wire=loop", "--", "p"}), HasSubstr("--prot"));
    EXPECT_THAT(error_of({"--port", "wire=lop", "--", "p"}), HasSubstr("'lop'"));
    EXPECT_THAT(error_of({"--port", "mtu=1", "--", "p"}), HasSubstr("--port mtu=1: mtu=1"));
    EXPECT_THAT(error_of({"--port", "--", "p"}), HasSubstr("--port"));
    EXPECT_THAT(error_of({"--threads", "0", "--", "p"}), HasSubstr("--threads"));
    EXPECT_THAT(error_of({"--cpus", "a", "--", "p"}), HasSubstr("--cpus"));
    EXPECT_THAT(error_of({"--config", "/no/such", "--", "p"}), HasSubstr("/no/such"));
    EXPECT_THAT(error_of({"link", "mlx5_0", "sideways"}), HasSubstr("sideways"));
    EXPECT_THAT(error_of({"link", "mlx5_0"}), HasSubstr("STATE"));
    EXPECT_THAT(error_of({"dump", "--pid", "1", "--socket", "x"}), HasSubstr("--socket"));
}

} // namespace
