// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/config.hpp"
#include "app/softhca/fault.hpp"

#include <cerrno>
#include <gtest/gtest.h>

namespace {

using namespace softhca;

template <class Kind> Kind parsed(std::string_view text) {
    const auto fault = parse_fault(text);
    EXPECT_TRUE(fault) << text << ": " << fault.error().what;
    const Kind* kind = fault ? std::get_if<Kind>(&*fault) : nullptr;
    EXPECT_TRUE(kind) << text << ": of another kind";
    return kind ? *kind : Kind{};
}

TEST(Fault, EveryKindIsParsed) {
    const auto always = parsed<CommandFault>("create_qp:EPERM");
    EXPECT_EQ(always.command, "create_qp");
    EXPECT_EQ(always.error, EPERM);
    EXPECT_EQ(always.times, 0u);
    EXPECT_EQ(parsed<CommandFault>("reg_mr:ENOMEM:3").times, 3u);
    EXPECT_EQ(parsed<CommandFault>("reg_mr:ENOMEM:3").after, 0u);
    EXPECT_EQ(parsed<CommandFault>("any:ENOMEM:3:17").after, 17u);

    EXPECT_EQ(parsed<CompletionFault>("error_cqe:64").queue, 64u);
    EXPECT_EQ(parsed<CompletionFault>("error_cqe:64").cause,
              core::CompletionError::local_qp_operation);
    EXPECT_EQ(parsed<CompletionFault>("error_cqe:64:local_length").cause,
              core::CompletionError::local_length);
    EXPECT_EQ(parsed<FatalFault>("fatal:70").number, 70u);
    EXPECT_EQ(parsed<OverrunFault>("overrun:71").cq, 71u);
    EXPECT_EQ(parsed<StallFault>("stall:250").duration, std::chrono::milliseconds(250));
    (void)parsed<DeviceFault>("device_fatal");
    (void)parsed<NoCommandFaults>("none");
}

TEST(Fault, MistakesAreNamed) {
    const std::pair<const char*, const char*> mistakes[] = {
        {"", "create_qp"},
        {"creat_qp:EPERM", "create_qp"},
        {"create_qp", "create_qp:ERRNO"},
        {"create_qp:1", "not the name of an errno"},
        {"create_qp:EPERM:0", "1 or more"},
        {"create_qp:EPERM:x", "1 or more"},
        {"create_qp:EPERM:1:x", "succeed before"},
        {"create_qp:EPERM:1:2:3", "create_qp:ERRNO"},
        {"error_cqe", "which queue"},
        {"error_cqe:tx", "which queue"},
        {"error_cqe:64:local", "local_length"},
        {"fatal:", "which queue or CQ"},
        {"overrun:", "which CQ"},
        {"stall", "milliseconds"},
        {"stall:0", "milliseconds"},
        {"stall:1001", "milliseconds"},
    };
    for (const auto& [text, said] : mistakes) {
        const auto fault = parse_fault(text);
        ASSERT_FALSE(fault) << text;
        EXPECT_NE(fault.error().what.find(said), std::string::npos) << fault.error().what;
    }
}

TEST(Fault, CommandsFailAsOftenAsAsked) {
    CommandFaults faults(*parse_command_faults("create_qp:EPERM,reg_mr:ENOMEM:2"));
    EXPECT_EQ(faults.take("ALLOC_PD"), 0);
    EXPECT_EQ(faults.peek("REG_MR"), ENOMEM);
    EXPECT_EQ(faults.take("REG_MR"), ENOMEM);
    EXPECT_EQ(faults.take("REG_MR"), ENOMEM);
    EXPECT_EQ(faults.take("REG_MR"), 0);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(faults.take("EX_CREATE_QP"), EPERM);
    faults.add({.command = "create_qp", .error = EINVAL, .times = 1}); // in place of the first
    EXPECT_EQ(faults.take("CREATE_QP"), EINVAL);
    EXPECT_EQ(faults.take("CREATE_QP"), 0);
    faults.add({.command = "create_qp", .error = EINVAL, .times = 0});
    EXPECT_EQ(to_text(faults.clear()), "create_qp:EINVAL");
    EXPECT_EQ(faults.take("CREATE_QP"), 0);
}

TEST(Fault, CommandsFailAfterSomeThatSucceed) {
    CommandFaults faults(*parse_command_faults("any:EIO:2:2,create_qp:EPERM:1:1"));
    EXPECT_EQ(faults.peek("CREATE_QP"), 0);
    EXPECT_EQ(faults.take("CREATE_QP"), 0); // counts for both
    EXPECT_EQ(faults.take("ALLOC_PD"), 0);
    EXPECT_EQ(faults.peek("CREATE_QP"), EIO); // the first that is due
    EXPECT_EQ(faults.take("open"), EIO);
    EXPECT_EQ(faults.take("REG_MR"), EIO);
    EXPECT_EQ(faults.take("REG_MR"), 0);
    EXPECT_EQ(faults.take("EX_CREATE_QP"), EPERM);
    EXPECT_EQ(to_text(faults.clear()), "");
    faults.add({.command = "any", .error = EIO, .times = 1, .after = 9});
    EXPECT_EQ(faults.take("REG_MR"), 0);
    EXPECT_EQ(to_text(faults.clear()), "any:EIO:1:8");
}

TEST(Fault, PortsTakeThemAndHandThemOn) {
    const auto port = parse_port("wire=loop,fault=create_qp:EPERM,open:EACCES:1,mtu=9000");
    ASSERT_TRUE(port) << port.error().what;
    EXPECT_EQ(port->mtu, 9000);
    Config config;
    config.ports = {*port};
    ASSERT_TRUE(complete(config));
    const auto read = config_from_json(to_json(config));
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_EQ(to_text(read->ports[0].faults), "create_qp:EPERM,open:EACCES:1");

    const auto at_run_time = parse_port("fault=device_fatal");
    ASSERT_FALSE(at_run_time);
    EXPECT_NE(at_run_time.error().what.find("softhca fault"), std::string::npos);
}

} // namespace
