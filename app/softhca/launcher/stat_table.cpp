// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/launcher/stat_table.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <vector>

namespace softhca::launcher {
namespace {

using nlohmann::json;

bool is_table(const json& value) {
    return value.is_array() && !value.empty() &&
           std::all_of(value.begin(), value.end(), [](const json& row) { return row.is_object(); });
}

bool is_zero(const json& value) {
    return value.is_null() || (value.is_number() && value == 0) ||
           ((value.is_array() || value.is_object()) && value.empty());
}

std::string text_of(const json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
    return value.dump();
}

/// Objects as rows, the number first; a column that is zero in every row is left out.
std::string format_table(const json& rows) {
    std::vector<std::string> columns;
    for (const json& row : rows)
        for (const auto& [key, value] : row.items())
            if ((!is_zero(value) || value.is_string()) &&
                std::find(columns.begin(), columns.end(), key) == columns.end())
                columns.push_back(key);
    std::sort(columns.begin(), columns.end(), [](const std::string& a, const std::string& b) {
        return (a == "number") != (b == "number") ? a == "number" : a < b;
    });
    std::vector<size_t> widths;
    for (const std::string& column : columns) {
        size_t width = column.size();
        for (const json& row : rows)
            if (row.contains(column)) width = std::max(width, text_of(row[column]).size());
        widths.push_back(width);
    }
    std::string out = "   ";
    for (size_t i = 0; i < columns.size(); ++i)
        out += fmt::format(" {:>{}}", columns[i], widths[i]);
    for (const json& row : rows) {
        out += "\n   ";
        for (size_t i = 0; i < columns.size(); ++i)
            out += fmt::format(" {:>{}}", row.contains(columns[i]) ? text_of(row[columns[i]]) : "-",
                               widths[i]);
    }
    return out + "\n";
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
        else if (!is_zero(value))
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
