// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/launcher/stat_table.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace softhca::launcher {
namespace {

using nlohmann::json;

bool is_table(const json& value) {
    return value.is_array() && !value.empty() &&
           std::all_of(value.begin(), value.end(), [](const json& row) { return row.is_object(); });
}

bool is_zero(const json& value) {
    return value.is_null() || value == json(false) || (value.is_number() && value == 0) ||
           value == json("") || (value.is_structured() && value.empty());
}

/// Lists as "1,2,3", long ones truncated; objects as "key=value key=value".
std::string text_of(const json& value) {
    constexpr size_t kListed = 16;
    if (value.is_string()) return value.get<std::string>();
    if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
    if (value.is_null()) return "-";
    if (!value.is_structured()) return value.dump();
    std::vector<std::string> parts;
    for (const auto& [key, part] : value.items()) {
        if (parts.size() == kListed) {
            parts.push_back(fmt::format("… ({})", value.size()));
            break;
        }
        parts.push_back(value.is_object() ? key + "=" + text_of(part) : text_of(part));
    }
    return fmt::format("{}", fmt::join(parts, value.is_object() ? " " : ","));
}

bool shorter(const std::string& a, const std::string& b) { return a.size() < b.size(); }

/// Columns that identify rows come first.
size_t rank(const std::string& column) {
    constexpr std::array kFirst = {"number", "table",  "group",   "queue",
                                   "index",  "domain", "priority"};
    return size_t(std::find(kFirst.begin(), kFirst.end(), column) - kFirst.begin());
}

/// Objects as rows; a column that is zero in every row is left out. Text is left-aligned.
std::string format_table(const json& rows) {
    std::vector<std::string> columns;
    for (const json& row : rows)
        for (const auto& [key, value] : row.items())
            if (!is_zero(value) && std::find(columns.begin(), columns.end(), key) == columns.end())
                columns.push_back(key);
    std::sort(columns.begin(), columns.end(), [](const std::string& a, const std::string& b) {
        return std::pair(rank(a), a) < std::pair(rank(b), b);
    });
    std::vector<std::string> lines(rows.size() + 1, "   ");
    for (const std::string& column : columns) {
        std::vector<std::string> cells = {column};
        bool number = true;
        for (const json& row : rows) {
            const json value = row.value(column, json());
            number &= value.is_null() || value.is_number();
            cells.push_back(text_of(value));
        }
        const size_t width = std::max_element(cells.begin(), cells.end(), shorter)->size();
        for (size_t i = 0; i < cells.size(); ++i)
            lines[i] += number ? fmt::format(" {:>{}}", cells[i], width)
                               : fmt::format(" {:<{}}", cells[i], width);
    }
    for (std::string& line : lines)
        line.erase(line.find_last_not_of(' ') + 1);
    return fmt::format("{}\n", fmt::join(lines, "\n"));
}

std::string format_counters(const json& counters) {
    std::string out;
    for (const auto& [key, value] : counters.items())
        if (!is_zero(value)) out += fmt::format("    {:<24} {:>16}\n", key, text_of(value));
    return out.empty() ? "    all zero\n" : out;
}

std::string format_device(const json& device) {
    std::string title = "  " + device.value("device", "?"), body;
    for (const auto& [key, value] : device.items()) {
        if (key == "device") continue;
        if (is_table(value))
            body += fmt::format("   {}\n{}", key, format_table(value));
        else if (value.is_object())
            body += fmt::format("   {}\n{}", key, format_counters(value));
        else if (!is_zero(value) || value.is_boolean())
            title += fmt::format("  {} {}", key, text_of(value));
    }
    return title + "\n" + body;
}

} // namespace

std::string format_stat(const json& stat) {
    std::string out =
        fmt::format("{} (process {})\n", stat.value("program", "?"), stat.value("pid", 0));
    for (const json& device : stat.value("devices", json::array()))
        if (device.is_object()) out += format_device(device);
    return out;
}

} // namespace softhca::launcher
