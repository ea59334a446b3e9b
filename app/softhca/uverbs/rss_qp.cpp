// SPDX-License-Identifier: BSD-3-Clause
// RSS QPs: a TIR that hashes packets over an indirection table. No queues of their own.
#include "app/softhca/uverbs/commands.hpp"

#include <cerrno>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>

namespace softhca::uverbs {
namespace {

constexpr size_t kToeplitzKeyBytes = 40;

constexpr uint64_t kIpv4 = MLX5_RX_HASH_SRC_IPV4 | MLX5_RX_HASH_DST_IPV4;
constexpr uint64_t kIpv6 = MLX5_RX_HASH_SRC_IPV6 | MLX5_RX_HASH_DST_IPV6;
constexpr uint64_t kInner = MLX5_RX_HASH_INNER;
constexpr uint64_t kTcp = MLX5_RX_HASH_SRC_PORT_TCP | MLX5_RX_HASH_DST_PORT_TCP;
constexpr uint64_t kUdp = MLX5_RX_HASH_SRC_PORT_UDP | MLX5_RX_HASH_DST_PORT_UDP;
constexpr uint64_t kSpi = MLX5_RX_HASH_IPSEC_SPI;

/// A TIR hashes packets of one L3 and one L4 type; contradictions are EINVAL as from mlx5_ib.
Errno read_fields(uint64_t asked, size_t table_entries, core::HashFields& out) {
    if (asked & ~(kIpv4 | kIpv6 | kTcp | kUdp | kSpi)) return EOPNOTSUPP;
    if (asked == 0) return table_entries == 1 ? 0 : EINVAL; // a steering entry, no spreading
    if (asked & kIpv4 && asked & kIpv6) return EINVAL;
    if (!!(asked & kTcp) + !!(asked & kUdp) + !!(asked & kSpi) > 1) return EINVAL;
    out.src_ip = asked & (MLX5_RX_HASH_SRC_IPV4 | MLX5_RX_HASH_SRC_IPV6);
    out.dst_ip = asked & (MLX5_RX_HASH_DST_IPV4 | MLX5_RX_HASH_DST_IPV6);
    out.src_port = asked & (MLX5_RX_HASH_SRC_PORT_TCP | MLX5_RX_HASH_SRC_PORT_UDP);
    out.dst_port = asked & (MLX5_RX_HASH_DST_PORT_TCP | MLX5_RX_HASH_DST_PORT_UDP);
    out.spi = asked & kSpi;
    out.ip_version = asked & kIpv4 ? 4 : asked & kIpv6 ? 6 : 0;
    out.l4 = asked & kTcp ? IPPROTO_TCP : asked & kUdp ? IPPROTO_UDP : 0;
    return 0;
}

Errno check(const ib_uverbs_ex_create_qp& request, const mlx5_ib_create_qp_rss& driver) {
    constexpr uint32_t kKnownDriverFlags = MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC |
                                           MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC |
                                           MLX5_QP_FLAG_TUNNEL_OFFLOADS;
    if (request.qp_type != IB_UVERBS_QPT_RAW_PACKET) return EOPNOTSUPP;
    if (request.create_flags || request.is_srq || request.max_send_wr || request.max_recv_wr ||
        request.max_recv_sge)
        return EINVAL;
    if (driver.comp_mask) return EOPNOTSUPP;
    if (driver.flags & ~kKnownDriverFlags) return EINVAL;
    if (driver.rx_hash_function != MLX5_RX_HASH_FUNC_TOEPLITZ) return EOPNOTSUPP;
    return driver.rx_key_len == kToeplitzKeyBytes ? 0 : EINVAL;
}

} // namespace

Errno create_rss_qp(Context& context, const ib_uverbs_ex_create_qp& request,
                    const WriteCommand& command) {
    if (const Errno error = may_use_raw_packets()) return error;
    if (command.driver_in.size() < SIZE_UP_TO(mlx5_ib_create_qp_rss, flags)) return EINVAL;
    if (command.driver_out.size() < SIZE_UP_TO(mlx5_ib_create_qp_resp, bfreg_index)) return EINVAL;
    const auto driver = command.driver_in.as<mlx5_ib_create_qp_rss>();
    if (const Errno error = check(request, driver)) return error;
    const auto* table = context.objects.find<IndirectionTable>(request.rwq_ind_tbl_handle);
    Pd* const pd = context.objects.find<Pd>(request.pd_handle);
    if (!table) return context.objects.absence(request.rwq_ind_tbl_handle);
    if (!pd) return context.objects.absence(request.pd_handle);
    core::TirAttr tir;
    tir.rqt = table->rqt;
    tir.tunnels = (driver.flags & MLX5_QP_FLAG_TUNNEL_OFFLOADS) != 0;
    tir.hash_inner = (driver.rx_hash_fields_mask & MLX5_RX_HASH_INNER) != 0;
    if (tir.hash_inner && !tir.tunnels) return EOPNOTSUPP;
    std::memcpy(tir.toeplitz_key.data(), driver.rx_hash_key, kToeplitzKeyBytes);
    if (const Errno error =
            read_fields(driver.rx_hash_fields_mask & ~kInner, table->rqns.size(), tir.fields))
        return error;
    auto qp = std::make_unique<Qp>();
    if (const Errno error = add_tir(context, tir, driver.flags, *qp)) return error;
    qp->rss = true;
    qp->pd = pd->number;
    qp->rss_pd = pd;
    pd->rss_qps++;
    qp->events.user_handle = request.user_handle;
    mlx5_ib_create_qp_resp driver_out{};
    if (context.devx) tell_tir(*qp, driver_out);
    ib_uverbs_ex_create_qp_resp out{};
    out.base.qp_handle =
        context.objects.add(std::move(qp)); // its QP number is 0: nobody sends on it
    command.out.put(out);
    command.driver_out.put(driver_out);
    return 0;
}

} // namespace softhca::uverbs
