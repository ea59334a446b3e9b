// SPDX-License-Identifier: BSD-3-Clause
// Packet pacing: a table of rates, and SQs that name one of its rows.
#include "app/softhca/prm/command_tools.hpp"

namespace softhca::prm {
namespace {

/// Row of a command, or null. Row 0 is that of SQs without a limit.
uint32_t* row_of(Firmware& firmware, uint64_t index) {
    return index != 0 && index < firmware.rates_kbps.size() ? &firmware.rates_kbps[index] : nullptr;
}

FwStatus set_rate_limit(Firmware& firmware, Command& command) {
    using core::Limits;
    const Fields in = command.input();
    const auto index = in.get(PRM(set_pp_rate_limit_in, rate_limit_index));
    const auto kbps =
        in.at(PRM(set_pp_rate_limit_in, ctx)).get(PRM(set_pp_rate_limit_context, rate_limit));
    uint32_t* const row = row_of(firmware, index);
    if (!row) return FwStatus::bad_resource;
    if (kbps != 0 && (kbps < Limits::kMinRateKbps || kbps > Limits::kMaxRateKbps))
        return FwStatus::bad_parameter;
    *row = static_cast<uint32_t>(kbps);
    for (const core::Number sqn : firmware.objects.numbers(Kind::sq))
        if (firmware.objects.look_up(Kind::sq, sqn)->detail == index)
            (void)firmware.device.pace_sq(sqn, *row);
    return FwStatus::ok;
}

FwStatus query_rate_limit(Firmware& firmware, Command& command) {
    // Row and rate stand where the command that sets them has them.
    constexpr Field kIndex = PRM(set_pp_rate_limit_in, rate_limit_index);
    constexpr Field kContext = PRM(set_pp_rate_limit_in, ctx);
    const uint32_t* const row = row_of(firmware, command.input().get(kIndex));
    if (!row) return FwStatus::bad_resource;
    command.output().at(kContext).set(PRM(set_pp_rate_limit_context, rate_limit), *row);
    return FwStatus::ok;
}

} // namespace

FwStatus pace_sq(Firmware& firmware, core::Number sqn, uint64_t index) {
    const uint32_t* const row = row_of(firmware, index);
    if (index != 0 && !row) return FwStatus::bad_resource;
    const auto paced = firmware.device.pace_sq(sqn, row ? *row : 0);
    return paced ? FwStatus::ok : to_firmware(paced.error());
}

void add_pacing_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(SET_PP_RATE_LIMIT, set_pp_rate_limit, set_rate_limit),
        {MLX5_CMD_OP_QUERY_RATE_LIMIT,
         {"QUERY_RATE_LIMIT", PRM(set_pp_rate_limit_in, ctx).offset / 8, query_rate_limit}},
    });
}

} // namespace softhca::prm
