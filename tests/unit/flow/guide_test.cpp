// SPDX-License-Identifier: BSD-3-Clause
// The guide's table of rte_flow items and the feature list match the tables in the code.
#include "drivers/net/rawqp/ethdev/flow/actions.hpp"
#include "drivers/net/rawqp/ethdev/flow/item_kinds.hpp"
#include "drivers/net/rawqp/ethdev/names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace rawqp::test {
namespace {

/// The names of the fields that `choice` selects, each once.
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

/// The fields that only have a place before a tunnel's header, of headers that may be inside one.
std::string only_outside_tunnels() {
    std::vector<std::string> list;
    for (const ItemKind& kind : item_kinds()) {
        if (is_metadata(kind.protocol) || traits_of(kind.protocol).tunnel) continue;
        const std::string fields = names(kind.protocol, [](const Field& field) {
            return field.mlx5.outer != Field::kNone && field.mlx5.inner == Field::kNone;
        });
        if (!fields.empty())
            list.push_back(fmt::format("{} of ``{}``", fields, item_name(kind.type)));
    }
    return fmt::format("{}", fmt::join(list, ", "));
}

std::ifstream open_guide(const char* file) {
    const auto program = std::filesystem::read_symlink("/proc/self/exe");
    return std::ifstream(program.parent_path() / "../../../doc/guides/nics" / file);
}

std::vector<std::string> rows_of_the_guide() {
    std::ifstream guide = open_guide("rawqp.rst");
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

/// The names in one section of the feature list.
std::vector<std::string> features_of(const std::string& section) {
    std::ifstream features = open_guide("features/rawqp.ini");
    std::vector<std::string> names;
    std::string line;
    while (std::getline(features, line) && line != "[" + section + "]")
        ;
    while (std::getline(features, line) && !line.starts_with("["))
        if (const size_t end = line.find(' '); end != line.npos)
            names.push_back(line.substr(0, end));
    return names;
}

TEST(Guide, HasTheItemsOfTheCode) {
    EXPECT_THAT(rows_of_the_guide(), testing::ElementsAreArray(rows_of_the_code()));
}

TEST(Guide, NamesTheFieldsThatAreMatchedOutsideTunnelsOnly) {
    std::ifstream guide = open_guide("rawqp.rst");
    const std::string text(std::istreambuf_iterator<char>(guide), {});
    EXPECT_THAT(text, testing::HasSubstr("inside a tunnel: " + only_outside_tunnels() + "."));
}

TEST(Guide, FeaturesAreTheItemsOfTheCode) {
    std::vector<std::string> items{"any", "ipv6_frag_ext"};
    for (const ItemKind& kind : item_kinds())
        items.push_back(item_name(kind.type));
    std::ranges::sort(items);
    EXPECT_THAT(features_of("rte_flow items"), testing::ElementsAreArray(items));
}

TEST(Guide, FeaturesAreTheActionsOfTheCode) {
    std::vector<std::string> actions;
    std::istringstream names(action_names());
    for (std::string name; std::getline(names >> std::ws, name, ',');)
        if (name != "indirect") actions.push_back(name); // DPDK's list has only what it refers to
    std::ranges::sort(actions);
    EXPECT_THAT(features_of("rte_flow actions"), testing::ElementsAreArray(actions));
}

} // namespace
} // namespace rawqp::test
