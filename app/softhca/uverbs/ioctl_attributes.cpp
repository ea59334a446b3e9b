// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/ioctl_attributes.hpp"

#include <cerrno>

namespace softhca::uverbs {
namespace {

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

Errno IoctlAttributes::check(AttributeIds handles, AttributeIds data) const {
    AttributeIds seen{};
    for (size_t i = 0; i < header_.num_attrs; i++) {
        const ib_uverbs_attr& attribute = header_.attrs[i];
        const bool handle = handles.has(attribute.attr_id);
        if (!handle && !data.has(attribute.attr_id)) {
            if (attribute.flags & UVERBS_ATTR_F_MANDATORY) return EPROTONOSUPPORT;
            continue;
        }
        if (seen.has(attribute.attr_id) || (handle && attribute.len != 0)) return EINVAL;
        seen.add(attribute.attr_id);
    }
    return 0;
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
