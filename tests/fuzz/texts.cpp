// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/config.hpp"
#include "app/softhca/fault.hpp"
#include "app/softhca/wire/spec.hpp"
#include "drivers/net/rawqp/ethdev/driver/devargs.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/inputs.hpp"

#include <fmt/format.h>

namespace fuzz {
namespace {

using namespace softhca;

template <class Parsed> std::string reason_of(const Parsed& parsed) {
    return parsed || !parsed.error().what.empty() ? "" : "refused without a reason";
}

std::string same(const std::string& one, const std::string& other) {
    return one == other ? "" : fmt::format("read back as something else: {} … {}", one, other);
}

/// As the launcher passes it to the program.
std::string play_config(Result<Config> config) {
    if (!config) return reason_of(config);
    if (const auto done = complete(*config); !done) return reason_of(done);
    const std::string written = to_json(*config);
    const auto again = config_from_json(written);
    if (!again) return fmt::format("{} is refused: {}", written, again.error().what);
    return same(written, to_json(*again));
}

std::string play_port(const std::string& text) {
    const auto port = parse_port(text);
    if (!port) return reason_of(port);
    Config config;
    config.ports = {*port};
    return play_config(config);
}

std::string play_faults(const std::string& text) {
    const auto faults = parse_command_faults(text);
    if (!faults) return reason_of(faults);
    const std::string written = to_text(*faults);
    const auto again = parse_command_faults(written);
    if (!again) return fmt::format("{} is refused: {}", written, again.error().what);
    return same(written, to_text(*again));
}

} // namespace

std::string play_texts(std::span<const uint8_t> bytes) {
    Input input(bytes);
    const uint8_t which = input.byte();
    const std::string text = input.text();
    switch (which % 6) {
    case 0: return reason_of(rawqp::parse_devargs(text.c_str()));
    case 1: return play_port(text);
    case 2: return play_config(config_from_json(text));
    case 3: return reason_of(wire::parse_wire_spec(text));
    case 4: return play_faults(text);
    default: return reason_of(parse_fault(text));
    }
}

} // namespace fuzz
