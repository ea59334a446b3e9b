// SPDX-License-Identifier: BSD-3-Clause
// rdma-core, loaded at run time: one table of the functions that libibverbs and libmlx5 export.
// Inline helpers of <infiniband/verbs.h> (ibv_post_send, ibv_poll_cq, ibv_start_poll, ibv_wr_* …)
// go through the context and may be called directly; exported symbols must be reached through this
// table, or the plugin would need the library at load time.
#pragma once

#include "common/result.hpp"

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

namespace verbs {

/// Exported functions in use, by their own names. All of libibverbs are set after load(); those of
/// libmlx5 are null when that provider is not installed.
struct Api {
    // clang-format off
    decltype(&::ibv_get_device_list)     get_device_list = nullptr;
    decltype(&::ibv_free_device_list)    free_device_list = nullptr;
    decltype(&::ibv_get_device_name)     get_device_name = nullptr;
    decltype(&::ibv_open_device)         open_device = nullptr;
    decltype(&::ibv_close_device)        close_device = nullptr;
    decltype(&::ibv_query_device)        query_device = nullptr;
    int (*query_port)(ibv_context*, uint8_t, _compat_ibv_port_attr*) = nullptr;
    decltype(&::ibv_alloc_pd)            alloc_pd = nullptr;
    decltype(&::ibv_dealloc_pd)          dealloc_pd = nullptr;
    ibv_mr* (*reg_mr)(ibv_pd*, void*, size_t, int) = nullptr;
    decltype(&::ibv_reg_mr_iova2)        reg_mr_iova2 = nullptr;
    decltype(&::ibv_dereg_mr)            dereg_mr = nullptr;
    decltype(&::ibv_create_cq)           create_cq = nullptr;
    decltype(&::ibv_destroy_cq)          destroy_cq = nullptr;
    decltype(&::ibv_create_comp_channel) create_comp_channel = nullptr;
    decltype(&::ibv_destroy_comp_channel) destroy_comp_channel = nullptr;
    decltype(&::ibv_get_cq_event)        get_cq_event = nullptr;
    decltype(&::ibv_ack_cq_events)       ack_cq_events = nullptr;
    decltype(&::ibv_create_qp)           create_qp = nullptr;
    decltype(&::ibv_modify_qp)           modify_qp = nullptr;
    decltype(&::ibv_destroy_qp)          destroy_qp = nullptr;
    decltype(&::ibv_get_async_event)     get_async_event = nullptr;
    decltype(&::ibv_ack_async_event)     ack_async_event = nullptr;
    decltype(&::ibv_event_type_str)      event_type_str = nullptr;
    decltype(&::ibv_wc_status_str)       wc_status_str = nullptr;
    decltype(&::ibv_qp_to_qp_ex)         qp_to_qp_ex = nullptr;
    decltype(&::mlx5dv_is_supported)     mlx5_is_supported = nullptr;
    decltype(&::mlx5dv_init_obj)         mlx5_init_obj = nullptr;
    decltype(&::mlx5dv_query_device)     mlx5_query_device = nullptr;
    decltype(&::mlx5dv_create_cq)        mlx5_create_cq = nullptr;
    decltype(&::mlx5dv_get_clock_info)   mlx5_get_clock_info = nullptr;
    decltype(&::mlx5dv_create_wq)        mlx5_create_wq = nullptr;
    decltype(&::mlx5dv_create_qp)        mlx5_create_qp = nullptr;
    decltype(&::mlx5dv_create_flow_matcher)  mlx5_create_flow_matcher = nullptr;
    decltype(&::mlx5dv_destroy_flow_matcher) mlx5_destroy_flow_matcher = nullptr;
    decltype(&::mlx5dv_create_flow)      mlx5_create_flow = nullptr;
    decltype(&::mlx5dv_create_flow_action_modify_header) mlx5_create_modify_header = nullptr;
    decltype(&::mlx5dv_create_flow_action_packet_reformat) mlx5_create_packet_reformat = nullptr;
    decltype(&::mlx5dv_devx_obj_create)  mlx5_devx_obj_create = nullptr;
    decltype(&::mlx5dv_devx_obj_query)   mlx5_devx_obj_query = nullptr;
    decltype(&::mlx5dv_devx_obj_modify)  mlx5_devx_obj_modify = nullptr;
    decltype(&::mlx5dv_devx_obj_destroy) mlx5_devx_obj_destroy = nullptr;
    decltype(&::mlx5dv_devx_general_cmd) mlx5_devx_general_cmd = nullptr;
    decltype(&::mlx5dv_devx_wq_modify)   mlx5_devx_wq_modify = nullptr;
    decltype(&::mlx5dv_dr_domain_create) mlx5_dr_domain_create = nullptr;
    decltype(&::mlx5dv_dr_domain_destroy) mlx5_dr_domain_destroy = nullptr;
    decltype(&::mlx5dv_dr_domain_sync)   mlx5_dr_domain_sync = nullptr;
    decltype(&::mlx5dv_dr_table_create)  mlx5_dr_table_create = nullptr;
    decltype(&::mlx5dv_dr_table_destroy) mlx5_dr_table_destroy = nullptr;
    decltype(&::mlx5dv_dr_matcher_create) mlx5_dr_matcher_create = nullptr;
    decltype(&::mlx5dv_dr_matcher_destroy) mlx5_dr_matcher_destroy = nullptr;
    decltype(&::mlx5dv_dr_matcher_set_layout) mlx5_dr_matcher_set_layout = nullptr;
    decltype(&::mlx5dv_dr_rule_create)   mlx5_dr_rule_create = nullptr;
    decltype(&::mlx5dv_dr_rule_destroy)  mlx5_dr_rule_destroy = nullptr;
    decltype(&::mlx5dv_dr_action_create_dest_table) mlx5_dr_to_table = nullptr;
    decltype(&::mlx5dv_dr_action_create_dest_devx_tir) mlx5_dr_to_tir = nullptr;
    decltype(&::mlx5dv_dr_action_create_drop) mlx5_dr_drop = nullptr;
    decltype(&::mlx5dv_dr_action_create_tag) mlx5_dr_tag = nullptr;
    decltype(&::mlx5dv_dr_action_create_flow_counter) mlx5_dr_count = nullptr;
    decltype(&::mlx5dv_dr_action_create_modify_header) mlx5_dr_modify_header = nullptr;
    decltype(&::mlx5dv_dr_action_create_packet_reformat) mlx5_dr_packet_reformat = nullptr;
    decltype(&::mlx5dv_dr_action_destroy) mlx5_dr_action_destroy = nullptr;
    // clang-format on
};

/// Names of the shared libraries; tests pass others.
struct LibraryNames {
    const char* ibverbs = "libibverbs.so.1";
    const char* mlx5 = "libmlx5.so.1";
};

/// Fills a table from the named libraries, which stay loaded. ENOENT: libibverbs is missing (the
/// message names the Debian package); ENOSYS: it lacks a function, that is, it is too old. A
/// missing or too old libmlx5 is no error: its functions are then null.
[[nodiscard]] Result<Api> load_from(const LibraryNames& names);

/// Loads libibverbs (and libmlx5 if present) once per process; later calls return the same table. A
/// failure is not remembered: the next call tries again. Thread-safe; errors as load_from.
[[nodiscard]] Result<const Api*> load();

/// As ibv_query_device_ex and ibv_query_port, whose inline forms need libibverbs at link time.
/// Return 0 or an errno value.
int query_device(const Api& api, ibv_context* context, ibv_device_attr_ex& attributes);
int query_port(const Api& api, ibv_context* context, uint8_t port, ibv_port_attr& attributes);

/// As ibv_create_qp_ex, for the same reason. Null with errno on failure.
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex& attributes);

} // namespace verbs
