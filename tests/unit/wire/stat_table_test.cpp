// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/launcher/stat_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace {

using softhca::launcher::format_stat;
using testing::HasSubstr;
using testing::Not;

TEST(StatTable, ShowsWhatIsNotZero) {
    const auto stat = nlohmann::json::parse(R"({"pid": 12, "program": "testpmd", "devices": [
        {"device": "mlx5_0", "link_up": true, "port": {"delivered": 77, "drop_rule": 0},
         "rqs": [{"number": 5, "packets": 40, "wqes": 0}, {"number": 6, "packets": 37, "wqes": 0}],
         "sqs": []}]})");
    const std::string text = format_stat(stat);
    EXPECT_THAT(text, HasSubstr("testpmd (process 12)"));
    EXPECT_THAT(text, HasSubstr("mlx5_0  link_up yes"));
    EXPECT_THAT(text, HasSubstr("delivered"));
    EXPECT_THAT(text, HasSubstr("number packets\n         5      40\n         6      37\n"));
    EXPECT_THAT(text, Not(HasSubstr("drop_rule")));
    EXPECT_THAT(text, Not(HasSubstr("wqes")));
    EXPECT_THAT(text, Not(HasSubstr("sqs")));
}

TEST(StatTable, ShowsListsAndObjects) {
    const auto dump = nlohmann::json::parse(R"({"devices": [{"device": "mlx5_0", "rules": [
        {"match": {"dst_port": "53", "l4": "17"}, "number": 70, "drop": false, "to_tirs": [65, 66]},
        {"match": {}, "number": 171, "drop": false, "to_tirs": [7]}]}]})");
    EXPECT_THAT(format_stat(dump), HasSubstr("rules\n"
                                             "    number match             to_tirs\n"
                                             "        70 dst_port=53 l4=17 65,66\n"
                                             "       171                   7\n"));
}

TEST(StatTable, TakesAnything) {
    EXPECT_THAT(format_stat(nlohmann::json::parse(R"({"devices": [1, {}, {"port": {}}]})")),
                HasSubstr("all zero"));
}

} // namespace
