// SPDX-License-Identifier: BSD-3-Clause
// mlx5dv_alloc_var. Source: Linux, drivers/infiniband/hw/mlx5/main.c (alloc_var_entry).
#include "app/softhca/uverbs/devx/var.hpp"

#include "app/softhca/uverbs/devx/methods.hpp"
#include "app/softhca/uverbs/devx/user.hpp"

#include <cerrno>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

namespace softhca::uverbs::devx {
namespace {

struct Var final : DoorbellPage {
    Var(std::shared_ptr<PortFirmware> port_firmware, uint32_t entry)
        : firmware(std::move(port_firmware)), index(entry) {}
    Errno take_down(core::Device&) override {
        firmware->vars.give_back(index);
        return 0;
    }

    const std::shared_ptr<PortFirmware> firmware;
    uint32_t index; ///< in the device's table
};

} // namespace

/// Any context may have some.
Errno alloc_var(Context& context, const IoctlAttributes& attributes) {
    const auto firmware = PortFirmware::of(context.port);
    const auto index = firmware->vars.take();
    if (!index) return ENOSPC;
    auto var = std::make_unique<Var>(firmware, *index);
    if (const Errno error = context.add_doorbell_page(context.next_uar)) {
        firmware->vars.give_back(*index);
        return error;
    }
    const uint32_t page = var->page = context.next_uar;
    context.next_uar = uar_page_after(page);
    attributes.set_handle(MLX5_IB_ATTR_VAR_OBJ_ALLOC_HANDLE, context.objects.add(std::move(var)));
    attributes.out(MLX5_IB_ATTR_VAR_OBJ_ALLOC_MMAP_OFFSET).put(uar_offset(page));
    attributes.out(MLX5_IB_ATTR_VAR_OBJ_ALLOC_MMAP_LENGTH).put(uint32_t{1} << kUarPageShift);
    attributes.out(MLX5_IB_ATTR_VAR_OBJ_ALLOC_PAGE_ID).put(*index);
    return 0;
}

Errno free_var(Context& context, const IoctlAttributes& attributes) {
    const auto handle = attributes.number(MLX5_IB_ATTR_VAR_OBJ_DESTROY_HANDLE);
    return context.objects.destroy<Var>(handle.value_or(0), *context.device);
}

} // namespace softhca::uverbs::devx
