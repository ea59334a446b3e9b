// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/mlx5/cq.hpp"

namespace rawqp::mlx5rings {

Result<Cq> map_cq(const verbs::Api& api, ibv_cq_ex* cq, uint32_t min_entries,
                  const std::string& what, CqArm* arm) {
    mlx5dv_cq mapped{};
    mlx5dv_obj object{};
    object.cq.in = ibv_cq_ex_to_cq(cq);
    object.cq.out = &mapped;
    if (const int error = api.mlx5_init_obj(&object, MLX5DV_OBJ_CQ))
        return fail(error, "{}: libmlx5 does not map its CQ ({})", what, strerror(error));
    if (mapped.cqe_size != sizeof(Cqe))
        return fail(ENOTSUP,
                    "{}: its CQ has entries of {} bytes instead of 64; unset MLX5_CQE_SIZE or "
                    "use datapath=verbs",
                    what, mapped.cqe_size);
    if (mapped.cqe_cnt < min_entries || !rte_is_power_of_2(mapped.cqe_cnt))
        return fail(EINVAL, "{}: its CQ has {} entries, but {} (a power of two) are needed", what,
                    mapped.cqe_cnt, min_entries);
    if (arm != nullptr) {
        cq_registers[arm->slot] = static_cast<uint8_t*>(mapped.cq_uar);
        arm->number = mapped.cqn;
    }
    Cq ring;
    ring.entries = static_cast<Cqe*>(mapped.buf);
    ring.doorbell = reinterpret_cast<mlx5::CqDoorbell*>(mapped.dbrec);
    ring.mask = mapped.cqe_cnt - 1;
    ring.log_entries = static_cast<uint8_t>(rte_log2_u32(mapped.cqe_cnt));
    return ring;
}

} // namespace rawqp::mlx5rings
