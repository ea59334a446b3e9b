// SPDX-License-Identifier: BSD-3-Clause
// Memory keys: translate (lkey, address) in a WQE to host memory, with all checks.
#pragma once

#include "app/softhca/core/device.hpp"
#include "app/softhca/core/key_change.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

namespace softhca::core {

struct Mkey {
    uint32_t lkey; ///< by which queues find it; 0 while it is free
    Number pd;
    uint64_t iova;
    uint64_t length;
    bool local_write;
    bool remote_read, remote_write;
    bool any_pd;
    DmaArea memory;
    std::vector<KeyPart> parts;      ///< of an indirect key; none is empty …
    std::vector<uint64_t> part_ends; ///< … and they end at these offsets
    uint32_t own_lkey;               ///< free or not

    [[nodiscard]] bool is_free() const { return lkey == 0; }
};

/// What a queue wants to do with the memory.
enum class Access : uint8_t { read, write, remote_read, remote_write };

/// A cached translation that needs no access to the key: a part of its range that is contiguous in
/// host memory. Valid for one PD and access, and for one control call at most.
class KeyWindow {
  public:
    KeyWindow() = default; ///< covers nothing
    KeyWindow(uint32_t lkey, uint64_t address, uint64_t bytes, std::byte* memory)
        : lkey_(lkey), address_(address), bytes_(bytes), memory_(memory) {}

    /// Host address of these bytes; null when they are not inside the window.
    [[nodiscard]] std::byte* find(uint32_t lkey, uint64_t address, uint32_t bytes) const {
        const uint64_t offset = address - address_; // wraps to a huge value below the range
        if (lkey != lkey_ || offset > bytes_ || bytes > bytes_ - offset) return nullptr;
        return memory_ + offset;
    }

  private:
    uint32_t lkey_ = 0; // names no key
    uint64_t address_ = 0, bytes_ = 0;
    std::byte* memory_ = nullptr;
};

/// Names no memory: writes through it are discarded, reads give zeros, at every address and for
/// queues of every PD (mlx5: dump_fill_mkey). Like its index, 1, it is never given out.
inline constexpr uint32_t kDumpFillKey = 0x1ff;
/// Names nothing, so that every use of it fails: drivers use it where there is no page yet (mlx5:
/// null_mkey, in the keys of on-demand paging). Never given out either.
inline constexpr uint32_t kNullKey = 0x1fe;

/// The device's key table: index = lkey >> 8; the low byte is a variant that makes stale keys fail.
class MkeyTable {
  public:
    static constexpr uint32_t kEntries = 1u << 16;

    MkeyTable() : entries_(kEntries) {}

    /// Returns the lkey, or 0 when the table is full.
    uint32_t insert(MkeyAttr attr);
    /// Returns the PD of the key, or 0 when there is no such key.
    Number erase(uint32_t lkey);
    /// Returns the PD that the key had before, or 0 when nothing changes (KeyOwner).
    Number change(const KeyChange& change);
    /// Free or not, whatever its variant; null when there is none.
    [[nodiscard]] const Mkey* at_index(Number index) const {
        return index < kEntries ? entries_[index].get() : nullptr;
    }
    [[nodiscard]] size_t size() const { return used_; }
    /// Whether some key leads to this byte of host memory.
    [[nodiscard]] bool covers(const void* address) const {
        return std::ranges::any_of(
            entries_, [&](const auto& key) { return key && key->memory.contains(address); });
    }

    /// Calls `use(const Mkey&)` for each key.
    template <class Use> void for_each(Use&& use) const {
        for (const auto& key : entries_)
            if (key) use(*key);
    }

    /// The PD of a key; empty when there is none.
    [[nodiscard]] std::optional<Number> pd_of(uint32_t lkey) const {
        const Mkey* const key = find(lkey);
        return key ? std::optional(key->pd) : std::nullopt;
    }

