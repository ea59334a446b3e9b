// SPDX-License-Identifier: BSD-3-Clause
// Packet pacing: a table of rates, and SQs that refer to one of its rows.
#include "app/softhca/prm/command_tools.hpp"

#include <algorithm>

namespace softhca::prm {
namespace {

/// The unit of the rate; reserved bits in the kernel's header. Source: mlx5_prm.h of DPDK
/// (rate_mode: MLX5_DATA_RATE, MLX5_WQE_RATE).
constexpr Field kRateMode{0x4c, 4};
constexpr uint64_t kDataRate = 0, kWqeRate = 1;

/// Burst and packet sizes, in what follows the rate: neither supported nor announced by the
/// capabilities.
bool wants_more_than_a_rate(const Fields& context) {
    constexpr size_t kAfterRate = 4;
    std::vector<uint8_t> bytes = context.copy(PRM_BYTES(set_pp_rate_limit_context));
    Fields(bytes.data(), bytes.size()).set(kRateMode, 0);
    return std::any_of(bytes.begin() + kAfterRate, bytes.end(),
                       [](uint8_t byte) { return byte != 0; });
}

/// The row of a command, or null. Row 0 is for SQs without a limit.
PacingRate* row_of(Firmware& firmware, uint64_t index) {
    return index != 0 && index < firmware.rates.size() ? &firmware.rates[index] : nullptr;
}

core::Outcome<void> pace(core::Device& device, core::Number sqn, const PacingRate& row) {
    return row.of_wqes ? device.pace_sq_requests(sqn, row.rate) : device.pace_sq(sqn, row.rate);
}

FwStatus set_rate_limit(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    const auto index = in.get(PRM(set_pp_rate_limit_in, rate_limit_index));
    const Fields context = in.at(PRM(set_pp_rate_limit_in, ctx));
    const auto rate = context.get(PRM(set_pp_rate_limit_context, rate_limit));
    const auto mode = context.get(kRateMode);
    PacingRate* const row = row_of(firmware, index);
    if (!row) return FwStatus::bad_resource;
    if (rate > core::Limits::kMaxRateKbps || mode > kWqeRate) return FwStatus::bad_parameter;
    if (wants_more_than_a_rate(context)) return FwStatus::bad_parameter;
    *row = {};
    if (rate != 0)
        *row = {
            .rate = static_cast<uint32_t>(rate), .of_wqes = mode == kWqeRate, .uid = command.uid};
    for (const core::Number sqn : firmware.objects.numbers(Kind::sq))
        if (firmware.objects.look_up(Kind::sq, sqn)->detail == index)
            (void)pace(firmware.device, sqn, *row);
    return FwStatus::ok;
}

FwStatus query_rate_limit(Firmware& firmware, Command& command) {
    // Row and rate are where the command that sets them has them.
    constexpr Field kIndex = PRM(set_pp_rate_limit_in, rate_limit_index);
    constexpr Field kContext = PRM(set_pp_rate_limit_in, ctx);
    const PacingRate* const row = row_of(firmware, command.input().get(kIndex));
    if (!row) return FwStatus::bad_resource;
    Fields context = command.output().at(kContext);
    context.set(PRM(set_pp_rate_limit_context, rate_limit), row->rate);
    context.set(kRateMode, row->of_wqes ? kWqeRate : kDataRate);
    return FwStatus::ok;
}

} // namespace

FwStatus pace_sq(Firmware& firmware, core::Number sqn, uint64_t index) {
    const PacingRate* const row = row_of(firmware, index);
    if (index != 0 && (!row || !firmware.objects.sees(row->uid))) return FwStatus::bad_resource;
    const auto paced = pace(firmware.device, sqn, row ? *row : PacingRate{});
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
