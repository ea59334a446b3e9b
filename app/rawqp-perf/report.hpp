// SPDX-License-Identifier: BSD-3-Clause
// Results, as JSON and as lines of text.
#pragma once

#include "app/rawqp-perf/pages.hpp"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace perf {

struct Figure {
    std::string subject = {};
    std::string measure = {}; ///< as --measure names it, or "first_packet"
    std::string size = {};    ///< as given by --size
    uint16_t burst = 0;
    uint16_t queues = 0;
    bool fast_free = false;
    std::string distance = {}; ///< as given by --distance; of rx, tx and forward
    unsigned pass = 0;
    std::string unit = {}; ///< of `value`: "cycles/packet", "packets/s", "us", "rules/s"
    double value = 0;      ///< the median where there are several
    std::map<std::string, double> more = {};
};

struct SubjectInfo {
    std::string name, driver, modes;
};

struct Report {
    std::string distance; ///< far: the CPUs of lcore and device
    Resident pools = {};  ///< the kind of pages of packets and rings
    std::vector<SubjectInfo> subjects;
    std::vector<Figure> figures;
    std::vector<std::string> failures; ///< "SUBJECT: why it was not measured to the end"
};

/// Value at `fraction` (0 … 1) of the values, which it sorts.
double percentile(std::vector<double>& values, double fraction);
double mean(const std::vector<double>& values);

void print_figure(const Figure& figure, std::FILE* out);
/// Where the report goes, as {"tsc_hz", "cpus", "memory": {"resident", "on_huge_pages"},
/// "subjects": […], "figures": […], "failures": […]}: a file, "-" for stdout, or nowhere if the
/// name is empty. Opened at once, so that nothing is measured in vain. Throws on failure.
class JsonFile {
  public:
    explicit JsonFile(std::string name);
    void write(const Report& report);

  private:
    std::string name_;
    std::ofstream out_;
};

} // namespace perf
