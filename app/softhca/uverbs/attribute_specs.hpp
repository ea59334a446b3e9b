// SPDX-License-Identifier: BSD-3-Clause
// What a method of the ioctl ABI knows of its attributes. The kinds and the errors are those of
// drivers/infiniband/core/uverbs_ioctl.c in Linux.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

/// Bytes of a struct up to the end of a member: later members are newer, and may be missing.
#define SIZE_UP_TO(type, member) (offsetof(type, member) + sizeof(type::member))

namespace softhca::uverbs {

struct AttributeSpec {
    enum class Kind : uint8_t {
        none,
        handle,    ///< of an object, or a file descriptor
        handles,   ///< an array of them, 4 bytes each
        in,        ///< data for the device
        out,       ///< data for the program
        flow_type, ///< a number that says what the data are (mlx5_ib_flow_type)
    };
    static constexpr uint16_t kAnyLength = UINT16_MAX;

    Kind kind = Kind::none;
    uint16_t id = 0;
    uint16_t shortest = 0, longest = 0; ///< bytes
    bool mandatory = true;
    bool extensible = false; ///< may be longer, as long as an input has only zeros there
    bool late = false;       ///< an output whose place is looked at when the method is done
};

/// Those of one method; the others are of no kind.
using AttributeSpecs = std::array<AttributeSpec, 17>;

/// How tables of methods are written.
namespace attribute {

using Kind = AttributeSpec::Kind;

constexpr AttributeSpec sized(Kind kind, uint16_t id, size_t shortest, size_t longest) {
    return {.kind = kind,
            .id = id,
            .shortest = static_cast<uint16_t>(shortest),
            .longest = static_cast<uint16_t>(longest)};
}
constexpr AttributeSpec optional(AttributeSpec spec) {
    spec.mandatory = false;
    return spec;
}

constexpr AttributeSpec handle(uint16_t id) { return sized(Kind::handle, id, 0, 0); }
/// One to `most` of them.
constexpr AttributeSpec handles(uint16_t id, size_t most) {
    return sized(Kind::handles, id, sizeof(uint32_t), most * sizeof(uint32_t));
}
template <class T> constexpr AttributeSpec in(uint16_t id) {
    return sized(Kind::in, id, sizeof(T), sizeof(T));
}
template <class T> constexpr AttributeSpec out(uint16_t id) {
    return sized(Kind::out, id, sizeof(T), sizeof(T));
}
constexpr AttributeSpec in_bytes(uint16_t id, size_t shortest,
                                 size_t longest = AttributeSpec::kAnyLength) {
    return sized(Kind::in, id, shortest, longest);
}
constexpr AttributeSpec out_bytes(uint16_t id, size_t shortest) {
    return sized(Kind::out, id, shortest, AttributeSpec::kAnyLength);
}
/// Structs that grow: programs with an older header know only the first members, and programs with
/// a newer one more than these.
template <class T> constexpr AttributeSpec in_struct(uint16_t id, size_t shortest) {
    AttributeSpec spec = sized(Kind::in, id, shortest, sizeof(T));
    spec.extensible = true;
    return spec;
}
template <class T> constexpr AttributeSpec out_struct(uint16_t id, size_t shortest) {
    AttributeSpec spec = sized(Kind::out, id, shortest, sizeof(T));
    spec.extensible = true;
    return spec;
}
/// Of what is destroyed, which cannot be undone.
template <class T> constexpr AttributeSpec late_out(uint16_t id) {
    AttributeSpec spec = out<T>(id);
    spec.late = true;
    return spec;
}
/// One value of an enumeration: always 8 bytes.
constexpr AttributeSpec constant(uint16_t id) { return in<uint64_t>(id); }
constexpr AttributeSpec flags(uint16_t id) {
    return sized(Kind::in, id, sizeof(uint32_t), sizeof(uint64_t));
}
constexpr AttributeSpec flow_type(uint16_t id) { return sized(Kind::flow_type, id, 0, 0); }

} // namespace attribute
} // namespace softhca::uverbs
