// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/meter/meter_device.hpp"

#include "common/verbs/errno_text.hpp"

namespace rawqp {
namespace {

constexpr auto kUnspecified = RTE_MTR_ERROR_TYPE_UNSPECIFIED;
constexpr uint8_t kMetersOfObject = 2;

} // namespace

MeterResult<MeterDevice::Limits> MeterDevice::limits() {
    if (limits_) return *limits_;
    if (!devx_.available())
        return refuse(ENOTSUP, kUnspecified,
                      "meters are objects by DevX, which the kernel does not give to this process");
    prm::QueryCapIn in{};
    in.head.op_mod = prm::kQosCap;
    prm::QueryQosCapOut out{};
    if (const int error = devx_.ask(in, out))
        return refuse(error, kUnspecified, "the device does not say which meters it has: {}",
                      verbs::errno_text(error));
    const auto in_all = static_cast<uint8_t>(out.log_meters & prm::kLogBits);
    if (in_all == 0) return refuse(ENOTSUP, kUnspecified, "the device has no meters (ASO objects)");
    limits_ = {static_cast<uint8_t>(out.log_meters_at_least & prm::kLogBits), in_all};
    return *limits_;
}

MeterResult<uint32_t> MeterDevice::most() {
    const auto has = limits();
    if (!has) return tl::unexpected(has.error());
    return kMetersOfObject << has->in_all;
}

MeterResult<void> MeterDevice::make_objects() {
    const auto has = limits();
    if (!has) return tl::unexpected(has.error());
    mlx5dv_pd pd{};
    mlx5dv_obj named{};
    named.pd.in = pd_;
    named.pd.out = &pd;
    if (const int error = api_.mlx5_init_obj(&named, MLX5DV_OBJ_PD))
        return refuse(error, kUnspecified, "libmlx5 does not tell the number of the PD: {}",
                      verbs::errno_text(error));
    prm::CreateMetersIn in{};
    in.head.op_mod = prm::kMeterType;
    in.log_objects = uint32_t{has->at_once} << 24;
    in.access_domain = pd.pdn;
    DevxObject made = devx_.make(in, "meters");
    if (!made) {
        const int error = errno;
        return refuse(error, kUnspecified, "the device makes no more meters: {}",
                      verbs::errno_text(error));
    }
    for (uint32_t i = uint32_t{1} << has->at_once; i-- > 0;)
        for (uint8_t place = kMetersOfObject; place-- > 0;)
            free_.push_back({made.number + i, place});
    objects_.push_back(std::move(made));
    return {};
}

MeterResult<MeterSlot> MeterDevice::take() {
    if (free_.empty())
        if (auto made = make_objects(); !made) return tl::unexpected(made.error());
    const MeterSlot slot = free_.back();
    free_.pop_back();
    return slot;
}

MeterResult<void> MeterDevice::write(const MeterSlot& slot, const mlx5::MeterParams& parameters) {
    if (!queue_) {
        auto made = mlx5rings::AsoQueue::make(api_, context_, pd_, ib_port_);
        if (!made) return refuse(made.error().code, kUnspecified, "{}", made.error().what);
        queue_ = std::move(*made);
    }
    const auto written = queue_->write(slot.object, slot.place, parameters);
    if (written) return {};
    queue_.reset(); // it stays in error; the next request gets a new one
    return refuse(written.error().code, kUnspecified, "{}", written.error().what);
}

} // namespace rawqp
