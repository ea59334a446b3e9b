// SPDX-License-Identifier: BSD-3-Clause
// mlx5dv_pp_alloc. Source: Linux, drivers/infiniband/hw/mlx5/qos.c and core/rl.c of mlx5_core.
#include "app/softhca/uverbs/devx/pacing.hpp"

#include "app/softhca/uverbs/devx/methods.hpp"
#include "app/softhca/uverbs/devx/rules.hpp"
#include "app/softhca/uverbs/devx/user.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

namespace softhca::uverbs::devx {
namespace {

/// A row that a program has.
struct PacingEntry final : Object {
    PacingEntry(std::shared_ptr<PortFirmware> port_firmware, uint16_t row)
        : firmware(std::move(port_firmware)), index(row) {}
    Errno take_down(core::Device&) override {
        firmware->pacing.remove(*firmware, index);
        return 0;
    }

    const std::shared_ptr<PortFirmware> firmware;
    uint16_t index;
};

} // namespace

uint16_t PacingTable::find(const Context& context, uint16_t uid, bool dedicated) const {
    uint16_t empty = 0;
    for (uint16_t index = 1; index < prm::kPacingRates; index++) {
        const Row& row = rows_[index];
        if (row.users == 0) {
            if (empty == 0) empty = index;
        } else if (!dedicated && !row.dedicated && row.uid == uid && row.context == context) {
            return index;
        }
    }
    return empty;
}

Errno PacingTable::tell(PortFirmware& firmware, const Row& row, uint16_t index) {
    std::vector<uint8_t> in(PRM_BYTES(set_pp_rate_limit_in)), out(16);
    set(in, {0, 16}, MLX5_CMD_OP_SET_PP_RATE_LIMIT);
    set(in, PRM(set_pp_rate_limit_in, rate_limit_index), index);
    std::ranges::copy(row.context, in.begin() + PRM(set_pp_rate_limit_in, ctx).offset / 8);
    return firmware.execute(in, out, row.uid) ? EINVAL : 0; // mlx5_core's word for bad_parameter
}

Errno PacingTable::add(PortFirmware& firmware, const Context& context, uint16_t uid, bool dedicated,
                       uint16_t& index) {
    const uint64_t kbps = get(context, PRM(set_pp_rate_limit_context, rate_limit));
    if (kbps < core::Limits::kMinRateKbps || kbps > core::Limits::kMaxRateKbps) return EINVAL;
    const std::lock_guard lock(mutex_);
    index = find(context, uid, dedicated);
    if (index == 0) return ENOSPC;
    Row& row = rows_[index];
    if (row.users == 0) {
        const Row fresh{.context = context, .uid = uid, .dedicated = dedicated, .users = 0};
        if (const Errno error = tell(firmware, fresh, index)) return error;
        row = fresh;
    }
    row.users++;
    return 0;
}

void PacingTable::remove(PortFirmware& firmware, uint16_t index) {
    const std::lock_guard lock(mutex_);
    Row& row = rows_[index];
    if (--row.users != 0) return;
    row.context = {};
    (void)tell(firmware, row, index);
}

Errno alloc_pacing(Context& context, const IoctlAttributes& attributes) {
    constexpr uint64_t kDedicated = MLX5_IB_UAPI_PP_ALLOC_FLAGS_DEDICATED_INDEX;
    constexpr std::array<uint16_t, 1> kIn = {MLX5_IB_ATTR_PP_OBJ_ALLOC_CTX},
                                      kOut = {MLX5_IB_ATTR_PP_OBJ_ALLOC_INDEX};
    if (!attributes.pointers_are_good(kIn, false) || !attributes.pointers_are_good(kOut, true))
        return EFAULT;
    const User* const user = user_of(context);
    const InBuffer given = attributes.in(kIn[0]);
    const auto flags = attributes.number(MLX5_IB_ATTR_PP_OBJ_ALLOC_FLAGS);
    if (!user || given.size() == 0 || given.size() > PacingTable::kContextBytes || !flags ||
        *flags & ~kDedicated)
        return EINVAL;
    PacingTable::Context rate{};
    std::memcpy(rate.data(), given.bytes().data(), given.size());
    const uint16_t uid = *flags & kDedicated ? user->uid() : prm::kSharedUid;
    uint16_t index = 0;
    if (const Errno error =
            user->firmware->pacing.add(*user->firmware, rate, uid, *flags & kDedicated, index))
        return error;
    attributes.set_handle(
        MLX5_IB_ATTR_PP_OBJ_ALLOC_HANDLE,
        context.objects.add(std::make_unique<PacingEntry>(user->firmware, index)));
    attributes.out(kOut[0]).put(index);
    return 0;
}

Errno free_pacing(Context& context, const IoctlAttributes& attributes) {
    const auto handle = attributes.number(MLX5_IB_ATTR_PP_OBJ_DESTROY_HANDLE);
    return context.objects.destroy<PacingEntry>(handle.value_or(0), *context.device);
}

} // namespace softhca::uverbs::devx
