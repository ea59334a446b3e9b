// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/pci/control.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace softhca::pci {
namespace {

using nlohmann::json;
using prm::Firmware;
using prm::FwStatus;

json ok() { return {{"ok", true}}; }
json error(const std::string& what) { return {{"error", what}}; }

/// A number in the request, or the default; empty when it is out of range.
std::optional<uint32_t> number_of(const json& request, const char* key, uint32_t otherwise,
                                  uint32_t last) {
    const auto found = request.find(key);
    if (found == request.end()) return otherwise;
    if (!found->is_number_unsigned() || found->get<uint64_t>() > last) return {};
    return found->get<uint32_t>();
}

json link(Function& function, const json& request) {
    const auto up = request.find("up");
    if (up == request.end() || !up->is_boolean()) return error("link needs \"up\": true or false");
    function.with_firmware([&](Firmware& firmware) { firmware.set_cable(up->get<bool>()); });
    return ok();
}

std::optional<uint16_t> opcode_of(const Firmware& firmware, const json& request) {
    const auto opcode = request.find("opcode");
    if (opcode == request.end()) return {};
    if (*opcode == "any") return Firmware::kAnyCommand;
    if (opcode->is_string()) return firmware.opcode_of(opcode->get<std::string>());
    const auto number = number_of(request, "opcode", 0, UINT16_MAX);
    if (!number || *number == Firmware::kAnyCommand) return {};
    return static_cast<uint16_t>(*number);
}

/// The commands listed in "spare"; empty when it is not a list of commands.
std::optional<std::vector<uint16_t>> spared(const Firmware& firmware, const json& request) {
    std::vector<uint16_t> opcodes;
    const auto names = request.find("spare");
    if (names == request.end()) return opcodes;
    if (!names->is_array()) return {};
    for (const json& name : *names) {
        const auto opcode =
            name.is_string() ? firmware.opcode_of(name.get<std::string>()) : std::nullopt;
        if (!opcode) return {};
        opcodes.push_back(*opcode);
    }
    return opcodes;
}

json inject(Function& function, const json& request) {
    const auto status = number_of(request, "status", 256, 255);
    const auto skip = number_of(request, "skip", 0, ~0u);
    const auto count = number_of(request, "count", 0, ~0u);
    return function.with_firmware([&](Firmware& firmware) {
        const auto opcode = opcode_of(firmware, request);
        if (!opcode) return error("inject needs \"opcode\": a command's name or number, or any");
        if (!status || *status > 255 || !skip || !count)
            return error("inject needs \"status\": 0 to 255; \"skip\" and \"count\" are numbers");
        const auto others = spared(firmware, request);
        if (!others) return error("\"spare\" is a list of commands' names");
        const bool pending =
            firmware.inject(*opcode, {static_cast<FwStatus>(*status), *skip, *count, *others});
        return json{{"ok", true}, {"pending", pending}};
    });
}

json event(Function& function, const json& request) {
    using core::AsyncEvent;
    static const std::map<std::string, AsyncEvent> kEvents = {
        {"port_active", AsyncEvent::port_active}, {"port_error", AsyncEvent::port_error},
        {"cq_error", AsyncEvent::cq_error},       {"sq_fatal", AsyncEvent::sq_fatal},
        {"rq_fatal", AsyncEvent::rq_fatal},
    };
    const auto name = request.find("event");
    const auto number = number_of(request, "number", 0, 0xffffff);
    if (name == request.end() || !name->is_string() || !number)
        return error("event needs \"event\": a name, and \"number\" of a queue");
    const auto found = kEvents.find(name->get<std::string>());
    if (found == kEvents.end()) return error("no event " + name->get<std::string>());
    function.with_firmware([&](Firmware& firmware) { firmware.report(found->second, *number); });
    return ok();
}

json fatal(Function& function, const json& request) {
    constexpr uint32_t kFirmwareAssert = 0x1;
    const auto syndrome = number_of(request, "syndrome", kFirmwareAssert, 255);
    if (!syndrome || *syndrome == 0) return error("\"syndrome\" is 1 to 255");
    function.fail(static_cast<uint8_t>(*syndrome));
    return ok();
}

json commands(Function& function) {
    json answer = json::object();
    const auto counts =
        function.with_firmware([](Firmware& firmware) { return firmware.command_counts(); });
    for (const auto& [name, count] : counts)
        answer[name] = {{"done", count.done}, {"refused", count.refused}};
    return answer;
}

} // namespace

control::Commands control_commands(Function& function) {
    return {
        {"link", [&](const json& request) { return link(function, request); }},
        {"inject", [&](const json& request) { return inject(function, request); }},
        {"event", [&](const json& request) { return event(function, request); }},
        {"fatal", [&](const json& request) { return fatal(function, request); }},
        {"commands", [&](const json&) { return commands(function); }},
    };
}

} // namespace softhca::pci
