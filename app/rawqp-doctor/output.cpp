// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-doctor/output.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace doctor {
namespace {

using diagnosis::Finding;
using diagnosis::State;

std::string mark_of(State state) {
    return state == State::broken ? "BROKEN" : diagnosis::name_of(state);
}

std::string detail(const char* label, const std::string& text) {
    return text.empty() ? "" : fmt::format("         {:>13}  {}\n", label, text);
}

} // namespace

bool is_broken(const Finding& finding) { return finding.verdict.state == State::broken; }

std::string text_of(const Finding& finding, bool first) {
    const auto& [state, evidence, cause, remedy] = finding.verdict;
    if (state == State::skipped)
        return fmt::format("{:<8} {:<13}  not looked at: {} is broken\n", mark_of(state),
                           finding.id, cause);
    return fmt::format("{:<8} {:<13}  {}{}\n", mark_of(state), finding.id, evidence,
                       first ? "   <== the first broken link" : "") +
           detail("cause", cause) + detail("remedy", remedy);
}

std::string verdict_of(const diagnosis::Case& subject, const std::vector<Finding>& findings) {
    std::string broken;
    for (const Finding& finding : findings)
        if (is_broken(finding))
            broken += fmt::format("{}{}", broken.empty() ? "" : ", ", finding.id);
    if (!broken.empty()) return fmt::format("broken: {}\n", broken);
    return fmt::format("no link is broken: --no-pci --vdev net_rawqp0,device={}{}\n",
                       subject.device,
                       subject.port == 1 ? "" : fmt::format(",port={}", subject.port));
}

std::string json_of(const diagnosis::Case& subject, const std::vector<Finding>& findings) {
    nlohmann::ordered_json all;
    const auto first = std::ranges::find_if(findings, is_broken);
    all["device"] = subject.device;
    all["port"] = subject.port;
    all["healthy"] = first == findings.end();
    all["first_broken"] = nullptr;
    if (first != findings.end()) all["first_broken"] = std::string(first->id);
    all["findings"] = nlohmann::ordered_json::array();
    for (const Finding& finding : findings) {
        const auto& [state, evidence, cause, remedy] = finding.verdict;
        nlohmann::ordered_json one{{"id", finding.id},
                                   {"about", finding.about},
                                   {"state", diagnosis::name_of(state)},
                                   {"evidence", evidence}};
        if (!cause.empty()) one[state == State::skipped ? "skipped_for" : "cause"] = cause;
        if (!remedy.empty()) one["remedy"] = remedy;
        all["findings"].push_back(std::move(one));
    }
    // Names need not be UTF-8: the kernel cuts those of processes anywhere.
    return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace doctor
