// SPDX-License-Identifier: BSD-3-Clause
// The attributes of one RDMA_VERBS_IOCTL call.
#pragma once

#include "app/softhca/uverbs/attribute_specs.hpp"
#include "app/softhca/uverbs/buffers.hpp"
#include "app/softhca/uverbs/user_memory.hpp"

#include <cstdint>
#include <optional>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <span>

namespace softhca::uverbs {

/// Wraps a header whose memory has been checked, and the cache of what is known about the call's
/// memory; both outlive it. Absent attributes read as empty. The program's pointers are checked on
/// use; a bad one reads as empty, too.
class IoctlAttributes {
  public:
    IoctlAttributes(ib_uverbs_ioctl_hdr& header, CallMemory& memory)
        : header_(header), memory_(memory) {}

    [[nodiscard]] uint16_t object() const { return header_.object_id; }
    [[nodiscard]] uint16_t method() const { return header_.method_id; }

    /// Against what the method knows. EPROTONOSUPPORT for others that the program says are
    /// mandatory, EOPNOTSUPP for what a newer device may know, EINVAL for all else that is wrong,
    /// and if one is missing.
    [[nodiscard]] Errno check(const AttributeSpecs& specs) const;
    /// What is left to check when the method is done: EFAULT if a late answer had no place.
    [[nodiscard]] Errno check_late(const AttributeSpecs& specs) const {
        return check_places(specs, true);
    }

    [[nodiscard]] bool has(uint16_t id) const { return find(id) != nullptr; }
    /// False when an attribute points to unmapped memory or, for an output (`write`), memory that
    /// is not writable: EFAULT.
    [[nodiscard]] bool pointers_are_good(std::span<const uint16_t> ids, bool write) const;

    /// Input by pointer, or inline when it has at most eight bytes.
    [[nodiscard]] InBuffer in(uint16_t id) const;
    /// Output by pointer; marks the attribute as filled.
    [[nodiscard]] OutBuffer out(uint16_t id) const;
    /// Small input, or a handle, as a number; empty when absent.
    [[nodiscard]] std::optional<uint64_t> number(uint16_t id) const;
    /// The selector of an enum attribute (UVERBS_ATTR_ENUM_IN).
    [[nodiscard]] uint8_t enum_element(uint16_t id) const;
    /// Stores a new handle or file descriptor into an output attribute.
    void set_handle(uint16_t id, uint64_t handle) const;

  private:
    [[nodiscard]] ib_uverbs_attr* find(uint16_t id) const;
    [[nodiscard]] Errno check_one(const ib_uverbs_attr& attribute, const AttributeSpec& spec) const;
    [[nodiscard]] Errno check_places(const AttributeSpecs& specs, bool late) const;
    [[nodiscard]] Errno check_flow_type(const ib_uverbs_attr& attribute) const;
    [[nodiscard]] bool has_more_than(const ib_uverbs_attr& attribute, size_t known) const;

    ib_uverbs_ioctl_hdr& header_;
    CallMemory& memory_;
};

} // namespace softhca::uverbs
