// SPDX-License-Identifier: BSD-3-Clause
// The attributes of one RDMA_VERBS_IOCTL call.
#pragma once

#include "app/softhca/uverbs/buffers.hpp"
#include "app/softhca/uverbs/user_memory.hpp"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <span>

namespace softhca::uverbs {

/// A set of attributes of one method.
class AttributeIds {
  public:
    constexpr AttributeIds(std::initializer_list<uint16_t> ids) {
        for (const uint16_t id : ids)
            add(id);
    }
    constexpr void add(uint16_t id) { bits_ |= bit(id); }
    [[nodiscard]] constexpr bool has(uint16_t id) const { return bits_ & bit(id); }

  private:
    /// The core's and the driver's identifiers are numbered from 0 on each; 0: not in any set.
    static constexpr uint64_t bit(uint16_t id) {
        constexpr unsigned kEach = 32;
        const unsigned space = id >> UVERBS_ID_NS_SHIFT;
        const unsigned number = id & ((1u << UVERBS_ID_NS_SHIFT) - 1);
        return space > 1 || number >= kEach ? 0 : uint64_t{1} << (space * kEach + number);
    }
    uint64_t bits_ = 0;
};

/// Wraps a header whose memory has been checked, and the cache of what is known about the call's
/// memory; both outlive it. Absent attributes read as empty. The program's pointers are checked on
/// use; a bad one reads as empty, too.
class IoctlAttributes {
  public:
    IoctlAttributes(ib_uverbs_ioctl_hdr& header, CallMemory& memory)
        : header_(header), memory_(memory) {}

    [[nodiscard]] uint16_t object() const { return header_.object_id; }
    [[nodiscard]] uint16_t method() const { return header_.method_id; }

    /// Against what the method knows: EPROTONOSUPPORT for others that the program says are
    /// mandatory, EINVAL for duplicates and for handles with a length.
    [[nodiscard]] Errno check(AttributeIds handles, AttributeIds data) const;

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

    ib_uverbs_ioctl_hdr& header_;
    CallMemory& memory_;
};

} // namespace softhca::uverbs
