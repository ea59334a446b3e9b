// SPDX-License-Identifier: BSD-3-Clause
// ICM that programs fill themselves (software steering): device memory that holds steering entries,
// lists of header edits, and patterns of such lists.
#pragma once

#include "app/softhca/core/types.hpp"

#include <array>
#include <map>

namespace softhca::core {

/// Each kind has its own address range.
enum class IcmKind : uint8_t { steering, header_edits, edit_patterns };

struct IcmRange {
    uint64_t first;
    uint8_t log_bytes;
    [[nodiscard]] constexpr uint64_t bytes() const { return uint64_t{1} << log_bytes; }
};
/// Entries have 40 bits for an address.
inline constexpr std::array<IcmRange, 3> kIcmRanges = {{
    {uint64_t{1} << 36, 27},
    {uint64_t{1} << 37, 24},
    {uint64_t{3} << 36, 22},
}}; // by IcmKind
inline constexpr uint8_t kLogIcmBlock = 12;

/// Allocates host memory as it is written to. Used with the device locked.
class Icm {
  public:
    Icm() = default;
    ~Icm();
    Icm(const Icm&) = delete;
    Icm& operator=(const Icm&) = delete;

    /// Allocates a power of two of bytes, in whole blocks, initially zero. Returns the address,
    /// aligned to the size and to 2^`log_alignment`, counted from the start of the range.
    [[nodiscard]] Outcome<uint64_t> alloc(IcmKind kind, uint64_t bytes, uint32_t log_alignment);
    /// Likewise, at the caller's address.
    [[nodiscard]] Outcome<void> take(uint64_t address, uint64_t bytes);
    [[nodiscard]] Outcome<void> free(uint64_t address);
    /// Bytes of one allocation, for keys.
    [[nodiscard]] Outcome<DmaArea> area(uint64_t address, uint64_t bytes) const;
    /// The host memory behind an address of that kind, allocated or not; null: not in the range.
    [[nodiscard]] const std::byte* at(IcmKind kind, uint64_t address, uint64_t bytes) const {
        const Space& space = spaces_[static_cast<size_t>(kind)];
        const IcmRange range = kIcmRanges[static_cast<size_t>(kind)];
        const uint64_t offset = address - range.first; // wraps to a huge value below the range
        if (!space.memory || offset > range.bytes() || bytes > range.bytes() - offset)
            return nullptr;
        return space.memory + offset;
    }

  private:
    struct Space {
        std::byte* memory = nullptr; ///< of the whole range, once any of it is allocated
        std::map<uint64_t, uint64_t> allocated{}; ///< bytes by offset
    };
    struct Place {
        IcmKind kind;
        uint64_t offset;
    };
    [[nodiscard]] static std::optional<Place> place_of(uint64_t address);
    [[nodiscard]] Space& space(IcmKind kind) { return spaces_[static_cast<size_t>(kind)]; }

    std::array<Space, kIcmRanges.size()> spaces_;
};

} // namespace softhca::core
