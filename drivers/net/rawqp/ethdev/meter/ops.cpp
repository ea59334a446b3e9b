// SPDX-License-Identifier: BSD-3-Clause
// Between rte_mtr and the port's meters.
#include "drivers/net/rawqp/ethdev/meter/ops.hpp"

#include "drivers/net/rawqp/ethdev/kept_text.hpp"
#include "drivers/net/rawqp/ethdev/meter/meters.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/log.hpp"

namespace rawqp {
namespace {

/// Hands a refusal to the caller.
template <class T> int answer(const MeterResult<T>& result, rte_mtr_error* error) {
    if (result) return 0;
    const char* const text = keep_text(result.error().what);
    RAWQP_LOG(DEBUG, "rte_mtr: %s", text);
    return -rte_mtr_error_set(error, result.error().code, result.error().type, nullptr, text);
}

/// Runs the operation on the port's meters, with the port locked.
template <class Operation> int locked(rte_eth_dev* dev, rte_mtr_error* error, Operation operation) {
    Port& port = Port::of(dev);
    const std::lock_guard lock(port.control);
    return answer(operation(*port.meters), error);
}

constexpr rte_mtr_ops make_ops() {
    rte_mtr_ops ops{};
    ops.capabilities_get = [](rte_eth_dev* dev, rte_mtr_capabilities* can, rte_mtr_error* error) {
        return locked(dev, error, [&](Meters& meters) {
            auto known = meters.capabilities();
            if (known) *can = *known;
            return known;
        });
    };
    ops.meter_profile_add = [](rte_eth_dev* dev, uint32_t id, rte_mtr_meter_profile* profile,
                               rte_mtr_error* error) {
        return locked(dev, error, [&](Meters& meters) { return meters.add_profile(id, *profile); });
    };
    ops.meter_profile_delete = [](rte_eth_dev* dev, uint32_t id, rte_mtr_error* error) {
        return locked(dev, error, [&](Meters& meters) { return meters.delete_profile(id); });
    };
    ops.meter_policy_validate = [](rte_eth_dev*, rte_mtr_meter_policy_params* policy,
                                   rte_mtr_error* error) {
        return answer(Meters::read(*policy), error);
    };
    ops.meter_policy_add = [](rte_eth_dev* dev, uint32_t id, rte_mtr_meter_policy_params* policy,
                              rte_mtr_error* error) {
        return locked(dev, error, [&](Meters& meters) { return meters.add_policy(id, *policy); });
    };
    ops.meter_policy_delete = [](rte_eth_dev* dev, uint32_t id, rte_mtr_error* error) {
        return locked(dev, error, [&](Meters& meters) { return meters.delete_policy(id); });
    };
    ops.create = [](rte_eth_dev* dev, uint32_t id, rte_mtr_params* params, int,
                    rte_mtr_error* error) {
        return locked(dev, error, [&](Meters& meters) { return meters.create(id, *params); });
    };
    ops.destroy = [](rte_eth_dev* dev, uint32_t id, rte_mtr_error* error) {
        return locked(dev, error, [&](Meters& meters) { return meters.destroy(id); });
    };
    ops.meter_enable = [](rte_eth_dev* dev, uint32_t id, rte_mtr_error* error) {
        return locked(dev, error, [&](Meters& meters) { return meters.enable(id, true); });
    };
    ops.meter_disable = [](rte_eth_dev* dev, uint32_t id, rte_mtr_error* error) {
        return locked(dev, error, [&](Meters& meters) { return meters.enable(id, false); });
    };
    ops.meter_profile_update = [](rte_eth_dev* dev, uint32_t id, uint32_t profile,
                                  rte_mtr_error* error) {
        return locked(dev, error, [&](Meters& meters) { return meters.use_profile(id, profile); });
    };
    ops.stats_update = [](rte_eth_dev* dev, uint32_t id, uint64_t mask, rte_mtr_error* error) {
        return locked(dev, error, [&](Meters& meters) { return meters.use_stats(id, mask); });
    };
    ops.stats_read = [](rte_eth_dev* dev, uint32_t id, rte_mtr_stats* stats, uint64_t* mask,
                        int clear, rte_mtr_error* error) {
        return locked(dev, error, [&](Meters& meters) {
            rte_mtr_stats unwanted;
            auto kinds = meters.read(id, stats != nullptr ? *stats : unwanted, clear != 0);
            if (kinds && mask != nullptr) *mask = *kinds;
            return kinds;
        });
    };
    return ops;
}
constinit const rte_mtr_ops kMeterOps = make_ops();

} // namespace

int meter_ops_get(rte_eth_dev*, void* ops) noexcept {
    *static_cast<const rte_mtr_ops**>(ops) = &kMeterOps;
    return 0;
}

} // namespace rawqp
