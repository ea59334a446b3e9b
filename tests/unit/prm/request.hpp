// SPDX-License-Identifier: BSD-3-Clause
// Builds firmware commands and reads their answers.
#pragma once

#include "app/softhca/core/types.hpp"
#include "app/softhca/prm/fields.hpp"
#include "app/softhca/prm/objects.hpp"

#include <cstdint>
#include <vector>

namespace prm_test {

using namespace softhca;
using namespace softhca::prm;
using core::Number;

/// A field of a structure that is itself a field.
[[nodiscard]] constexpr Field inside(Field outer, Field inner) {
    return {outer.offset + inner.offset, inner.width};
}

/// Builds a command.
struct Request {
    explicit Request(uint16_t opcode, size_t bytes, uint16_t op_mod = 0) : in(bytes) {
        net::store_be(in.data(), opcode);
        net::store_be(in.data() + 6, op_mod);
    }
    Request& set(Field field, uint64_t value) {
        Fields(in.data(), in.size()).set(field, value);
        return *this;
    }
    /// Sets the object number, where most commands have it.
    Request& number(Number number) { return set({64 + 8, 24}, number); }
    Request& page(uint64_t address) {
        in.resize(in.size() + sizeof address);
        net::store_be(in.data() + in.size() - sizeof address, address);
        return *this;
    }
    std::vector<uint8_t> in;
};
#define REQUEST(upper, lower, ...)                                                                 \
    ::prm_test::Request(MLX5_CMD_OP_##upper, PRM_BYTES(lower##_in) __VA_OPT__(, ) __VA_ARGS__)

struct Answer {
    uint8_t delivery = 0; ///< of the command queue, not of the command
    std::vector<uint8_t> out;

    [[nodiscard]] FwStatus status() const { return static_cast<FwStatus>(out[0]); }
    [[nodiscard]] Number number() const { return get({64 + 8, 24}); }
    [[nodiscard]] uint32_t get(Field field) const {
        auto copy = out;
        return static_cast<uint32_t>(Fields(copy.data(), copy.size()).get(field));
    }
};

} // namespace prm_test
