// SPDX-License-Identifier: BSD-3-Clause
// The guide's table of rte_flow items says what the tables of the code say.
#include "drivers/net/rawqp/ethdev/flow/item_kinds.hpp"
#include "drivers/net/rawqp/ethdev/names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace rawqp::test {
namespace {

/// Names of the fields that a choice is made of, each once.
template <class Choice> std::string names(Protocol protocol, Choice choice) {
    std::vector<std::string> list;
    for (const Field& field : fields_of(protocol)) {
        const bool implied = field.bit == kCustomerTag || field.bit == kServiceTag;
        if (!implied && choice(field) && std::ranges::find(list, field.name) == list.end())
            list.emplace_back(field.name);
    }
    return fmt::format("{}", fmt::join(list, ", "));
}

std::vector<std::string> rows_of_the_code() {
    std::vector<std::string> rows;
    for (const ItemKind& kind : item_kinds()) {
        const auto by_verbs = [](const Field& field) { return field.verbs.spec != 0; };
        const auto by_mlx5_only = [&](const Field& field) {
            return !by_verbs(field) && field.mlx5.outer != Field::kNone;
        };
        rows.push_back(fmt::format("{}; {}; {}", item_name(kind.type),
                                   names(kind.protocol, by_verbs),
                                   names(kind.protocol, by_mlx5_only)));
        rows.back().erase(rows.back().find_last_not_of(' ') + 1);
    }
    return rows;
}

std::vector<std::string> rows_of_the_guide() {
    const auto program = std::filesystem::read_symlink("/proc/self/exe");
    std::ifstream guide(program.parent_path() / "../../../doc/guides/nics/rawqp.rst");
    std::vector<std::string> rows;
    std::string line;
    while (std::getline(guide, line) && !line.starts_with(".. csv-table:: Items"))
        ;
    while (std::getline(guide, line) && (line.empty() || line.front() == ' '))
        if (const size_t start = line.find_first_not_of(' ');
            start != line.npos && line[start] != ':')
            rows.push_back(line.substr(start));
    return rows;
}

TEST(Guide, HasTheItemsOfTheCode) {
    EXPECT_THAT(rows_of_the_guide(), testing::ElementsAreArray(rows_of_the_code()));
}

} // namespace
} // namespace rawqp::test
