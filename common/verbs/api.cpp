// SPDX-License-Identifier: BSD-3-Clause
#include "common/verbs/api.hpp"

#include <cerrno>
#include <dlfcn.h>
#include <mutex>
#include <optional>

namespace verbs {
namespace {

template <class Function> bool find(void* library, const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, symbol));
    return function != nullptr;
}

/// Name of the first function that libibverbs lacks, or null.
const char* fill_ibverbs(void* library, Api& api) {
#define FIND(member)                                                                               \
    if (!find(library, "ibv_" #member, api.member)) return "ibv_" #member
    FIND(get_device_list);
    FIND(free_device_list);
    FIND(get_device_name);
    FIND(open_device);
    FIND(close_device);
    FIND(query_device);
    FIND(query_port);
    FIND(alloc_pd);
    FIND(dealloc_pd);
    FIND(reg_mr);
    FIND(reg_mr_iova2);
    FIND(dereg_mr);
    FIND(create_cq);
    FIND(destroy_cq);
    FIND(create_comp_channel);
    FIND(destroy_comp_channel);
    FIND(get_cq_event);
    FIND(ack_cq_events);
    FIND(create_qp);
    FIND(modify_qp);
    FIND(destroy_qp);
    FIND(get_async_event);
    FIND(ack_async_event);
    FIND(event_type_str);
    FIND(wc_status_str);
    FIND(qp_to_qp_ex);
#undef FIND
    return nullptr;
}

/// The extended context if its provider offers this operation, else null: what verbs.h does with a
/// GNU statement expression.
template <class Operation>
verbs_context* offering(ibv_context* context, Operation verbs_context::*operation) {
    verbs_context* extended = verbs_get_ctx(context);
    if (extended == nullptr) return nullptr;
    // The struct grows at its front: an older provider has a shorter one.
    const auto* field = reinterpret_cast<const char*>(&(extended->*operation));
    const auto offset = static_cast<size_t>(field - reinterpret_cast<const char*>(extended));
    const bool known = extended->sz >= sizeof(*extended) - offset;
    return known && extended->*operation != nullptr ? extended : nullptr;
}

/// Software steering.
bool find_dr(void* library, Api& found) {
    return find(library, "mlx5dv_dr_domain_create", found.mlx5_dr_domain_create) &&
           find(library, "mlx5dv_dr_domain_destroy", found.mlx5_dr_domain_destroy) &&
           find(library, "mlx5dv_dr_domain_sync", found.mlx5_dr_domain_sync) &&
           find(library, "mlx5dv_dr_table_create", found.mlx5_dr_table_create) &&
           find(library, "mlx5dv_dr_table_destroy", found.mlx5_dr_table_destroy) &&
           find(library, "mlx5dv_dr_matcher_create", found.mlx5_dr_matcher_create) &&
           find(library, "mlx5dv_dr_matcher_destroy", found.mlx5_dr_matcher_destroy) &&
           find(library, "mlx5dv_dr_matcher_set_layout", found.mlx5_dr_matcher_set_layout) &&
           find(library, "mlx5dv_dr_rule_create", found.mlx5_dr_rule_create) &&
           find(library, "mlx5dv_dr_rule_destroy", found.mlx5_dr_rule_destroy) &&
           find(library, "mlx5dv_dr_action_create_dest_table", found.mlx5_dr_to_table) &&
           find(library, "mlx5dv_dr_action_create_dest_devx_tir", found.mlx5_dr_to_tir) &&
           find(library, "mlx5dv_dr_action_create_drop", found.mlx5_dr_drop) &&
           find(library, "mlx5dv_dr_action_create_tag", found.mlx5_dr_tag) &&
           find(library, "mlx5dv_dr_action_create_flow_counter", found.mlx5_dr_count) &&
           find(library, "mlx5dv_dr_action_create_modify_header", found.mlx5_dr_modify_header) &&
           find(library, "mlx5dv_dr_action_create_packet_reformat",
                found.mlx5_dr_packet_reformat) &&
           find(library, "mlx5dv_dr_action_destroy", found.mlx5_dr_action_destroy);
}

/// All of libmlx5 or nothing: a half-filled table would have to be checked at every use.
void fill_mlx5(void* library, Api& api) {
    if (library == nullptr) return;
    Api found = api;
    if (find(library, "mlx5dv_is_supported", found.mlx5_is_supported) &&
        find(library, "mlx5dv_init_obj", found.mlx5_init_obj) &&
        find(library, "mlx5dv_query_device", found.mlx5_query_device) &&
        find(library, "mlx5dv_create_cq", found.mlx5_create_cq) &&
        find(library, "mlx5dv_get_clock_info", found.mlx5_get_clock_info) &&
        find(library, "mlx5dv_create_wq", found.mlx5_create_wq) &&
        find(library, "mlx5dv_create_qp", found.mlx5_create_qp) &&
        find(library, "mlx5dv_create_flow_matcher", found.mlx5_create_flow_matcher) &&
        find(library, "mlx5dv_destroy_flow_matcher", found.mlx5_destroy_flow_matcher) &&
        find(library, "mlx5dv_create_flow", found.mlx5_create_flow) &&
        find(library, "mlx5dv_create_flow_action_modify_header", found.mlx5_create_modify_header) &&
        find(library, "mlx5dv_create_flow_action_packet_reformat",
             found.mlx5_create_packet_reformat) &&
        find(library, "mlx5dv_devx_obj_create", found.mlx5_devx_obj_create) &&
        find(library, "mlx5dv_devx_obj_query", found.mlx5_devx_obj_query) &&
        find(library, "mlx5dv_devx_obj_modify", found.mlx5_devx_obj_modify) &&
        find(library, "mlx5dv_devx_obj_destroy", found.mlx5_devx_obj_destroy) &&
        find(library, "mlx5dv_devx_general_cmd", found.mlx5_devx_general_cmd) &&
        find(library, "mlx5dv_devx_wq_modify", found.mlx5_devx_wq_modify) &&
        find_dr(library, found))
        api = found;
}

} // namespace

Result<Api> load_from(const LibraryNames& names) {
    // Never closed: providers leave threads and at-exit handlers behind.
    void* ibverbs = dlopen(names.ibverbs, RTLD_NOW | RTLD_LOCAL);
    if (ibverbs == nullptr) {
        const char* reason = dlerror();
        return fail(ENOENT,
                    "{} cannot be loaded ({}): install the Debian packages libibverbs1 and "
                    "ibverbs-providers",
                    names.ibverbs, reason != nullptr ? reason : "unknown error");
    }
    Api api;
    if (const char* missing = fill_ibverbs(ibverbs, api))
        return fail(
            ENOSYS,
            "{} has no function {}: it is too old, rdma-core 44 (Debian package libibverbs1) "
            "or later is needed",
            names.ibverbs, missing);
    fill_mlx5(dlopen(names.mlx5, RTLD_NOW | RTLD_LOCAL), api);
    return api;
}

int query_device(const Api& api, ibv_context* context, ibv_device_attr_ex& attributes) {
    attributes = {};
    if (verbs_context* extended = offering(context, &verbs_context::query_device_ex)) {
        const int error =
            extended->query_device_ex(context, nullptr, &attributes, sizeof(attributes));
        if (error != EOPNOTSUPP && error != ENOSYS) return error;
        attributes = {};
    }
    return api.query_device(context, &attributes.orig_attr);
}

int query_port(const Api& api, ibv_context* context, uint8_t port, ibv_port_attr& attributes) {
    attributes = {};
    if (verbs_context* extended = offering(context, &verbs_context::query_port))
        return extended->query_port(context, port, &attributes, sizeof(attributes));
    // The exported function fills only the first fields, as its odd type says.
    return api.query_port(context, port, reinterpret_cast<_compat_ibv_port_attr*>(&attributes));
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex& attributes) {
    verbs_context* extended = offering(context, &verbs_context::create_qp_ex);
    if (extended == nullptr) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    return extended->create_qp_ex(context, &attributes);
}

Result<const Api*> load() {
    static std::mutex mutex;
    static std::optional<Api> loaded;
    const std::lock_guard lock(mutex);
    if (!loaded) {
        Result<Api> api = load_from({});
        if (!api) return tl::unexpected(std::move(api.error()));
        loaded = *api;
    }
    return &*loaded;
}

} // namespace verbs
