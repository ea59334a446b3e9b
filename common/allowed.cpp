// SPDX-License-Identifier: BSD-3-Clause
#include "common/allowed.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <vector>

namespace {

std::vector<std::string_view> split(std::string_view choices) {
    std::vector<std::string_view> list;
    for (size_t bar = 0; bar != choices.npos;) {
        bar = choices.find('|');
        list.push_back(choices.substr(0, bar));
        if (bar != choices.npos) choices.remove_prefix(bar + 1);
    }
    return list;
}

/// "neither raw nor real", "none of l2, ip and tcp".
std::string none_of(const std::vector<std::string_view>& choices) {
    if (choices.size() == 2) return fmt::format("neither {} nor {}", choices[0], choices[1]);
    return fmt::format("none of {} and {}", fmt::join(choices.begin(), choices.end() - 1, ", "),
                       choices.back());
}

/// Whether all of the text is a number.
bool parse(std::string_view text, unsigned& number) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    return error == std::errc() && stop == end;
}

} // namespace

Result<AllowedValue> check_value(std::string_view key, const Allowed& allowed,
                                 std::string_view text) {
    const auto& [choices, min, max] = allowed;
    AllowedValue given{text};
    if (!choices.empty()) {
        const std::vector<std::string_view> list = split(choices);
        const auto found = std::ranges::find(list, text);
        if (found == list.end()) return fail(EINVAL, "{}={}: {}", key, text, none_of(list));
        given.number = static_cast<unsigned>(found - list.begin());
    } else if (max != 0) {
        if (!parse(text, given.number) || given.number < min || given.number > max)
            return fail(EINVAL, "{}={}: not a number from {} to {}", key, text, min, max);
    }
    return given;
}

Allowed parse_allowed(std::string_view text) {
    if (text.find('|') != text.npos) return {.choices = text};
    const size_t dots = text.find("..");
    Allowed range{};
    if (dots == text.npos || !parse(text.substr(0, dots), range.min) ||
        !parse(text.substr(dots + 2), range.max))
        return {};
    return range;
}
