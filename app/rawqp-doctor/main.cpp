// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-doctor/options.hpp"
#include "app/rawqp-doctor/output.hpp"
#include "app/rawqp-doctor/watch.hpp"
#include "common/output.hpp"

#include <chrono>
#include <cstdio>
#include <thread>

namespace {

void print(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
}

std::vector<diagnosis::Finding> watch(const diagnosis::Case& subject, unsigned seconds) {
    const doctor::Counters before = doctor::read_counters(subject);
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    return doctor::drops(before, doctor::read_counters(subject), seconds);
}

int examine(const doctor::Options& options) {
    diagnosis::Case subject;
    subject.device = options.device;
    subject.iface = options.iface;
    subject.port = options.port;
    subject.program = options.program;
    subject.plugin = options.plugin;
    subject.plugin_folder = DOCTOR_PMD_DIR;
    subject.devargs = options.devargs;
    for (const doctor::DpdkPort& port : doctor::running_ports())
        subject.dpdk_ports.push_back(port.name);
    bool healthy = true;
    const auto report = [&](const diagnosis::Finding& finding) {
        const bool first = healthy && doctor::is_broken(finding);
        if (first) healthy = false;
        if (!options.json) print(doctor::text_of(finding, first));
    };
    std::vector<diagnosis::Finding> findings = diagnosis::examine(subject, report);
    if (options.watch_seconds != 0 && subject.known_to_kernel()) {
        for (diagnosis::Finding& finding : watch(subject, options.watch_seconds)) {
            report(finding);
            findings.push_back(std::move(finding));
        }
    }
    print(options.json ? doctor::json_of(subject, findings)
                       : "\n" + doctor::verdict_of(subject, findings));
    return healthy ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
    return output::end_of("rawqp-doctor", 1, [&] {
        int status = 0;
        const std::optional<doctor::Options> options = doctor::parse_options(argc, argv, status);
        return options ? examine(*options) : status;
    });
}