    /// Calls `piece(std::byte*, uint32_t bytes)` for each contiguous part of the range. False, with
    /// no piece reported, when the key does not exist, belongs to another PD, does not allow the
    /// access or does not cover the range; false also when `piece` returns false.
    template <class Piece>
    [[nodiscard]] bool translate(uint32_t lkey, Number pd, Access access, uint64_t address,
                                 uint32_t bytes, Piece&& piece, uint8_t depth = 0) const {
        const Mkey* const key = find(lkey);
        if (!key) return lkey == kDumpFillKey && dump_or_fill(access, bytes, piece);
        if (key->pd != pd && !key->any_pd) return false;
        if (!allows(*key, access)) return false;
        uint64_t offset = address - key->iova; // wraps to a huge value below the range
        if (offset > key->length || bytes > key->length - offset) return false;
        if (!key->parts.empty()) [[unlikely]] {
            NoPiece ask;
            if (depth == 0 && !translate_parts(*key, access, offset, bytes, ask, 1)) return false;
            return translate_parts(*key, access, offset, bytes, piece,
                                   static_cast<uint8_t>(depth + 1));
        }
        while (bytes != 0) {
            const auto part =
                static_cast<uint32_t>(std::min<uint64_t>(key->memory.run(offset), bytes));
            if (!piece(key->memory.at(offset), part)) return false;
            offset += part;
            bytes -= part;
        }
        return true;
    }

    /// The window around this address; an empty one when translate() would not yield a single piece
    /// of host memory there, or when the key is indirect.
    [[nodiscard]] KeyWindow window(uint32_t lkey, Number pd, Access access,
                                   uint64_t address) const {
        const Mkey* const key = find(lkey);
        if (!key || (key->pd != pd && !key->any_pd) || !allows(*key, access)) return {};
        const uint64_t offset = address - key->iova;
        if (offset >= key->length || !key->parts.empty()) return {};
        const DmaArea::Run run = key->memory.run_around(offset);
        return {lkey, key->iova + run.first, std::min(run.bytes, key->length - run.first),
                key->memory.at(run.first)};
    }

  private:
    [[nodiscard]] static bool allows(const Mkey& key, Access access) {
        switch (access) {
        case Access::read: return true;
        case Access::write: return key.local_write;
        case Access::remote_read: return key.remote_read;
        case Access::remote_write: return key.remote_write;
        }
        return false;
    }
    /// Null when there is no such key.
    [[nodiscard]] const Mkey* find(uint32_t lkey) const {
        const uint32_t index = lkey >> 8;
        const Mkey* const key = index < kEntries ? entries_[index].get() : nullptr;
        return key && key->lkey == lkey ? key : nullptr;
    }

    template <class Piece>
    [[nodiscard, gnu::noinline]] static bool dump_or_fill(Access access, uint32_t bytes,
                                                          Piece& piece) {
        // Pieces may be kept for longer than this call, and must keep reading as zeros.
        constexpr uint32_t kPage = 4096;
        static const std::array<std::byte, kPage> kZeros{};
        static thread_local std::array<std::byte, kPage> nowhere;
        const bool reads = access == Access::read || access == Access::remote_read;
        std::byte* const at = reads ? const_cast<std::byte*>(kZeros.data()) : nowhere.data();
        for (uint32_t part; bytes != 0; bytes -= part) {
            part = std::min(bytes, kPage);
            if (!piece(at, part)) return false;
        }
        return true;
    }
    /// For checks only.
    struct NoPiece {
        bool operator()(std::byte*, uint32_t) const { return true; }
    };
    /// The same for an indirect key, from `offset` on.
    template <class Piece>
    [[nodiscard, gnu::noinline]] bool translate_parts(const Mkey& key, Access access,
                                                      uint64_t offset, uint32_t bytes, Piece& piece,
                                                      uint8_t depth) const {
        if (depth > Limits::kMaxIndirection) return false;
        auto end = std::ranges::upper_bound(key.part_ends, offset);
        for (; bytes != 0 && end != key.part_ends.end(); ++end) {
            const KeyPart& part = key.parts[static_cast<size_t>(end - key.part_ends.begin())];
            const auto here = static_cast<uint32_t>(std::min<uint64_t>(*end - offset, bytes));
            const uint64_t address = part.address + part.bytes - (*end - offset);
            if (!translate(part.lkey, key.pd, access, address, here, piece, depth)) return false;
            offset += here;
            bytes -= here;
        }
        return bytes == 0;
    }

    std::vector<std::unique_ptr<Mkey>> entries_;
    // Index 1 is never given out: MLX5_INVALID_LKEY (0x100) must not name a key.
    uint32_t next_ = 2;
    uint8_t variant_ = 0;
    size_t used_ = 0;
};

} // namespace softhca::core
