// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-doctor/options.hpp"
#include "app/rawqp-doctor/output.hpp"

#include <cstdio>
#include <exception>

namespace {

void print(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
}

int examine(const doctor::Options& options) {
    diagnosis::Case subject;
    subject.device = options.device;
    subject.iface = options.iface;
    subject.port = options.port;
    subject.program = options.program;
    bool healthy = true;
    const auto findings = diagnosis::examine(subject, [&](const diagnosis::Finding& finding) {
        const bool first = healthy && doctor::is_broken(finding);
        if (first) healthy = false;
        if (!options.json) print(doctor::text_of(finding, first));
    });
    print(options.json ? doctor::json_of(subject, findings)
                       : "\n" + doctor::verdict_of(subject, findings));
    return healthy ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
    int status = 0;
    const std::optional<doctor::Options> options = doctor::parse_options(argc, argv, status);
    if (!options) return status;
    try {
        return examine(*options);
    } catch (const std::exception& error) { // out of memory, say
        std::fprintf(stderr, "rawqp-doctor: %s\n", error.what());
        return 1;
    }
}
