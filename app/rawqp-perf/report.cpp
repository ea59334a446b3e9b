// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/report.hpp"

#include "app/rawqp-perf/dpdk.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fmt/core.h>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

namespace perf {

double percentile(std::vector<double>& values, double fraction) {
    std::sort(values.begin(), values.end());
    const auto last = static_cast<double>(values.size() - 1);
    return values[static_cast<size_t>(std::lround(last * fraction))];
}

double mean(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void print_figure(const Figure& figure, std::FILE* out) {
    std::string line =
        fmt::format("{:<16} {:<12} {:>5} B  burst {:<3} queues {:<3} {:<9} pass {:<2}",
                    figure.subject, figure.measure, figure.size, figure.burst, figure.queues,
                    figure.fast_free ? "fast-free" : "", figure.pass);
    line += fmt::format(" {:>12.2f} {}", figure.value, figure.unit);
    for (const auto& [name, value] : figure.more)
        line += fmt::format("  {} {:.6g}", name, value);
    fmt::print(out, "{}\n", line);
    fflush(out);
}

static std::string as_json(const Report& report) {
    nlohmann::json all{
        {"tsc_hz", rte_get_tsc_hz()},
        {"cpus", report.distance},
        {"memory",
         {{"resident", report.pools.bytes}, {"on_huge_pages", report.pools.on_huge_pages}}},
        {"subjects", nlohmann::json::array()},
        {"figures", nlohmann::json::array()},
        {"failures", report.failures}};
    for (const SubjectInfo& subject : report.subjects)
        all["subjects"].push_back(
            {{"name", subject.name}, {"driver", subject.driver}, {"modes", subject.modes}});
    for (const Figure& figure : report.figures) {
        nlohmann::json one{{"subject", figure.subject},   {"measure", figure.measure},
                           {"size", figure.size},         {"burst", figure.burst},
                           {"queues", figure.queues},     {"fast_free", figure.fast_free},
                           {"distance", figure.distance}, {"pass", figure.pass},
                           {"unit", figure.unit},         {"value", figure.value}};
        for (const auto& [name, value] : figure.more)
            one[name] = value;
        all["figures"].push_back(std::move(one));
    }
    return all.dump(1) + '\n';
}

JsonFile::JsonFile(std::string name) : name_(std::move(name)) {
    if (name_.empty() || name_ == "-") return;
    errno = 0;
    out_.open(name_);
    if (!out_) throw std::runtime_error("cannot write " + name_ + ": " + strerror(errno));
}

void JsonFile::write(const Report& report) {
    if (name_.empty()) return;
    if (name_ == "-")
        std::cout << as_json(report); // main() says what is wrong with it
    else if (!(out_ << as_json(report)).flush())
        throw std::runtime_error("cannot write " + name_);
}

} // namespace perf
