// SPDX-License-Identifier: BSD-3-Clause
// The meters of a port with their profiles and policies, as rte_mtr has them.
#pragma once

#include "drivers/net/rawqp/ethdev/meter/meter_device.hpp"
#include "drivers/net/rawqp/ethdev/meter/profile.hpp"
#include "drivers/net/rawqp/ethdev/steering/steering.hpp"

#include <map>

namespace rawqp {

/// Which colors are dropped; packets of the others go where their rule says. By rte_color.
using MeterPolicy = std::array<bool, RTE_COLORS>;

/// Numbers are the application's. What is in use cannot be deleted (EBUSY). Any meter may be run by
/// any number of rules. Control threads, one at a time.
class Meters {
  public:
    Meters(MeterDevice device, Steering& steering)
        : device_(std::move(device)), steering_(steering) {}

    [[nodiscard]] MeterResult<rte_mtr_capabilities> capabilities();

    MeterResult<void> add_profile(uint32_t id, const rte_mtr_meter_profile& profile);
    MeterResult<void> delete_profile(uint32_t id);
    /// Reads a policy: which colors are dropped and which go on.
    [[nodiscard]] static MeterResult<MeterPolicy> read(const rte_mtr_meter_policy_params& policy);
    MeterResult<void> add_policy(uint32_t id, const rte_mtr_meter_policy_params& policy);
    MeterResult<void> delete_policy(uint32_t id);

    MeterResult<void> create(uint32_t id, const rte_mtr_params& params);
    MeterResult<void> destroy(uint32_t id);
    MeterResult<void> enable(uint32_t id, bool on);
    MeterResult<void> use_profile(uint32_t id, uint32_t profile);
    /// Enables the existing kinds: to ask for all, applications set bits that rte_mtr has no name
    /// for.
    MeterResult<void> use_stats(uint32_t id, uint64_t mask);
    /// Reads the kinds that were asked for, and resets what it reports if `clear`.
    MeterResult<uint64_t> read(uint32_t id, rte_mtr_stats& stats, bool clear);

    /// A meter for a rule, which keeps it. Null: there is none.
    [[nodiscard]] MeterRef find(uint32_t id) const;

  private:
    struct Kept {
        Ref<Meter> meter;
        uint32_t profile, policy;
        bool enabled;
        uint64_t stats_mask;
    };
    template <class Map>
    MeterResult<void> erase(Map& map, uint32_t id, uint32_t Kept::*named, rte_mtr_error_type type,
                            const char* kind);
    /// How many there can be that rules can run. ENOTSUP: none.
    [[nodiscard]] MeterResult<uint32_t> most();
    [[nodiscard]] MeterResult<Kept*> at(uint32_t id);
    [[nodiscard]] MeterResult<void> write(const Kept& kept);
    [[nodiscard]] MeterResult<void> check(const rte_mtr_params& params) const;

    MeterDevice device_;
    Steering& steering_;
    std::map<uint32_t, mlx5::MeterParams> profiles_;
    std::map<uint32_t, MeterPolicy> policies_;
    std::map<uint32_t, Kept> meters_;
};

} // namespace rawqp
