// SPDX-License-Identifier: BSD-3-Clause
// Protection domains and memory regions.
#include "app/softhca/uverbs/commands.hpp"

#include <cerrno>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

namespace softhca::uverbs {

Errno alloc_pd(Context& context, const WriteCommand& command) {
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
    const uint32_t handle = command.in.as<ib_uverbs_dealloc_pd>().pd_handle;
    const Pd* const pd = context.objects.find<Pd>(handle);
    // The device does not know the PDs of RSS QPs, which are TIRs there.
    bool has_rss_qps = false;
    context.objects.for_each<Qp>(
        [&](const Qp& qp) { has_rss_qps |= pd && qp.rss && qp.pd == pd->number; });
    if (has_rss_qps) return EBUSY;
    return context.objects.destroy<Pd>(handle, *context.device);
}

Errno reg_mr(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_reg_mr>();
    // Memory windows and zero-based addresses have no effect here, and mlx5_ib accepts them.
    constexpr uint32_t kKnownAccess =
        IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
        IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_REMOTE_ATOMIC | IB_UVERBS_ACCESS_MW_BIND |
        IB_UVERBS_ACCESS_ZERO_BASED | IB_UVERBS_ACCESS_HUGETLB | IB_UVERBS_ACCESS_OPTIONAL_RANGE;
    const uint32_t access = request.access_flags;
    if (access & ~kKnownAccess) return EINVAL; // on-demand paging among them
    const bool remote_write =
        access & (IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC);
    const bool local_write = access & IB_UVERBS_ACCESS_LOCAL_WRITE;
    const bool remote_read = access & IB_UVERBS_ACCESS_REMOTE_READ;
    if (remote_write && !local_write) return EINVAL;
    constexpr uint64_t kPageMask = 0xfff;
    if (request.length == 0 || (request.start & kPageMask) != (request.hca_va & kPageMask))
        return EINVAL;
    const Pd* pd = context.objects.find<Pd>(request.pd_handle);
    if (!pd) return EINVAL;
    auto mr = std::make_unique<Mr>();
    if (const Errno error = mr->pages.pin(request.start, request.length)) return error;
    auto memory = user_area(request.start, request.length, local_write);
    if (!memory) return EFAULT;

    const auto lkey = context.device->create_mkey({.pd = pd->number,
                                                   .iova = request.hca_va,
                                                   .length = request.length,
                                                   .memory = std::move(*memory),
                                                   .local_write = local_write,
                                                   .remote_read = remote_read,
                                                   .remote_write = remote_write});
    if (!lkey) return errno_of(lkey);
    mr->lkey = *lkey;
    mr->pd = pd->number;
    mr->length = request.length;
    mr->iova = request.hca_va;
    ib_uverbs_reg_mr_resp out{};
    out.mr_handle = context.objects.add(std::move(mr));
    out.lkey = out.rkey = *lkey;
    command.out.put(out);
    return 0;
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
