// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/fault.hpp"

#include "app/softhca/core/error_names.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fmt/ranges.h>
#include <optional>
#include <span>
#include <utility>

namespace softhca {
namespace {

constexpr const char* kForms =
    "COMMAND:ERRNO[:TIMES[:AFTER]], error_cqe:QUEUE[:SYNDROME], fatal:NUMBER, overrun:CQ, "
    "stall:MILLISECONDS, device_fatal or none";
constexpr std::chrono::milliseconds kLongestStall{1000}; // the requester waits for its end
constexpr int kMaxErrno = 133;                           // EHWPOISON is the last one

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (size_t end = 0; end != text.npos; text.remove_prefix(end == text.npos ? 0 : end + 1)) {
        end = text.find(separator);
        parts.push_back(text.substr(0, end));
    }
    return parts;
}

std::optional<uint32_t> to_number(std::string_view text) {
    uint32_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end) return std::nullopt;
    return value;
}

std::optional<int> errno_of(std::string_view name) {
    for (int error = 1; error <= kMaxErrno; ++error)
        if (const char* known = strerrorname_np(error); known && name == known) return error;
    return std::nullopt;
}

Result<Fault> parse_command_fault(std::span<const std::string_view> parts) {
    CommandFault fault{.command = std::string(parts[0])};
    if (parts.size() < 2 || parts.size() > 4)
        return fail(EINVAL, "{}: expected {}:ERRNO[:TIMES[:AFTER]], as in {}:EPERM", parts[0],
                    parts[0], parts[0]);
    const auto error = errno_of(parts[1]);
    if (!error) return fail(EINVAL, "{}: not the name of an errno, as EPERM is", parts[1]);
    fault.error = *error;
    if (parts.size() > 2) {
        const auto times = to_number(parts[2]);
        if (!times || *times == 0)
            return fail(EINVAL, "{}: the number of failures must be 1 or more", parts[2]);
        fault.times = *times;
    }
    if (parts.size() > 3) {
        const auto after = to_number(parts[3]);
        if (!after)
            return fail(EINVAL, "{}: of commands that succeed before, a number is needed",
                        parts[3]);
        fault.after = *after;
    }
    return fault;
}

Result<Fault> parse_completion_fault(std::span<const std::string_view> parts) {
    const auto queue = parts.size() < 2 ? std::nullopt : to_number(parts[1]);
    if (!queue || parts.size() > 3)
        return fail(EINVAL, "error_cqe: of which queue? Its number is in `softhca stat`");
    CompletionFault fault{.queue = *queue};
    if (parts.size() == 2) return fault;
    std::vector<std::string_view> names;
    names.reserve(core::kCompletionErrorNames.size());
    for (const auto& [name, error] : core::kCompletionErrorNames) {
        fault.cause = error;
        if (name == parts[2]) return fault;
        names.push_back(name);
    }
    return fail(EINVAL, "{}: no syndrome; they are {}", parts[2], fmt::join(names, ", "));
}

Result<Fault> parse_stall(std::span<const std::string_view> parts) {
    const auto milliseconds = parts.size() == 2 ? to_number(parts[1]) : std::nullopt;
    if (!milliseconds || *milliseconds == 0 || *milliseconds > kLongestStall.count())
        return fail(EINVAL, "stall: for how many milliseconds, 1 to {}?", kLongestStall.count());
    return StallFault{std::chrono::milliseconds(*milliseconds)};
}

bool concerns(const CommandFault& fault, std::string_view name) {
    return fault.command == kAnyCommand || is_command(name, fault.command);
}

} // namespace

Result<Fault> parse_fault(std::string_view text) {
    const std::vector<std::string_view> parts = split(text, ':');
    if (text == "none") return NoCommandFaults{};
    if (text == "device_fatal") return DeviceFault{};
    if (parts[0] == "stall") return parse_stall(parts);
    if (parts[0] == "error_cqe") return parse_completion_fault(parts);
    if (parts[0] == "fatal") {
        const auto number = parts.size() == 2 ? to_number(parts[1]) : std::nullopt;
        if (!number)
            return fail(EINVAL, "fatal: of which queue or CQ? Its number is in `softhca stat`");
        return FatalFault{*number};
    }
    if (parts[0] == "overrun") {
        const auto cq = parts.size() == 2 ? to_number(parts[1]) : std::nullopt;
        if (!cq) return fail(EINVAL, "overrun: of which CQ? Its number is in `softhca stat`");
        return OverrunFault{*cq};
    }
    if (parts[0] == kAnyCommand ||
        std::find(kFaultCommands.begin(), kFaultCommands.end(), parts[0]) != kFaultCommands.end())
        return parse_command_fault(parts);
    return fail(EINVAL, "'{}': no fault; give {}, where COMMAND is {} or one of {}", text, kForms,
                kAnyCommand, fmt::join(kFaultCommands, ", "));
}

Result<std::vector<CommandFault>> parse_command_faults(std::string_view text) {
    std::vector<CommandFault> faults;
    if (text.empty()) return faults;
    for (const std::string_view part : split(text, ',')) {
        auto fault = parse_fault(part);
        if (!fault) return tl::unexpected(fault.error());
        auto* command = std::get_if<CommandFault>(&*fault);
        if (!command)
            return fail(EINVAL, "'{}': only at run time, by `softhca fault`; here COMMAND:ERRNO",
                        part);
        faults.push_back(std::move(*command));
    }
    return faults;
}

std::string to_text(const std::vector<CommandFault>& faults) {
    std::string text;
    for (const CommandFault& fault : faults) {
        text += fmt::format("{}{}:{}", text.empty() ? "" : ",", fault.command,
                            strerrorname_np(fault.error));
        if (fault.times != 0) text += fmt::format(":{}", fault.times);
        if (fault.after != 0) text += fmt::format(":{}", fault.after);
    }
    return text;
}

void CommandFaults::add(CommandFault fault) {
    const std::lock_guard lock(mutex_);
    std::erase_if(faults_, [&](const auto& other) { return other.command == fault.command; });
    faults_.push_back(std::move(fault));
}

std::vector<CommandFault> CommandFaults::clear() {
    const std::lock_guard lock(mutex_);
    return std::exchange(faults_, {});
}

int CommandFaults::take(std::string_view name) {
    const std::lock_guard lock(mutex_);
    for (auto fault = faults_.begin(); fault != faults_.end(); ++fault) {
        if (!concerns(*fault, name)) continue;
        if (fault->after != 0) {
            --fault->after;
            continue;
        }
        const int error = fault->error;
        if (fault->times != 0 && --fault->times == 0) faults_.erase(fault);
        return error;
    }
    return 0;
}

int CommandFaults::peek(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(faults_.begin(), faults_.end(), [&](const CommandFault& fault) {
        return fault.after == 0 && concerns(fault, name);
    });
    return found == faults_.end() ? 0 : found->error;
}

} // namespace softhca
