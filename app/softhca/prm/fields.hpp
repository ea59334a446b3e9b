// SPDX-License-Identifier: BSD-3-Clause
// Fields of firmware commands. Their layouts come from the distribution's <linux/mlx5/mlx5_ifc.h>,
// in which each struct member is as many bytes long as the field has bits.
#pragma once

#include "common/net/endian.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

// What the kernel header takes for granted.
// NOLINTBEGIN
using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using __be32 = uint32_t;
#define BIT(n) (1u << (n))
#define BIT_ULL(n) (1ull << (n))
#include "mlx5_ifc.h"
#include "mlx5_ifc_vdpa.h"
#undef BIT
#undef BIT_ULL
// NOLINTEND

namespace softhca::prm {

/// Position and width of a field, in bits from the start of its structure.
struct Field {
    size_t offset;
    size_t width;
};

/// A structure inside a command or an answer. Does not own the bytes. Reads beyond the end of the
/// buffer give zero and writes are ignored, so no command is too short to be read.
class Fields {
  public:
    Fields(uint8_t* data, size_t size) : data_(data), size_(size) {}

    [[nodiscard]] uint64_t get(Field field) const {
        uint64_t value = 0;
        for (size_t bit = field.offset; bit < field.offset + field.width; bit++)
            value = value << 1 | (bit / 8 < size_ ? data_[bit / 8] >> (7 - bit % 8) & 1 : 0);
        return value;
    }
    void set(Field field, uint64_t value) {
        for (size_t i = 0; i < field.width; i++) {
            const size_t bit = field.offset + field.width - 1 - i;
            if (bit / 8 >= size_) continue;
            const auto one = static_cast<uint8_t>(1u << (7 - bit % 8));
            uint8_t& byte = data_[bit / 8];
            byte = static_cast<uint8_t>(value >> i & 1 && i < 64 ? byte | one : byte & ~one);
        }
    }
    /// The structure that begins at this field and ends, as far as is known, with the buffer.
    [[nodiscard]] Fields at(Field field) const {
        const size_t skip = std::min(field.offset / 8, size_);
        return {data_ + skip, size_ - skip};
    }
    [[nodiscard]] uint8_t* data() const { return data_; }
    [[nodiscard]] size_t size() const { return size_; }
    /// A copy of the first `bytes` bytes, padded with zeros.
    [[nodiscard]] std::vector<uint8_t> copy(size_t bytes) const {
        std::vector<uint8_t> copied(bytes);
        std::copy_n(data_, std::min(bytes, size_), copied.begin()); // either may be empty
        return copied;
    }
    void write(const std::vector<uint8_t>& bytes) {
        std::copy_n(bytes.begin(), std::min(bytes.size(), size_), data_);
    }

  private:
    uint8_t* data_;
    size_t size_;
};

} // namespace softhca::prm

/// The Field of a member of mlx5_ifc_<type>_bits, and the size of the structure in bytes.
#define PRM(type, field)                                                                           \
    (::softhca::prm::Field{offsetof(mlx5_ifc_##type##_bits, field),                                \
                           sizeof(static_cast<mlx5_ifc_##type##_bits*>(nullptr)->field)})
#define PRM_BYTES(type) (sizeof(mlx5_ifc_##type##_bits) / 8)
