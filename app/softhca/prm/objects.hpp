// SPDX-License-Identifier: BSD-3-Clause
// Which firmware objects exist, the parameters of each, and the objects that it references.
#pragma once

#include "app/softhca/core/device.hpp"
#include "app/softhca/core/icm.hpp"
#include "app/softhca/identity.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace softhca::prm {

/// Firmware statuses (PRM, table "Command Status"; Linux: MLX5_CMD_STAT_*).
enum class FwStatus : uint8_t {
    ok = 0x00,
    internal_error = 0x01,
    bad_operation = 0x02,
    bad_parameter = 0x03,
    bad_system_state = 0x04,
    bad_resource = 0x05,
    resource_busy = 0x06,
    exceeded_limit = 0x08,
    bad_resource_state = 0x09,
    no_resources = 0x0f,
    bad_input_length = 0x50,
};

[[nodiscard]] FwStatus to_firmware(core::Status status);

/// Destroyed in this order when the HCA is torn down.
enum class Kind : uint8_t {
    flow_group,
    sampler,
    flow_table,
    flow_counters,
    meters,
    definer,
    edit_arguments,
    modify_header,
    reformat,
    tir,
    rqt,
    virtq,
    virtq_counters,
    qp,
    xrc_srq,
    rmp,
    rq,
    sq,
    tis,
    transport_domain,
    cq,
    mkey,
    sw_icm,
    xrcd,
    pd,
    eq,
    uar,
    q_counter,
    umem,
    uctx
};
inline constexpr uint8_t kKinds = 30;

/// Limit on the number of objects of a kind, as a power of two; reported in the capabilities.
[[nodiscard]] constexpr uint8_t log_limit(Kind kind) {
    switch (kind) {
    case Kind::tir: return core::Limits::kLogMaxTirs;
    case Kind::rq: return core::Limits::kLogMaxRqs;
    case Kind::sq: return core::Limits::kLogMaxSqs;
    case Kind::cq: return core::Limits::kLogMaxCqs;
    case Kind::mkey: return core::Limits::kLogMaxMkeys;
    case Kind::pd: return core::Limits::kLogMaxPds;
    case Kind::rqt: return core::Limits::kLogMaxRqts;
    case Kind::qp: return kLogMaxQps;
    case Kind::virtq: return core::Limits::kLogMaxVirtqs;
    case Kind::virtq_counters: return core::Limits::kLogMaxVirtqCounters;
    case Kind::tis: return 12;
    // What the kernel's driver creates of these for itself, and no more: no packet would use
    // others.
    case Kind::xrc_srq:
    case Kind::rmp: return kLogMaxSrqs;
    case Kind::xrcd: return 1;
    case Kind::transport_domain: return 10;
    case Kind::q_counter: return 8;
    case Kind::eq: return 6;
    case Kind::uar: return 13; // as many as the BAR has pages
    case Kind::umem: return 16;
    case Kind::uctx: return 10;
    case Kind::modify_header: return core::Limits::kLogMaxHeaderEdits;
    case Kind::reformat: return core::Limits::kLogMaxReformats;
    case Kind::meters: return core::Limits::kLogMaxMeterPairs;
    case Kind::definer: return 8;
    case Kind::edit_arguments: return core::Limits::kLogMaxEditArguments;
    case Kind::sampler:
    case Kind::sw_icm:
    case Kind::flow_table:
    case Kind::flow_counters: return 16;
    case Kind::flow_group: return 24;
    }
    return 0;
}

/// Object number of ICM that programs fill (SW_ICM): its first block.
[[nodiscard]] constexpr core::Number icm_number(uint64_t address) {
    return static_cast<core::Number>(address >> core::kLogIcmBlock);
}
[[nodiscard]] constexpr uint64_t icm_address(core::Number number) {
    return uint64_t{number} << core::kLogIcmBlock;
}

/// For the driver's commands that create objects for every user, such as the event queues of
/// completions (Linux: MLX5_SHARED_RESOURCE_UID).
inline constexpr uint16_t kSharedUid = 0xffff;
/// What else a user may do (Linux: MLX5_UCTX_CAP_RAW_TX): create SQs.
inline constexpr uint32_t kRawTransmit = 1;

struct Ref {
    Kind kind;
    core::Number number;
    auto operator<=>(const Ref&) const = default;
};

struct Object {
    std::vector<uint8_t> context{}; ///< as given in the command: QUERY_* returns it
    std::vector<Ref> uses{};        ///< each counts this object as a user
    uint32_t users = 0;
    uint16_t uid = 0; ///< the user that owns it; 0: the driver. Set by Objects
    uint8_t state = 0;
    uint32_t detail = 0; ///< whatever else the commands for its kind remember
};

/// Enforces that referenced objects exist and are not destroyed before their users. Not
/// thread-safe: the command interface is the only user.
///
/// Commands come from a user (uid, see CREATE_UCTX) or from the driver (0), which sees everything.
/// A user sees what it created, and what the driver created for all.
class Objects {
  public:
    /// The owner of the commands that run from now on.
    void act_for(uint16_t uid) { uid_ = uid; }
    [[nodiscard]] Object* find(Kind kind, core::Number number);
    /// Likewise, whoever may see it.
    [[nodiscard]] Object* look_up(Kind kind, core::Number number);
    /// Whether the user of the present command sees objects of `owner`.
    [[nodiscard]] bool sees(uint16_t owner) const {
        return is_driver() || owner == uid_ || owner == kSharedUid;
    }
    /// The consecutive numbers of one object, which has Object::detail of them, that begin with
    /// this one; 0: none.
    [[nodiscard]] core::Number run_from(Kind kind, core::Number number);
    [[nodiscard]] bool has_owner(uint16_t uid) const;
    /// Whether all of these exist; the first missing one is remembered.
    [[nodiscard]] bool exist(const std::vector<Ref>& refs);
    /// What the last failed exist() or can_remove() was about, for messages. Clears it.
    [[nodiscard]] std::string take_culprit() { return std::exchange(culprit_, {}); }
    /// Sets it, for a refusal with another cause.
    void blame(std::string culprit) { culprit_ = std::move(culprit); }
    /// The limit for objects of this kind is reached. For kinds unknown to the core.
    [[nodiscard]] bool full(Kind kind) const {
        return counts_[static_cast<size_t>(kind)] >> log_limit(kind) != 0;
    }
    /// Records an object; what it references must exist.
    Object& add(Kind kind, core::Number number, Object object);
    /// Replaces an object's references.
    void set_uses(Object& object, std::vector<Ref> uses);
    /// Whether the object may be destroyed (ok, bad_resource or resource_busy).
    [[nodiscard]] FwStatus can_remove(Kind kind, core::Number number);
    void remove(Kind kind, core::Number number);
    /// A number for an object that only the firmware knows, in first..last; 0: none left.
    [[nodiscard]] core::Number new_number(Kind kind, core::Number first, core::Number last);
    [[nodiscard]] std::vector<core::Number> numbers(Kind kind) const;
    [[nodiscard]] size_t size() const { return objects_.size(); }
    void clear() {
        objects_.clear();
        counts_ = {};
    }

  private:
    [[nodiscard]] bool is_driver() const { return uid_ == 0 || uid_ == kSharedUid; }
    [[nodiscard]] bool is_visible(const Object& object) const;

    std::map<Ref, Object> objects_;
    std::array<uint32_t, kKinds> counts_{};
    std::map<Kind, core::Number> last_;
    std::string culprit_;
    uint16_t uid_ = 0;
};

} // namespace softhca::prm
