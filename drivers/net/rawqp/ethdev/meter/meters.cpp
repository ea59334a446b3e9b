// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/meter/meters.hpp"

#include "drivers/net/rawqp/ethdev/names.hpp"

#include <algorithm>

namespace rawqp {
namespace {

constexpr uint64_t kStats = RTE_MTR_STATS_N_PKTS_GREEN | RTE_MTR_STATS_N_PKTS_YELLOW |
                            RTE_MTR_STATS_N_PKTS_RED | RTE_MTR_STATS_N_PKTS_DROPPED |
                            RTE_MTR_STATS_N_BYTES_GREEN | RTE_MTR_STATS_N_BYTES_YELLOW |
                            RTE_MTR_STATS_N_BYTES_RED | RTE_MTR_STATS_N_BYTES_DROPPED;

constexpr const char* kColorNames[] = {"green", "yellow", "red"};
constexpr rte_mtr_error_type kOfColor[] = {RTE_MTR_ERROR_TYPE_POLICER_ACTION_GREEN,
                                           RTE_MTR_ERROR_TYPE_POLICER_ACTION_YELLOW,
                                           RTE_MTR_ERROR_TYPE_POLICER_ACTION_RED};

/// Whether packets of this color are dropped.
MeterResult<bool> read_actions(const rte_flow_action* actions, size_t color) {
    bool drop = false;
    if (actions == nullptr) return drop;
    for (; actions->type != RTE_FLOW_ACTION_TYPE_END; ++actions) {
        if (actions->type == RTE_FLOW_ACTION_TYPE_VOID) continue;
        const auto* const same =
            actions->type == RTE_FLOW_ACTION_TYPE_METER_COLOR
                ? static_cast<const rte_flow_action_meter_color*>(actions->conf)
                : nullptr;
        if (same != nullptr && number_in(same->color) == color) continue;
        if (actions->type != RTE_FLOW_ACTION_TYPE_DROP)
            return refuse(ENOTSUP, kOfColor[color],
                          "action {} of {} packets is not supported: use drop, or none, and what "
                          "the rule is to do with the others",
                          action_name(actions->type), kColorNames[color]);
        drop = true;
    }
    return drop;
}

/// Checks that nothing has this number yet.
template <class Map>
MeterResult<void> check_new(const Map& map, uint32_t id, rte_mtr_error_type type,
                            const char* kind) {
    if (!map.contains(id)) return {};
    return refuse(EEXIST, type, "there is a {} {} already: delete it first, or use another number",
                  kind, id);
}

template <class Map>
MeterResult<void> check_known(const Map& map, uint32_t id, rte_mtr_error_type type,
                              const char* kind) {
    if (map.contains(id)) return {};
    return refuse(ENOENT, type, "there is no {} {} on this port: it was not added, or was deleted",
                  kind, id);
}

constexpr size_t kDscpValues = 64, kVlanValues = 16; // those of DEI and PCP

/// Whether the table gives no packet another color. None is the same as a green one.
bool is_green(const rte_color* table, size_t values) {
    return table == nullptr || std::all_of(table, table + values, [](const rte_color& color) {
               return number_in(color) == RTE_COLOR_GREEN;
           });
}

constexpr auto kProfileId = RTE_MTR_ERROR_TYPE_METER_PROFILE_ID;
constexpr auto kPolicyId = RTE_MTR_ERROR_TYPE_METER_POLICY_ID;
constexpr auto kMeterId = RTE_MTR_ERROR_TYPE_MTR_ID;

} // namespace

MeterResult<uint32_t> Meters::most() {
    const auto of_device = device_.most();
    SteeringRequest metered;
    metered.meter = make_ref<const Meter>(Meter{});
    const auto engine = steering_.engine_for(metered);
    if (of_device && !engine)
        return refuse(ENOTSUP, RTE_MTR_ERROR_TYPE_UNSPECIFIED, "no rule could run a meter: {}",
                      engine.error().what);
    return of_device;
}

MeterResult<rte_mtr_capabilities> Meters::capabilities() {
    const auto can_be = most();
    if (!can_be) return tl::unexpected(can_be.error());
    rte_mtr_capabilities can{};
    can.n_max = can.n_shared_max = *can_be;
    can.identical = can.shared_identical = 1;
    can.shared_n_flows_per_mtr_max = UINT32_MAX;
    can.chaining_n_mtrs_per_flow_max = 1;
    can.meter_srtcm_rfc2697_n_max = can.meter_trtcm_rfc2698_n_max = can.meter_trtcm_rfc4115_n_max =
        *can_be;
    can.meter_rate_max = kMostRate;
    can.meter_policy_n_max = can.n_max; // rte_mtr.h allows no more
    can.srtcm_rfc2697_byte_mode_supported = can.srtcm_rfc2697_packet_mode_supported = 1;
    can.trtcm_rfc2698_byte_mode_supported = can.trtcm_rfc2698_packet_mode_supported = 1;
    can.trtcm_rfc4115_byte_mode_supported = can.trtcm_rfc4115_packet_mode_supported = 1;
    can.stats_mask = kStats;
    return can;
}

MeterResult<void> Meters::add_profile(uint32_t id, const rte_mtr_meter_profile& profile) {
    if (auto fresh = check_new(profiles_, id, kProfileId, "meter profile"); !fresh) return fresh;
    const auto parameters = meter_parameters(profile);
    if (!parameters) return tl::unexpected(parameters.error());
    profiles_.emplace(id, *parameters);
    return {};
}

MeterResult<void> Meters::delete_profile(uint32_t id) {
    return erase(profiles_, id, &Kept::profile, kProfileId, "meter profile");
}

MeterResult<MeterPolicy> Meters::read(const rte_mtr_meter_policy_params& policy) {
    MeterPolicy drops{};
    for (size_t color = 0; color < RTE_COLORS; ++color) {
        const auto drop = read_actions(policy.actions[color], color);
        if (!drop) return tl::unexpected(drop.error());
        drops[color] = *drop;
    }
    return drops;
}

MeterResult<void> Meters::add_policy(uint32_t id, const rte_mtr_meter_policy_params& policy) {
    if (auto fresh = check_new(policies_, id, kPolicyId, "meter policy"); !fresh) return fresh;
    const auto drops = read(policy);
    if (!drops) return tl::unexpected(drops.error());
    policies_.emplace(id, *drops);
    return {};
}

MeterResult<void> Meters::delete_policy(uint32_t id) {
    return erase(policies_, id, &Kept::policy, kPolicyId, "meter policy");
}

/// Deletes an entry, unless a meter names it by this member.
template <class Map>
MeterResult<void> Meters::erase(Map& map, uint32_t id, uint32_t Kept::*named,
                                rte_mtr_error_type type, const char* kind) {
    if (auto known = check_known(map, id, type, kind); !known) return known;
    for (const auto& [meter, kept] : meters_)
        if (kept.*named == id)
            return refuse(EBUSY, type, "meter {} uses {} {}: destroy it first", meter, kind, id);
    map.erase(id);
    return {};
}

MeterResult<void> Meters::check(const rte_mtr_params& params) const {
    if (auto known = check_known(profiles_, params.meter_profile_id, kProfileId, "meter profile");
        !known)
        return known;
    if (auto known = check_known(policies_, params.meter_policy_id, kPolicyId, "meter policy");
        !known)
        return known;
    // default_input_color is for meters that take colors from headers (input_color_proto_mask),
    // which cannot be set.
    if (params.use_prev_mtr_color != 0 || !is_green(params.dscp_table, kDscpValues) ||
        !is_green(params.vlan_table, kVlanValues))
        return refuse(ENOTSUP, RTE_MTR_ERROR_TYPE_MTR_PARAMS,
                      "packets have no color before they are metered: use no earlier meter's "
                      "color, and green for all values in tables of DSCP or VLAN values");
    return {};
}

MeterResult<Meters::Kept*> Meters::at(uint32_t id) {
    if (auto known = check_known(meters_, id, kMeterId, "meter"); !known)
        return tl::unexpected(known.error());
    return &meters_.at(id);
}

MeterResult<void> Meters::write(const Kept& kept) {
    return device_.write({kept.meter->object, kept.meter->place},
                         kept.enabled ? profiles_.at(kept.profile) : open_meter());
}

MeterResult<void> Meters::create(uint32_t id, const rte_mtr_params& params) {
    if (auto fresh = check_new(meters_, id, kMeterId, "meter"); !fresh) return fresh;
    if (auto ok = check(params); !ok) return ok;
    if (const auto can_be = most(); !can_be) return tl::unexpected(can_be.error());
    const auto slot = device_.take();
    if (!slot) return tl::unexpected(slot.error());
    Kept kept{make_ref<Meter>(), params.meter_profile_id, params.meter_policy_id,
              params.meter_enable != 0, params.stats_mask & kStats};
    kept.meter->object = slot->object;
    kept.meter->place = slot->place;
    for (size_t color = 0; color < RTE_COLORS; ++color)
        kept.meter->colors[color] = {policies_.at(kept.policy)[color],
                                     steering_.make_counter(true)};
    if (auto written = write(kept); !written) {
        device_.give_back(*slot);
        return written;
    }
    meters_.emplace(id, std::move(kept));
    return {};
}

MeterResult<void> Meters::destroy(uint32_t id) {
    const auto kept = at(id);
    if (!kept) return tl::unexpected(kept.error());
    const Meter& meter = *(*kept)->meter;
    if ((*kept)->meter.use_count() > 1)
        return refuse(EBUSY, kMeterId, "rules run meter {}: destroy them first", id);
    device_.give_back({meter.object, meter.place});
    meters_.erase(id);
    return {};
}

MeterResult<void> Meters::enable(uint32_t id, bool on) {
    const auto kept = at(id);
    if (!kept) return tl::unexpected(kept.error());
    if (std::exchange((*kept)->enabled, on) == on) return {};
    auto written = write(**kept);
    if (!written) (*kept)->enabled = !on;
    return written;
}

MeterResult<void> Meters::use_profile(uint32_t id, uint32_t profile) {
    const auto kept = at(id);
    if (!kept) return tl::unexpected(kept.error());
    if (auto known = check_known(profiles_, profile, kProfileId, "meter profile"); !known)
        return known;
    const uint32_t before = std::exchange((*kept)->profile, profile);
    auto written = write(**kept);
    if (!written) (*kept)->profile = before;
    return written;
}

MeterResult<void> Meters::use_stats(uint32_t id, uint64_t mask) {
    const auto kept = at(id);
    if (!kept) return tl::unexpected(kept.error());
    (*kept)->stats_mask = mask & kStats;
    return {};
}

MeterResult<uint64_t> Meters::read(uint32_t id, rte_mtr_stats& stats, bool clear) {
    const auto kept = at(id);
    if (!kept) return tl::unexpected(kept.error());
    stats = {};
    std::array<FlowCounts, RTE_COLORS> all;
    for (size_t color = 0; color < RTE_COLORS; ++color) {
        const ColorAction& of = (*kept)->meter->colors[color];
        const auto counts = of.counter->read();
        if (!counts)
            return refuse(counts.error().code, RTE_MTR_ERROR_TYPE_STATS, "{}", counts.error().what);
        // Those of a color are the ones that passed.
        (of.drop ? stats.n_pkts_dropped : stats.n_pkts[color]) += counts->packets;
        (of.drop ? stats.n_bytes_dropped : stats.n_bytes[color]) += counts->bytes;
        all[color] = *counts;
    }
    // Only now: what is cleared was told.
    for (size_t color = 0; clear && color < RTE_COLORS; ++color)
        (*kept)->meter->colors[color].counter->reset(all[color]);
    return (*kept)->stats_mask;
}

MeterRef Meters::find(uint32_t id) const {
    const auto kept = meters_.find(id);
    return kept != meters_.end() ? kept->second.meter : nullptr;
}

} // namespace rawqp
