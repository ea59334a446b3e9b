// SPDX-License-Identifier: BSD-3-Clause
// What the device of fake_rdma.hpp does in addition as one of libmlx5: flows of matchers, with
// actions, and firmware commands (DevX).
#include "tests/unit/verbs/fake_verbs.hpp"

#include <cstring>
#include <optional>

namespace verbs_test {
namespace {

struct Mlx5Calls : FakeVerbs {
    static mlx5dv_flow_matcher* create_flow_matcher(ibv_context* context,
                                                    mlx5dv_flow_matcher_attr* attributes) {
        if (refused("create_flow_matcher")) return nullptr;
        const auto* const mask =
            reinterpret_cast<const uint8_t*>(attributes->match_mask->match_buf);
        auto* const matcher = new Matcher{context,
                                          attributes->ft_type,
                                          attributes->priority,
                                          attributes->match_criteria_enable,
                                          {mask, mask + attributes->match_mask->match_sz}};
        return reinterpret_cast<mlx5dv_flow_matcher*>(kept("matcher", device->matchers, matcher));
    }
    static int destroy_flow_matcher(mlx5dv_flow_matcher* handle) {
        auto* const matcher = reinterpret_cast<Matcher*>(handle);
        check(free_of(device->flows, [&](const Flow& flow) { return flow.matcher == matcher; }),
              "matcher destroyed while a flow uses it");
        return dropped("matcher", device->matchers, matcher);
    }
    static ibv_flow_action*
    create_flow_action(ibv_context* context, const void* data, size_t size,
                       mlx5dv_flow_table_type table,
                       std::optional<mlx5dv_flow_action_packet_reformat_type> reformat) {
        if (refused("create_flow_action")) return nullptr;
        const auto* const bytes = static_cast<const uint8_t*>(data);
        auto* const action = new FlowAction{};
        action->context = context;
        action->table = table;
        action->reformat = reformat;
        action->bytes.assign(bytes, bytes + size);
        return kept("flow action", device->flow_actions, action);
    }
    static ibv_flow* create_mlx5_flow(mlx5dv_flow_matcher* handle,
                                      mlx5dv_flow_match_parameters* value, size_t count,
                                      mlx5dv_flow_action_attr* actions) {
        if (refused("create_mlx5_flow")) return nullptr;
        const auto* const matcher = reinterpret_cast<Matcher*>(handle);
        auto flow = std::make_unique<Flow>(
            matcher, value, std::vector<mlx5dv_flow_action_attr>(actions, actions + count));
        if (matcher->level >= device->priorities) return failed<ibv_flow>(ENOMEM); // like mlx5_ib
        ibv_flow* const created = kept("flow", device->flows, flow.release());
        if (device->on_change) device->on_change();
        return created;
    }
    static mlx5dv_devx_obj* create_devx(ibv_context*, const void* in, size_t in_bytes, void* out,
                                        size_t out_bytes) {
        if (!device->offers_devx) return failed<mlx5dv_devx_obj>(EINVAL); // like the kernel
        if (refused("devx_obj_create")) return nullptr;
        const auto* const command = static_cast<const uint8_t*>(in);
        auto* const object = new DevxObject{{command, command + in_bytes}, next_number()};
        const uint32_t number = __builtin_bswap32(object->number);
        std::memset(out, 0, out_bytes);
        std::memcpy(static_cast<uint8_t*>(out) + 8, &number, sizeof number);
        return reinterpret_cast<mlx5dv_devx_obj*>(
            kept("DevX object", device->devx_objects, object));
    }
    static int query_devx(mlx5dv_devx_obj* handle, const void*, size_t, void* out,
                          size_t out_bytes) {
        std::memset(out, 0, out_bytes);
        const std::vector<uint8_t>& own = DevxObject::of(handle)->answer;
        const std::vector<uint8_t>& answer = own.empty() ? device->devx_answer : own;
        const size_t bytes = std::min(answer.size(), out_bytes - 8);
        if (bytes != 0) std::memcpy(static_cast<uint8_t*>(out) + 8, answer.data(), bytes);
        return entered("devx_obj_query");
    }
    static int modify_devx(mlx5dv_devx_obj* handle, const void* in, size_t in_bytes, void* out,
                           size_t out_bytes) {
        if (const int error = entered("devx_obj_modify")) return error;
        const auto* const command = static_cast<const uint8_t*>(in);
        DevxObject::of(handle)->changes.emplace_back(command, command + in_bytes);
        std::memset(out, 0, out_bytes);
        return 0;
    }
    static int modify_devx_wq(ibv_wq* wq, const void* in, size_t in_bytes, void* out,
                              size_t out_bytes) {
        if (const int error = entered("devx_wq_modify")) return error;
        const auto* const command = static_cast<const uint8_t*>(in);
        device->wq_changes.push_back({wq->wq_num, {command, command + in_bytes}});
        std::memset(out, 0, out_bytes);
        return 0;
    }
    static int destroy_devx(mlx5dv_devx_obj* handle) {
        const auto uses = [&](const Flow& flow) {
            return std::ranges::any_of(flow.actions, [&](const mlx5dv_flow_action_attr& used) {
                return (used.type == MLX5DV_FLOW_ACTION_DEST_DEVX ||
                        used.type == MLX5DV_FLOW_ACTION_COUNTERS_DEVX) &&
                       used.obj == handle;
            });
        };
        check(free_of(device->flows, uses), "DevX object destroyed while a flow uses it");
        return dropped("DevX object", device->devx_objects, DevxObject::of(handle));
    }
};

} // namespace

void FakeRdma::offer_mlx5_flows() {
    api_.mlx5_is_supported = [](ibv_device*) { return true; };
    api_.mlx5_create_flow_matcher = Mlx5Calls::create_flow_matcher;
    api_.mlx5_destroy_flow_matcher = Mlx5Calls::destroy_flow_matcher;
    api_.mlx5_create_flow = Mlx5Calls::create_mlx5_flow;
    api_.mlx5_create_modify_header = [](ibv_context* context, size_t size, uint64_t* commands,
                                        mlx5dv_flow_table_type table) {
        return Mlx5Calls::create_flow_action(context, commands, size, table, std::nullopt);
    };
    api_.mlx5_create_packet_reformat = [](ibv_context* context, size_t size, void* header,
                                          mlx5dv_flow_action_packet_reformat_type type,
                                          mlx5dv_flow_table_type table) {
        return Mlx5Calls::create_flow_action(context, header, size, table, type);
    };
    api_.mlx5_devx_obj_create = Mlx5Calls::create_devx;
    api_.mlx5_devx_obj_query = Mlx5Calls::query_devx;
    api_.mlx5_devx_obj_modify = Mlx5Calls::modify_devx;
    api_.mlx5_devx_obj_destroy = Mlx5Calls::destroy_devx;
    api_.mlx5_devx_wq_modify = Mlx5Calls::modify_devx_wq;
}

} // namespace verbs_test
