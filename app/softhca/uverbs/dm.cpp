// SPDX-License-Identifier: BSD-3-Clause
// Device memory: ICM for software steering (mlx5dv_alloc_dm), and regions of it. There is none for
// the program's own use (MEMIC).
#include "app/softhca/core/icm.hpp"
#include "app/softhca/uverbs/commands.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

namespace softhca::uverbs {
namespace {

std::optional<core::IcmKind> kind_of(uint64_t type) {
    switch (type) {
    case MLX5_IB_UAPI_DM_TYPE_STEERING_SW_ICM: return core::IcmKind::steering;
    case MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_SW_ICM: return core::IcmKind::header_edits;
    case MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_PATTERN_SW_ICM: return core::IcmKind::edit_patterns;
    default: return {};
    }
}

/// What is allocated for a length, as mlx5_ib rounds it up: a power of two of bytes, in whole
/// blocks.
uint64_t rounded_up(uint64_t length) {
    constexpr uint64_t kMost = uint64_t{1} << 63; // more than there is of any kind
    return std::bit_ceil(std::clamp(length, uint64_t{1} << core::kLogIcmBlock, kMost));
}

} // namespace

Errno alloc_dm(Context& context, const IoctlAttributes& attributes) {
    const auto length = attributes.number(UVERBS_ATTR_ALLOC_DM_LENGTH);
    const auto kind = kind_of(
        attributes.number(MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE).value_or(MLX5_IB_UAPI_DM_TYPE_MEMIC));
    const auto log_alignment = attributes.number(UVERBS_ATTR_ALLOC_DM_ALIGNMENT);
    if (!length || !log_alignment) return EINVAL;
    if (!kind || !context.devx) return EOPNOTSUPP;
    if (const Errno error = may_steer_by_icm()) return error;
    // Entries of format 0 do not refer to patterns.
    if (*kind == core::IcmKind::edit_patterns && context.device->config().steering_format == 0)
        return EOPNOTSUPP;
    if (*length == 0) return EINVAL;
    const auto address = context.device->alloc_icm(*kind, rounded_up(*length),
                                                   static_cast<uint32_t>(*log_alignment));
    if (!address) return errno_of(address);
    auto dm = std::make_unique<Dm>();
    dm->address = *address;
    dm->length = *length;
    attributes.set_handle(UVERBS_ATTR_ALLOC_DM_HANDLE, context.objects.add(std::move(dm)));
    attributes.out(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET).put(*address);
    return 0;
}

/// Addresses in a region start at its beginning.
Errno reg_dm_mr(Context& context, const IoctlAttributes& attributes) {
    constexpr uint64_t kKnownAccess = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
                                      IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_ZERO_BASED;
    const Pd* pd =
        context.objects.find<Pd>(attributes.number(UVERBS_ATTR_REG_DM_MR_PD_HANDLE).value_or(0));
    Dm* const dm =
        context.objects.find<Dm>(attributes.number(UVERBS_ATTR_REG_DM_MR_DM_HANDLE).value_or(0));
    const uint64_t offset = attributes.number(UVERBS_ATTR_REG_DM_MR_OFFSET).value_or(0);
    const uint64_t length = attributes.number(UVERBS_ATTR_REG_DM_MR_LENGTH).value_or(0);
    const uint64_t access = attributes.number(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS).value_or(0);
    if (!pd || !dm) return ENOENT;
    if (access & ~kKnownAccess || !(access & IB_UVERBS_ACCESS_ZERO_BASED)) return EINVAL;
    if (length == 0 || offset > dm->length || length > dm->length - offset) return EINVAL;
    auto memory = context.device->icm_area(dm->address + offset, length);
    if (!memory) return errno_of(memory);
    const auto lkey = context.device->create_mkey(
        {.pd = pd->number,
         .length = length,
         .memory = std::move(*memory),
         .local_write = (access & IB_UVERBS_ACCESS_LOCAL_WRITE) != 0,
         .remote_read = (access & IB_UVERBS_ACCESS_REMOTE_READ) != 0,
         .remote_write = (access & IB_UVERBS_ACCESS_REMOTE_WRITE) != 0});
    if (!lkey) return errno_of(lkey);
    auto mr = std::make_unique<Mr>();
    mr->lkey = *lkey;
    mr->pd = pd->number;
    mr->length = length;
    mr->dm = dm;
    dm->users++;
    attributes.set_handle(UVERBS_ATTR_REG_DM_MR_HANDLE, context.objects.add(std::move(mr)));
    attributes.out(UVERBS_ATTR_REG_DM_MR_RESP_LKEY).put(*lkey);
    attributes.out(UVERBS_ATTR_REG_DM_MR_RESP_RKEY).put(*lkey);
    return 0;
}

} // namespace softhca::uverbs
