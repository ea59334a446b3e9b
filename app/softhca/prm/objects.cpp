// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/prm/objects.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace softhca::prm {
namespace {

const char* name_of(Kind kind) {
    static constexpr std::array kNames = {"flow group",
                                          "sampler",
                                          "flow table",
                                          "flow counter",
                                          "flow meter",
                                          "match definer",
                                          "modify header argument",
                                          "modify header context",
                                          "packet reformat context",
                                          "TIR",
                                          "RQT",
                                          "virtio queue",
                                          "virtio queue counters",
                                          "QP",
                                          "XRC SRQ",
                                          "RMP",
                                          "RQ",
                                          "SQ",
                                          "TIS",
                                          "transport domain",
                                          "CQ",
                                          "mkey",
                                          "ICM that software fills",
                                          "XRCD",
                                          "PD",
                                          "EQ",
                                          "UAR",
                                          "Q counter",
                                          "umem",
                                          "user context"};
    static_assert(kNames.size() == kKinds);
    return kNames[static_cast<size_t>(kind)];
}

} // namespace

FwStatus to_firmware(core::Status status) {
    switch (status) {
    case core::Status::bad_parameter: return FwStatus::bad_parameter;
    case core::Status::bad_resource: return FwStatus::bad_resource;
    case core::Status::busy: return FwStatus::resource_busy;
    case core::Status::limit: return FwStatus::exceeded_limit;
    case core::Status::exists: return FwStatus::bad_parameter;
    case core::Status::bad_state: return FwStatus::bad_resource_state;
    case core::Status::unsupported: return FwStatus::bad_parameter;
    }
    return FwStatus::internal_error;
}

bool Objects::is_visible(const Object& object) const { return sees(object.uid); }

Object* Objects::look_up(Kind kind, core::Number number) {
    const auto found = objects_.find({kind, number});
    return found == objects_.end() ? nullptr : &found->second;
}

Object* Objects::find(Kind kind, core::Number number) {
    Object* const found = look_up(kind, number);
    return found && is_visible(*found) ? found : nullptr;
}

core::Number Objects::run_from(Kind kind, core::Number number) {
    const auto after = objects_.upper_bound({kind, number});
    if (after == objects_.begin()) return 0;
    const auto& [ref, object] = *std::prev(after);
    const core::Number at = number - ref.number;
    const bool holds = ref.kind == kind && at < object.detail && is_visible(object);
    return holds ? object.detail - at : 0;
}

bool Objects::has_owner(uint16_t uid) const {
    return std::ranges::any_of(objects_,
                               [&](const auto& entry) { return entry.second.uid == uid; });
}

bool Objects::exist(const std::vector<Ref>& refs) {
    const auto missing =
        std::ranges::find_if(refs, [&](const Ref& ref) { return !find(ref.kind, ref.number); });
    if (missing == refs.end()) return true;
    culprit_ = fmt::format("no {} {:#x}", name_of(missing->kind), missing->number);
    return false;
}

Object& Objects::add(Kind kind, core::Number number, Object object) {
    object.uid = uid_;
    const std::vector<Ref> uses = std::exchange(object.uses, {});
    const auto [place, is_new] = objects_.insert_or_assign({kind, number}, std::move(object));
    counts_[static_cast<size_t>(kind)] += is_new;
    Object& added = place->second;
    set_uses(added, uses);
    return added;
}

void Objects::set_uses(Object& object, std::vector<Ref> uses) {
    for (const Ref& ref : uses)
        objects_.at(ref).users++;
    for (const Ref& ref : object.uses)
        objects_.at(ref).users--;
    object.uses = std::move(uses);
}

FwStatus Objects::can_remove(Kind kind, core::Number number) {
    const Object* object = find(kind, number);
    if (object && !is_driver() && object->uid != uid_) object = nullptr; // what is shared stays
    if (object && object->users == 0) return FwStatus::ok;
    culprit_ = object ? fmt::format("{} {:#x} has {} users", name_of(kind), number, object->users)
                      : fmt::format("no {} {:#x}", name_of(kind), number);
    return object ? FwStatus::resource_busy : FwStatus::bad_resource;
}

void Objects::remove(Kind kind, core::Number number) {
    Object* const object = look_up(kind, number);
    if (!object) return;
    set_uses(*object, {});
    objects_.erase({kind, number});
    counts_[static_cast<size_t>(kind)]--;
}

core::Number Objects::new_number(Kind kind, core::Number first, core::Number last) {
    if (full(kind)) return 0;
    core::Number& latest = last_.try_emplace(kind, last).first->second;
    for (core::Number tried = 0; tried <= last - first; tried++) {
        latest = latest < last ? latest + 1 : first;
        if (latest < first) latest = first;
        if (!objects_.contains({kind, latest})) return latest;
    }
    return 0;
}

std::vector<core::Number> Objects::numbers(Kind kind) const {
    std::vector<core::Number> numbers;
    for (const auto& [ref, object] : objects_)
        if (ref.kind == kind) numbers.push_back(ref.number);
    return numbers;
}

} // namespace softhca::prm
