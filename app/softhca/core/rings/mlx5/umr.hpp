// SPDX-License-Identifier: BSD-3-Clause
// WQEs of opcode UMR, which change memory keys: PD, access, and whether a key is free. What a key
// leads to stays as it is. After the control segment, whose immediate is the key, come what is to
// change, and a key context of which only those fields count.
//
// Source: Linux, <linux/mlx5/qp.h> and <linux/mlx5/device.h> (mlx5_wqe_umr_ctrl_seg, MLX5_UMR_*,
// MLX5_MKEY_MASK_*), mlx5_ifc_mkc_bits of <linux/mlx5/mlx5_ifc.h>.
#pragma once

#include "app/softhca/core/key_change.hpp"
#include "app/softhca/core/requests.hpp"
#include "common/mlx5/formats.hpp"

#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

namespace softhca::core::mlx5_rings {

struct WqeUmrCtrlSeg {
    uint8_t flags; ///< kUmr*
    uint8_t reserved0[3];
    mlx5::be16 xlt_octowords; ///< size of the translation
    mlx5::be16 xlt_offset;
    mlx5::be64 mkey_mask; ///< kMkey*
    mlx5::be32 xlt_offset_47_16;
    uint8_t reserved1[28];
};
static_assert(sizeof(WqeUmrCtrlSeg) == 48 && offsetof(WqeUmrCtrlSeg, mkey_mask) == 8);

/// flags: fails unless the key is free, or unless it is not; the translation is inside the WQE.
inline constexpr uint8_t kUmrCheckNotFree = 0x20, kUmrCheckFree = 0x40, kUmrInline = 0x80;

// mkey_mask: the fields that change.
inline constexpr uint64_t kMkeyPd = 1ull << 7, kMkeyVariant = 1ull << 13,
                          kMkeyLocalRead = 1ull << 17, kMkeyLocalWrite = 1ull << 18,
                          kMkeyRemoteRead = 1ull << 19, kMkeyRemoteWrite = 1ull << 20,
                          kMkeyFree = 1ull << 29;

/// The beginning of a key context (mkc).
struct WqeMkeySeg {
    mlx5::be32 flags;        ///< kMkeyFlag*
    mlx5::be32 qpn_mkey_7_0; ///< low byte: the key's variant
    mlx5::be32 reserved0;
    mlx5::be32 flags_pd; ///< low 24 bits: the PD
    uint8_t reserved1[48];
};
static_assert(sizeof(WqeMkeySeg) == 64 && offsetof(WqeMkeySeg, flags_pd) == 12);
inline constexpr uint32_t kMkeyFlagFree = 1u << 30, kMkeyFlagRemoteWrite = 1u << 13,
                          kMkeyFlagRemoteRead = 1u << 12, kMkeyFlagLocalWrite = 1u << 11,
                          kMkeyFlagLocalRead = 1u << 10;

struct WqeUmr {
    mlx5::WqeCtrlSeg ctrl; ///< imm: the key
    WqeUmrCtrlSeg umr;
    WqeMkeySeg key;
};
static_assert(sizeof(WqeUmr) == 128 && offsetof(WqeUmr, key) == 64);

/// The value of a flag of the key context, if the mask says that it changes.
[[nodiscard]] inline std::optional<bool> changed_flag(const WqeUmr& wqe, uint64_t in_mask,
                                                      uint32_t flag) {
    if ((wqe.umr.mkey_mask & in_mask) == 0) return {};
    return (wqe.key.flags & flag) != 0;
}

[[nodiscard]] inline SendFault decode_umr(std::span<const std::byte> bytes, KeyChange& change) {
    constexpr uint8_t kFlags = kUmrCheckNotFree | kUmrCheckFree | kUmrInline;
    constexpr uint64_t kMask = kMkeyPd | kMkeyVariant | kMkeyLocalRead | kMkeyLocalWrite |
                               kMkeyRemoteRead | kMkeyRemoteWrite | kMkeyFree;
    WqeUmr wqe;
    if (bytes.size() < sizeof wqe) return SendFault::bad_ds;
    std::memcpy(&wqe, bytes.data(), sizeof wqe);
    const bool translates = bytes.size() > sizeof wqe || wqe.umr.xlt_octowords != 0;
    if (translates || (wqe.umr.flags & ~kFlags) != 0 || (wqe.umr.mkey_mask & ~kMask) != 0)
        return SendFault::bad_key_change;
    // Every key may be read by queues of its PD.
    if (changed_flag(wqe, kMkeyLocalRead, kMkeyFlagLocalRead) == false)
        return SendFault::bad_key_change;
    change = {.lkey = wqe.ctrl.imm};
    if (wqe.umr.flags & kUmrCheckNotFree) change.expects_free = true;
    if (wqe.umr.flags & kUmrCheckFree) change.expects_free = false;
    change.free = changed_flag(wqe, kMkeyFree, kMkeyFlagFree);
    change.local_write = changed_flag(wqe, kMkeyLocalWrite, kMkeyFlagLocalWrite);
    change.remote_read = changed_flag(wqe, kMkeyRemoteRead, kMkeyFlagRemoteRead);
    change.remote_write = changed_flag(wqe, kMkeyRemoteWrite, kMkeyFlagRemoteWrite);
    if (wqe.umr.mkey_mask & kMkeyVariant)
        change.variant = static_cast<uint8_t>(wqe.key.qpn_mkey_7_0);
    if (wqe.umr.mkey_mask & kMkeyPd) change.pd = wqe.key.flags_pd & 0xffffff;
    return SendFault::none;
}

} // namespace softhca::core::mlx5_rings
