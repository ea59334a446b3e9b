// SPDX-License-Identifier: BSD-3-Clause
// Protection domains and memory regions.
#include "app/softhca/uverbs/commands.hpp"

#include <cerrno>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <utility>

namespace softhca::uverbs {
namespace {

constexpr uint32_t kRemoteWrite = IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC;

/// The key's PD, addresses and rights, without its memory.
core::MkeyAttr key_of(const MrAttributes& mr) {
    return {.pd = mr.pd,
            .iova = mr.iova,
            .length = mr.length,
            .memory = {},
            .local_write = (mr.access & IB_UVERBS_ACCESS_LOCAL_WRITE) != 0,
            .remote_read = (mr.access & IB_UVERBS_ACCESS_REMOTE_READ) != 0,
            .remote_write = (mr.access & kRemoteWrite) != 0};
}

/// Whether a region may have it (ib_check_mr_access).
bool is_valid_access(uint32_t access) {
    // Memory windows and zero-based addresses have no effect here, and mlx5_ib accepts them.
    constexpr uint32_t kKnownAccess = IB_UVERBS_ACCESS_LOCAL_WRITE | kRemoteWrite |
                                      IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_MW_BIND |
                                      IB_UVERBS_ACCESS_ZERO_BASED | IB_UVERBS_ACCESS_HUGETLB |
                                      IB_UVERBS_ACCESS_OPTIONAL_RANGE;
    if (access & ~kKnownAccess) return false; // on-demand paging among them
    return !(access & kRemoteWrite) || (access & IB_UVERBS_ACCESS_LOCAL_WRITE);
}

/// Whether WQEs can name the memory by these addresses, and its pages end within the address space
/// (ib_umem_get).
bool is_valid_range(uint64_t start, uint64_t length, uint64_t iova) {
    constexpr uint64_t kPageMask = 0xfff;
    const uint64_t end = start + length;
    const bool wraps = end < start || ((end + kPageMask) & ~kPageMask) < end;
    const bool too_long = length / (kPageMask + 1) > UINT32_MAX;
    return length != 0 && !wraps && !too_long && (start & kPageMask) == (iova & kPageMask);
}

/// A region with its key. `pin`: its memory is not pinned yet.
Errno make_mr(Context& context, const MrAttributes& attributes, bool pin,
              std::unique_ptr<Mr>& made) {
    auto mr = std::make_unique<Mr>();
    static_cast<MrAttributes&>(*mr) = attributes;
    core::MkeyAttr key = key_of(attributes);
    if (pin)
        if (const Errno error = mr->pages.pin(mr->start, mr->length)) return error;
    auto memory = user_area(mr->start, mr->length, key.local_write);
    if (!memory) return EFAULT;
    key.memory = std::move(*memory);
    const auto lkey = context.device->create_mkey(std::move(key));
    if (!lkey) return errno_of(lkey);
    mr->lkey = *lkey;
    made = std::move(mr);
    return 0;
}

} // namespace

Errno alloc_pd(Context& context, const WriteCommand& command) {
    if (command.driver_out.size() == 0) return EFAULT;
    const auto number = context.device->alloc_pd();
    if (!number) return errno_of(number);
    auto pd = std::make_unique<Pd>();
    pd->number = *number;
    ib_uverbs_alloc_pd_resp out{};
    out.pd_handle = context.objects.add(std::move(pd));
    command.out.put(out);
    command.driver_out.put(mlx5_ib_alloc_pd_resp{.pdn = *number});
    return 0;
}

Errno dealloc_pd(Context& context, const WriteCommand& command) {
    return context.objects.destroy<Pd>(command.in.as<ib_uverbs_dealloc_pd>().pd_handle,
                                       *context.device);
}

Errno reg_mr(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_reg_mr>();
    if (!is_valid_access(request.access_flags) ||
        !is_valid_range(request.start, request.length, request.hca_va))
        return EINVAL;
    const Pd* pd = context.objects.find<Pd>(request.pd_handle);
    if (!pd) return context.objects.absence(request.pd_handle);
    std::unique_ptr<Mr> mr;
    if (const Errno error = make_mr(context,
                                    {.pd = pd->number,
                                     .start = request.start,
                                     .length = request.length,
                                     .iova = request.hca_va,
                                     .access = request.access_flags},
                                    /*pin=*/true, mr))
        return error;
    ib_uverbs_reg_mr_resp out{};
    out.lkey = out.rkey = mr->lkey;
    out.mr_handle = context.objects.add(std::move(mr));
    command.out.put(out);
    return 0;
}

Errno rereg_mr(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_rereg_mr>();
    const bool moves = request.flags & IBV_REREG_MR_CHANGE_TRANSLATION;
    constexpr uint32_t kKnownFlags =
        IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
    if (request.flags == 0) return EINVAL;
    if (request.flags & ~kKnownFlags) return EOPNOTSUPP;
    if (moves && !is_valid_range(request.start, request.length, request.hca_va)) return EINVAL;
    Mr* const mr = context.objects.find<Mr>(request.mr_handle);
    if (!mr) return context.objects.absence(request.mr_handle);
    if (mr->dm) return EINVAL;
    MrAttributes wanted = *mr;
    if (moves) {
        wanted.start = request.start;
        wanted.length = request.length;
        wanted.iova = request.hca_va;
    }
    if (request.flags & IBV_REREG_MR_CHANGE_ACCESS) wanted.access = request.access_flags;
    if (!is_valid_access(wanted.access)) return EINVAL;
    if (request.flags & IBV_REREG_MR_CHANGE_PD) {
        const Pd* const pd = context.objects.find<Pd>(request.pd_handle);
        if (!pd) return context.objects.absence(request.pd_handle);
        wanted.pd = pd->number;
    }
    std::unique_ptr<Mr> fresh;
    if (const Errno error = make_mr(context, wanted, /*pin=*/moves, fresh)) return error;
    ib_uverbs_rereg_mr_resp out{};
    out.lkey = out.rkey = fresh->lkey;
    PinnedPages kept = moves ? PinnedPages() : std::move(mr->pages);
    Mr& made = *fresh;
    const Errno error =
        context.objects.replace(request.mr_handle, std::move(fresh), *context.device);
    if (!moves) (error ? *mr : made).pages = std::move(kept);
    if (!error) command.out.put(out);
    return error;
}

Errno query_pd(Context& context, const IoctlAttributes& attributes) {
    const uint64_t handle = attributes.number(MLX5_IB_ATTR_QUERY_PD_HANDLE).value_or(0);
    const Pd* pd = context.objects.find<Pd>(handle);
    if (!pd) return context.objects.absence(handle);
    attributes.out(MLX5_IB_ATTR_QUERY_PD_RESP_PDN).put(pd->number);
    return 0;
}

Errno query_mr(Context& context, const IoctlAttributes& attributes) {
    const uint64_t handle = attributes.number(UVERBS_ATTR_QUERY_MR_HANDLE).value_or(0);
    const Mr* mr = context.objects.find<Mr>(handle);
    if (!mr) return context.objects.absence(handle);
    attributes.out(UVERBS_ATTR_QUERY_MR_RESP_LKEY).put(mr->lkey);
    attributes.out(UVERBS_ATTR_QUERY_MR_RESP_RKEY).put(mr->lkey);
    attributes.out(UVERBS_ATTR_QUERY_MR_RESP_LENGTH).put(mr->length);
    attributes.out(UVERBS_ATTR_QUERY_MR_RESP_IOVA).put(mr->iova);
    return 0;
}

Errno dereg_mr(Context& context, const WriteCommand& command) {
    return context.objects.destroy<Mr>(command.in.as<ib_uverbs_dereg_mr>().mr_handle,
                                       *context.device);
}

} // namespace softhca::uverbs
