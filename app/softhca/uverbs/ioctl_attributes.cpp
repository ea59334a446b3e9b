// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/ioctl_attributes.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <tuple>
#include <utility>

namespace softhca::uverbs {
namespace {

using Kind = AttributeSpec::Kind;
constexpr size_t kInPlace = sizeof(ib_uverbs_attr::data);

void* pointer_of(const ib_uverbs_attr& attribute) {
    return reinterpret_cast<void*>(attribute.data);
}

} // namespace

ib_uverbs_attr* IoctlAttributes::find(uint16_t id) const {
    for (size_t i = 0; i < header_.num_attrs; i++)
        if (header_.attrs[i].attr_id == id) return &header_.attrs[i];
    return nullptr;
}

Errno IoctlAttributes::check(const AttributeSpecs& specs) const {
    std::array<bool, std::tuple_size_v<AttributeSpecs>> seen{};
    for (const ib_uverbs_attr& attribute : std::span(header_.attrs, header_.num_attrs)) {
        const auto spec = std::ranges::find_if(specs, [&](const AttributeSpec& known) {
            return known.kind != Kind::none && known.id == attribute.attr_id;
        });
        if (spec == specs.end()) {
            if (attribute.flags & UVERBS_ATTR_F_MANDATORY) return EPROTONOSUPPORT;
            continue;
        }
        bool& before = seen[static_cast<size_t>(spec - specs.begin())];
        if (std::exchange(before, true)) return EINVAL;
        if (const Errno error = check_one(attribute, *spec)) return error;
    }
    for (size_t i = 0; i < specs.size(); i++)
        if (specs[i].kind != Kind::none && specs[i].mandatory && !seen[i]) return EINVAL;
    // A kernel would notice at the end, and undo what it has done.
    return check_places(specs, false);
}

Errno IoctlAttributes::check_places(const AttributeSpecs& specs, bool late) const {
    for (const AttributeSpec& spec : specs)
        if (spec.kind == Kind::out && spec.late == late && !pointers_are_good({&spec.id, 1}, true))
            return EFAULT;
    return 0;
}

Errno IoctlAttributes::check_one(const ib_uverbs_attr& attribute, const AttributeSpec& spec) const {
    if (spec.kind == Kind::flow_type) return check_flow_type(attribute);
    if (spec.extensible && spec.kind == Kind::in && has_more_than(attribute, spec.longest))
        return EOPNOTSUPP;
    const bool too_long = attribute.len > spec.longest && !spec.extensible;
    const bool ragged = spec.kind == Kind::handles && attribute.len % sizeof(uint32_t) != 0;
    if (attribute.len < spec.shortest || too_long || ragged || attribute.attr_data.reserved)
        return EINVAL;
    return 0;
}

Errno IoctlAttributes::check_flow_type(const ib_uverbs_attr& attribute) const {
    const auto& selected = attribute.attr_data.enum_data;
    if (selected.elem_id > MLX5_IB_FLOW_TYPE_MC_DEFAULT) return EOPNOTSUPP;
    // Only flows of the normal type have a priority.
    const size_t length = selected.elem_id == MLX5_IB_FLOW_TYPE_NORMAL ? sizeof(uint16_t) : 0;
    return selected.reserved || attribute.len != length ? EINVAL : 0;
}

/// Memory that cannot be read may hold anything.
bool IoctlAttributes::has_more_than(const ib_uverbs_attr& attribute, size_t known) const {
    if (attribute.len <= known) return false;
    if (attribute.len > kInPlace && !memory_.has(pointer_of(attribute), attribute.len)) return true;
    return in(attribute.attr_id).has_more_than(known);
}

bool IoctlAttributes::pointers_are_good(std::span<const uint16_t> ids, bool write) const {
    for (const uint16_t id : ids) {
        const ib_uverbs_attr* attribute = find(id);
        if (attribute && (write || attribute->len > kInPlace) &&
            !memory_.has(pointer_of(*attribute), attribute->len, write))
            return false;
    }
    return true;
}

InBuffer IoctlAttributes::in(uint16_t id) const {
    const ib_uverbs_attr* attribute = find(id);
    if (!attribute) return {};
    if (attribute->len <= kInPlace) return {&attribute->data, attribute->len};
    if (!memory_.has(pointer_of(*attribute), attribute->len)) return {};
    return {pointer_of(*attribute), attribute->len};
}

OutBuffer IoctlAttributes::out(uint16_t id) const {
    ib_uverbs_attr* attribute = find(id);
    if (!attribute || !memory_.has(pointer_of(*attribute), attribute->len, true)) return {};
    attribute->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
    return {pointer_of(*attribute), attribute->len};
}

std::optional<uint64_t> IoctlAttributes::number(uint16_t id) const {
    const ib_uverbs_attr* attribute = find(id);
    if (!attribute) return std::nullopt;
    // Handles have length 0 and use all of the field.
    return attribute->len == 0 ? attribute->data : in(id).as<uint64_t>();
}

uint8_t IoctlAttributes::enum_element(uint16_t id) const {
    const ib_uverbs_attr* attribute = find(id);
    return attribute ? attribute->attr_data.enum_data.elem_id : 0;
}

void IoctlAttributes::set_handle(uint16_t id, uint64_t handle) const {
    if (ib_uverbs_attr* attribute = find(id)) attribute->data = handle;
}

} // namespace softhca::uverbs
