// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/rings/mlx5/meters.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace softhca::core::mlx5_rings {
namespace {

static_assert(static_cast<uint8_t>(Color::red) == 0 && static_cast<uint8_t>(Color::green) == 2 &&
              static_cast<uint8_t>(MeterMode::ip_bytes) == 0 &&
              static_cast<uint8_t>(MeterMode::packets) == 3); // as the format numbers them
constexpr uint32_t kTwoBits = 3, kMantissa = 0xff, kExponent = 0x1f;

BucketAttr read_bucket(uint32_t word) {
    return {.rate_mantissa = static_cast<uint8_t>(word & kMantissa),
            .rate_exponent = static_cast<uint8_t>(word >> 8 & kExponent),
            .size_mantissa = static_cast<uint8_t>(word >> 16 & kMantissa),
            .size_exponent = static_cast<uint8_t>(word >> 24 & kExponent)};
}

uint32_t write_bucket(const BucketAttr& bucket) {
    return uint32_t{bucket.size_exponent} << 24 | uint32_t{bucket.size_mantissa} << 16 |
           uint32_t{bucket.rate_exponent} << 8 | bucket.rate_mantissa;
}

MeterAttr read_meter(const std::byte* from) {
    mlx5::MeterParams params;
    std::memcpy(&params, from, sizeof params);
    const uint32_t flags = params.flags;
    return {.valid = (flags & mlx5::kMeterValid) != 0,
            .overflow = (flags & mlx5::kMeterOverflow) != 0,
            .both_on_green = (flags & mlx5::kMeterBothOnGreen) != 0,
            .start = static_cast<Color>(flags >> mlx5::kMeterColorShift & kTwoBits),
            .mode = static_cast<MeterMode>(flags >> mlx5::kMeterModeShift & kTwoBits),
            .committed = read_bucket(params.cbs_cir),
            .excess = read_bucket(params.ebs_eir)};
}

mlx5::MeterParams write_meter(const Meter& meter) {
    const MeterAttr& attr = meter.attr();
    mlx5::MeterParams params{};
    params.flags = (attr.valid ? mlx5::kMeterValid : 0) |
                   (attr.overflow ? mlx5::kMeterOverflow : 0) |
                   (attr.both_on_green ? mlx5::kMeterBothOnGreen : 0) |
                   static_cast<uint32_t>(attr.start) << mlx5::kMeterColorShift |
                   static_cast<uint32_t>(attr.mode) << mlx5::kMeterModeShift;
    params.cbs_cir = write_bucket(attr.committed);
    params.committed_tokens = meter.committed_tokens();
    params.ebs_eir = write_bucket(attr.excess);
    params.excess_tokens = meter.excess_tokens();
    params.timestamp = meter.time();
    return params;
}

} // namespace

std::array<MeterAttr, 2> read_meters(std::span<const std::byte> bytes) {
    return {read_meter(bytes.data()), read_meter(bytes.data() + sizeof(mlx5::MeterParams))};
}

MeterBytes write_meters(const std::array<Meter, 2>& meters) {
    MeterBytes bytes;
    std::byte* to = bytes.data();
    for (const Meter& meter : meters) {
        const mlx5::MeterParams params = write_meter(meter);
        std::memcpy(to, &params, sizeof params);
        to += sizeof params;
    }
    return bytes;
}

void update_meters(std::array<Meter, 2>& meters, std::span<const std::byte> data, uint64_t mask,
                   uint64_t now) {
    constexpr uint64_t kFirst = uint64_t{1} << 63;
    constexpr uint64_t kOfOneMeter = ~uint64_t{0} << (64 - sizeof(mlx5::MeterParams));
    MeterBytes bytes = write_meters(meters);
    for (size_t i = 0; i < bytes.size(); i++)
        if (mask & kFirst >> i) bytes[i] = data[i];
    const std::array<MeterAttr, 2> written = read_meters(bytes);
    for (size_t i = 0; i < meters.size(); i++)
        if (mask << (i * sizeof(mlx5::MeterParams)) & kOfOneMeter) meters[i].set(written[i], now);
}

// ---------------------------------------------------------------- WQEs

namespace {

constexpr size_t kDataAt = sizeof(mlx5::WqeCtrlSeg) + sizeof(mlx5::WqeAsoCtrlSeg);

/// Whether the object is written; empty: it depends on a comparison, which is not supported.
std::optional<bool> is_condition_met(const mlx5::WqeAsoCtrlSeg& aso) {
    const uint8_t first = aso.operators >> 4, second = aso.operators & 0xf;
    if (std::max(first, second) > mlx5::kAsoAlwaysTrue) return {};
    return aso.joining & mlx5::kAsoOr ? (first | second) != 0 : (first & second) != 0;
}

} // namespace

std::span<const std::byte> aso_data(std::span<const std::byte> wqe) {
    return wqe.subspan(std::min(kDataAt, wqe.size()));
}

SendFault decode_aso(std::span<const std::byte> wqe, SendRequest& request, uint64_t& mask) {
    if (wqe.size() < kDataAt) return SendFault::bad_ds;
    mlx5::WqeCtrlSeg ctrl;
    mlx5::WqeAsoCtrlSeg aso;
    std::memcpy(&ctrl, wqe.data(), sizeof ctrl);
    std::memcpy(&aso, wqe.data() + sizeof ctrl, sizeof aso);
    if (ctrl.opmod_idx_opcode >> 24 != mlx5::kAsoPolicer) return SendFault::bad_opcode;
    request.kind = SendRequest::Kind::meters;
    request.header = {};
    request.meters = ctrl.imm;
    request.read_to = {};
    if (aso.va_low_read & mlx5::kAsoRead)
        request.read_to = {.bytes = mlx5::kAsoDataBytes,
                           .lkey = aso.lkey,
                           .address =
                               uint64_t{aso.va_high} << 32 | (aso.va_low_read & ~mlx5::kAsoRead)};
    const std::optional<bool> writes = is_condition_met(aso);
    mask = aso.data_mask;
    if (!writes || (mask != 0 && (aso.data_mask_mode & mlx5::kAsoModeMask) != mlx5::kAsoBytewise))
        return SendFault::bad_meter_write;
    if (!*writes) mask = 0;
    if (mask != 0 && aso_data(wqe).size() < mlx5::kAsoDataBytes) return SendFault::bad_ds;
    return SendFault::none;
}

} // namespace softhca::core::mlx5_rings
