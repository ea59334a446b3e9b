// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/wire/spec.hpp"

#include "app/softhca/wire/frame.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <net/if.h>
#include <optional>
#include <sys/un.h>

namespace softhca::wire {
namespace {

constexpr std::string_view kForms =
    "tap:NAME[:plain], socket:PATH, link:NAME, pair:NAME, pcap:IN[,OUT], loop, sink, "
    "gen[:count=N,size=BYTES,flows=N,rate=PER_SECOND]";
constexpr size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1 - 7; // 7: see SocketWire
constexpr uint32_t kMinGenerated = 60; // the shortest Ethernet frame without FCS
constexpr uint32_t kMaxFlows = 1u << 24;

bool is_name(std::string_view text, size_t longest) {
    return !text.empty() && text.size() <= longest && text != "." && text != ".." &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) {
               return std::isalnum(c) || c == '_' || c == '-' || c == '.';
           });
}

template <class Spec>
Result<WireSpec> named(std::string_view kind, std::string_view name, size_t longest) {
    if (!is_name(name, longest))
        return fail(EINVAL, "wire {}:{}: bad name; use 1 to {} letters, digits, '_', '-', '.'",
                    kind, name, longest);
    return Spec{std::string(name)};
}

template <class Spec> Result<WireSpec> plain(std::string_view kind, std::string_view text) {
    if (text != kind)
        return fail(EINVAL, "wire {}: takes no parameters, but has '{}'", kind,
                    text.substr(kind.size()));
    return Spec{};
}

Result<WireSpec> parse_tap(std::string_view text) {
    const size_t colon = text.find(':');
    if (colon != text.npos && text.substr(colon + 1) != "plain")
        return fail(EINVAL, "wire tap:{}: '{}' is no option of a TAP: the only one is plain", text,
                    text.substr(colon + 1));
    auto parsed = named<TapSpec>("tap", text.substr(0, colon), IFNAMSIZ - 1);
    if (parsed) std::get<TapSpec>(*parsed).plain = colon != text.npos;
    return parsed;
}

Result<WireSpec> parse_socket(std::string_view path) {
    if (path.empty() || path.size() > kMaxPath || path.find('\0') != path.npos)
        return fail(EINVAL, "wire socket:{}: the path must have 1 to {} bytes", path, kMaxPath);
    return SocketSpec{std::string(path)};
}

/// Empty stays empty.
std::string absolute(const std::string& path) {
    std::error_code error; // the present folder may be gone
    const std::string found = path.empty() ? path : std::filesystem::absolute(path, error).string();
    return error ? path : found;
}

Result<WireSpec> parse_pcap(std::string_view files) {
    const size_t comma = files.find(',');
    PcapSpec spec;
    spec.in = files.substr(0, comma);
    if (comma != files.npos) spec.out = files.substr(comma + 1);
    if (spec.in.empty() && spec.out.empty())
        return fail(EINVAL, "wire pcap: which file? Write pcap:IN to play a file, pcap:IN,OUT to "
                            "record as well, pcap:,OUT to record only");
    std::error_code none; // either may be missing
    if (spec.in == spec.out || std::filesystem::equivalent(spec.in, spec.out, none))
        return fail(EINVAL,
                    "wire pcap:{}: the file that it plays would be overwritten; give another OUT",
                    files);
    return spec;
}

std::optional<uint64_t> to_number(std::string_view text) {
    uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end) return std::nullopt;
    return value;
}

Result<void> set_gen(GenSpec& spec, std::string_view key, std::string_view text) {
    const auto number = to_number(text);
    const auto check = [&](uint64_t low, uint64_t high) -> Result<void> {
        if (number && *number >= low && *number <= high) return {};
        return fail(EINVAL, "wire gen: {}={}: give a number from {} to {}", key, text, low, high);
    };
    Result<void> checked;
    if (key == "count") {
        if (checked = check(1, UINT64_MAX); checked) spec.count = *number;
    } else if (key == "size") {
        if (checked = check(kMinGenerated, kMaxFrame); checked) spec.size = uint32_t(*number);
    } else if (key == "flows") {
        if (checked = check(1, kMaxFlows); checked) spec.flows = uint32_t(*number);
    } else if (key == "rate") {
        if (checked = check(1, 1'000'000'000); checked) spec.rate = *number;
    } else {
        checked = fail(EINVAL, "wire gen: '{}' is not one of count, size, flows, rate", key);
    }
    return checked;
}

Result<WireSpec> parse_gen(std::string_view text) {
    GenSpec spec;
    while (!text.empty()) {
        const std::string_view option = text.substr(0, text.find(','));
        text.remove_prefix(std::min(option.size() + 1, text.size()));
        const size_t equals = option.find('=');
        if (equals == option.npos)
            return fail(EINVAL,
                        "wire gen: '{}': expected key=number with count, size, flows or rate",
                        option);
        auto set = set_gen(spec, option.substr(0, equals), option.substr(equals + 1));
        if (!set) return tl::unexpected(set.error());
    }
    return spec;
}

} // namespace

Result<WireSpec> parse_wire_spec(std::string_view text) {
    const size_t stop = text.find_first_of(":,");
    const std::string_view kind = text.substr(0, stop);
    const std::string_view rest = stop == text.npos ? "" : text.substr(stop + 1);

    if (kind == "loop") return plain<LoopSpec>(kind, text);
    if (kind == "sink") return plain<SinkSpec>(kind, text);
    if (kind == "gen") return parse_gen(rest);
    if (kind == "tap") return parse_tap(rest);
    if (kind == "link") return named<LinkSpec>(kind, rest, 64);
    if (kind == "pair") return named<PairSpec>(kind, rest, 64);
    if (kind == "socket") return parse_socket(rest);
    if (kind == "pcap") return parse_pcap(rest);
    return fail(EINVAL, "wire '{}': no such kind of wire; the kinds are {}", text, kForms);
}

std::string with_absolute_paths(std::string_view text) {
    const auto spec = parse_wire_spec(text);
    if (!spec) return std::string(text);
    if (const auto* const socket = std::get_if<SocketSpec>(&*spec)) {
        const std::string path = absolute(socket->path);
        if (path.size() <= kMaxPath) return "socket:" + path;
    } else if (const auto* const pcap = std::get_if<PcapSpec>(&*spec)) {
        const std::string in = absolute(pcap->in);
        if (in.find(',') == in.npos)
            return fmt::format("pcap:{}{}{}", in, pcap->out.empty() ? "" : ",",
                               absolute(pcap->out));
    }
    return std::string(text);
}

} // namespace softhca::wire
