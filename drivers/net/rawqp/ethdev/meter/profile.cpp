// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/meter/profile.hpp"

#include <cmath>

namespace rawqp {
namespace {

constexpr auto kProfile = RTE_MTR_ERROR_TYPE_METER_PROFILE;
constexpr double kUnit = 1e9; // tokens a second with mantissa 1, exponent 0
constexpr uint8_t kMostExponent = 31;

constexpr uint32_t kStartsGreen = uint32_t{prm::kColorGreen} << mlx5::kMeterColorShift;
constexpr uint32_t kCountsPackets = 3u << mlx5::kMeterModeShift; // rather than bytes of IP packets

/// What the three algorithms have in common: one bucket or the other, or both.
struct Buckets {
    uint64_t committed_rate, committed_size, excess_rate, excess_size;
    uint32_t mode; ///< bits of mlx5::MeterParams::flags
};

MeterResult<Buckets> buckets_of(const rte_mtr_meter_profile& profile) {
    const unsigned algorithm = number_in(profile.alg);
    switch (algorithm) {
    case RTE_MTR_SRTCM_RFC2697: {
        const auto& of = profile.srtcm_rfc2697;
        return Buckets{of.cir, of.cbs, 0, of.ebs, of.ebs != 0 ? mlx5::kMeterOverflow : 0};
    }
    case RTE_MTR_TRTCM_RFC2698: {
        const auto& of = profile.trtcm_rfc2698;
        if (of.pir < of.cir)
            return refuse(EINVAL, kProfile, "the peak rate {} is less than the committed rate {}",
                          of.pir, of.cir);
        if (of.pbs == 0) // the other algorithms work without their second bucket
            return refuse(EINVAL, kProfile, "the peak size cannot be 0: every packet would be red");
        return Buckets{of.cir, of.cbs, of.pir, of.pbs, mlx5::kMeterBothOnGreen};
    }
    case RTE_MTR_TRTCM_RFC4115: {
        const auto& of = profile.trtcm_rfc4115;
        return Buckets{of.cir, of.cbs, of.eir, of.ebs, mlx5::kMeterOverflow};
    }
    default:
        return refuse(ENOTSUP, kProfile,
                      "algorithm {} is unknown: use srTCM (RFC 2697), trTCM (RFC 2698 or 4115)",
                      algorithm);
    }
}

MeterResult<void> check(const Buckets& buckets, uint64_t unit) {
    if (buckets.committed_rate == 0 || buckets.committed_size == 0)
        return refuse(EINVAL, kProfile,
                      "committed rate {} and size {}: neither can be 0, no packet would be green",
                      buckets.committed_rate, buckets.committed_size);
    for (const uint64_t rate : {buckets.committed_rate, buckets.excess_rate})
        if (rate > kMostRate / unit)
            return refuse(ENOTSUP, kProfile, "rate {}: the largest is {} a second", rate,
                          kMostRate / unit);
    for (const uint64_t size : {buckets.committed_size, buckets.excess_size})
        if (size > kMostSize / unit)
            return refuse(ENOTSUP, kProfile, "burst size {}: the largest is {}", size,
                          kMostSize / unit);
    return {};
}

uint32_t word_of(Scaled size, Scaled rate) {
    return uint32_t{size.exponent} << 24 | uint32_t{size.mantissa} << 16 |
           uint32_t{rate.exponent} << 8 | rate.mantissa;
}

/// `unit`: tokens of a byte or packet.
mlx5::MeterParams parameters_of(const Buckets& buckets, uint64_t unit) {
    mlx5::MeterParams parameters{};
    parameters.flags = mlx5::kMeterValid | kStartsGreen | buckets.mode;
    parameters.cbs_cir = word_of(scaled_size(unit * buckets.committed_size),
                                 scaled_rate(unit * buckets.committed_rate));
    parameters.ebs_eir =
        word_of(scaled_size(unit * buckets.excess_size), scaled_rate(unit * buckets.excess_rate));
    return parameters;
}

} // namespace

Scaled scaled_rate(uint64_t rate) {
    if (rate == 0) return {};
    for (uint8_t exponent = kMostExponent;; --exponent) { // the highest is the most exact
        const double mantissa = std::round(std::ldexp(static_cast<double>(rate), exponent) / kUnit);
        if (mantissa <= 0xff || exponent == 0) return {static_cast<uint8_t>(mantissa), exponent};
    }
}

Scaled scaled_size(uint64_t size) {
    uint8_t exponent = 0;
    while (((size + (uint64_t{1} << exponent) - 1) >> exponent) > 0xff)
        ++exponent;
    return {static_cast<uint8_t>((size + (uint64_t{1} << exponent) - 1) >> exponent), exponent};
}

MeterResult<mlx5::MeterParams> meter_parameters(const rte_mtr_meter_profile& profile) {
    if (number_in(profile.alg) == RTE_MTR_NONE) return open_meter();
    auto buckets = buckets_of(profile);
    if (!buckets) return tl::unexpected(buckets.error());
    const bool packets = profile.packet_mode != 0;
    const uint64_t unit = packets ? kTokensOfPacket : 1;
    if (auto ok = check(*buckets, unit); !ok) return tl::unexpected(ok.error());
    if (packets) buckets->mode |= kCountsPackets;
    return parameters_of(*buckets, unit);
}

mlx5::MeterParams open_meter() {
    return parameters_of({kMostRate, kMostSize, 0, 0, kCountsPackets}, 1);
}

} // namespace rawqp
