// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/verbs/fake_verbs.hpp"

#include <cstring>
#include <fmt/format.h>
#include <unistd.h>

namespace verbs_test {
namespace {

/// A PD or a parent domain.
struct PdObject : ibv_pd {
    ibv_parent_domain_init_attr parent{};
};

/// The memory of a ring, from the allocators of its parent domain.
class Ring {
  public:
    static constexpr size_t kPage = 4096;

    Ring(ibv_pd* domain, size_t bytes) : domain_(static_cast<PdObject*>(domain)) {
        const auto& parent = domain_->parent;
        memory_ = parent.alloc(domain_, parent.pd_context, bytes, kPage, 0);
    }
    ~Ring() { domain_->parent.free(domain_, domain_->parent.pd_context, memory_, 0); }
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    [[nodiscard]] const void* memory() const { return memory_; }

  private:
    PdObject* domain_;
    void* memory_;
};

struct Cq : FakeVerbsCq {
    std::unique_ptr<Ring> ring;
    Cq(ibv_context* context, int entries) {
        handle.context = context;
        handle.cqe = entries;
    }
    [[nodiscard]] ibv_cq* plain() { return ibv_cq_ex_to_cq(&handle); }
};

/// The verbs functions.
struct Calls : FakeVerbs {
    static ibv_device** get_device_list(int* count) {
        if (refused("get_device_list")) return nullptr;
        devices().clear();
        auto** list = new ibv_device* [device->names.size() + 1] {};
        for (size_t i = 0; i < device->names.size(); ++i) {
            devices().push_back(std::make_unique<ibv_device>());
            std::strncpy(devices()[i]->name, device->names[i].c_str(), IBV_SYSFS_NAME_MAX - 1);
            list[i] = devices()[i].get();
        }
        *count = static_cast<int>(device->names.size());
        return made("device list", list);
    }
    static void free_device_list(ibv_device** list) { gone_list("device list", list); }
    static const char* get_device_name(ibv_device* from) { return from->name; }

    static ibv_context* open_device(ibv_device*) {
        if (refused("open_device")) return nullptr;
        auto* provider = new verbs_context{};
        provider->sz = sizeof(*provider);
        ibv_context& context = provider->context;
        context.abi_compat = __VERBS_ABI_IS_EXTENDED;
        context.num_comp_vectors = 3;
        context.async_fd = dup(event_fd());
        context.ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return 0; };
        context.ops.post_send = FakeVerbsQp::post_send;
        provider->query_device_ex = query_device_ex;
        provider->query_port = query_port;
        provider->create_cq_ex = create_cq_ex;
        provider->create_wq = create_wq;
        provider->alloc_parent_domain = alloc_parent_domain;
        provider->modify_wq = modify_wq;
        provider->destroy_wq = destroy_wq;
        provider->create_rwq_ind_table = create_rwq_ind_table;
        provider->destroy_rwq_ind_table = destroy_rwq_ind_table;
        provider->create_qp_ex = create_qp_ex;
        provider->ibv_create_flow = create_flow;
        provider->ibv_destroy_flow = destroy_flow;
        provider->destroy_flow_action = destroy_flow_action;
        provider->create_counters = create_counters;
        provider->attach_counters_point_flow = [](ibv_counters* counters, ibv_counter_attach_attr*,
                                                  ibv_flow* flow) {
            return Counters::of(counters).attach(flow);
        };
        provider->read_counters = [](ibv_counters* counters, uint64_t* values, uint32_t count,
                                     uint32_t) {
            // Like the kernel (UVERBS_METHOD_COUNTERS_READ): not unless a flow counts there.
            const bool used = std::ranges::any_of(device->flows, [&](const auto& flow) {
                if (flow->matcher != nullptr) return false;
                const auto spec =
                    flow->template spec<ibv_flow_spec_counter_action>(IBV_FLOW_SPEC_ACTION_COUNT);
                return spec && spec->counters == counters;
            });
            return used ? Counters::of(counters).read(values, count) : EINVAL;
        };
        provider->destroy_counters = [](ibv_counters* counters) {
            return dropped("counters", device->counters, &Counters::of(counters));
        };
        return &made("context", provider)->context;
    }
    static int close_device(ibv_context* context) {
        close(context->async_fd);
        return gone("context", verbs_get_ctx(context));
    }
    static int query_device_ex(ibv_context*, const ibv_query_device_ex_input*,
                               ibv_device_attr_ex* attributes, size_t) {
        *attributes = device->attributes;
        return entered("query_device");
    }
    static int query_port(ibv_context*, uint8_t, ibv_port_attr* attributes, size_t) {
        *attributes = device->port;
        return entered("query_port");
    }

    static ibv_pd* alloc_pd(ibv_context* context) {
        if (refused("alloc_pd")) return nullptr;
        return made("PD", new PdObject{{.context = context, .handle = 0}});
    }
    static ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* parent) {
        if (refused("alloc_parent_domain")) return nullptr;
        return made("parent domain", new PdObject{{.context = context, .handle = 0}, *parent});
    }
    static int dealloc_pd(ibv_pd* pd) {
        auto* const object = static_cast<PdObject*>(pd);
        const bool parent = object->parent.pd != nullptr;
        check(parent || device->alive("parent domain") == 0,
              "PD destroyed under its parent domain");
        return gone(parent ? "parent domain" : "PD", object);
    }
    static ibv_mr* reg_mr(ibv_pd* pd, void* address, size_t length, uint64_t, unsigned access) {
        if (refused("reg_mr")) return nullptr;
        device->mr_access = access;
        auto* mr = new ibv_mr{};
        mr->pd = pd;
        mr->addr = address;
        mr->length = length;
        mr->lkey = next_number() << 8;
        return made("MR", mr);
    }
    static ibv_cq* create_cq(ibv_context* context, int entries, void*, ibv_comp_channel*, int) {
        if (refused("create_cq")) return nullptr;
        return made("CQ", new Cq(context, entries))->plain();
    }
    static ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes) {
        if (refused("create_cq_ex")) return nullptr;
        check(attributes->comp_vector < static_cast<unsigned>(context->num_comp_vectors),
              "CQ with a completion vector out of range");
        Cq* const cq = made("CQ", new Cq(context, static_cast<int>(attributes->cqe)));
        if ((attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) {
            cq->ring = std::make_unique<Ring>(attributes->parent_domain, 64 * attributes->cqe);
            device->ring_memory.push_back(cq->ring->memory());
        }
        return &cq->handle;
    }
    static int destroy_cq(ibv_cq* plain) {
        auto& cq = static_cast<Cq&>(FakeVerbsCq::of(reinterpret_cast<ibv_cq_ex*>(plain)));
        check(cq.misuse == 0, "poll of a CQ started twice");
        return gone("CQ", &cq);
    }

    static std::unique_ptr<Qp> new_qp(ibv_context* context, ibv_pd* pd, ibv_qp_type type) {
        auto qp = std::make_unique<Qp>();
        ibv_qp& base = *qp->plain();
        base.context = context;
        base.pd = pd;
        base.qp_type = type;
        base.qp_num = next_number();
        base.state = IBV_QPS_RESET;
        return qp;
    }
    static ibv_qp* made_qp(std::unique_ptr<Qp> qp) {
        return kept("QP", device->qps, qp.release())->plain();
    }
    static ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
        if (refused("create_qp")) return nullptr;
        return made_qp(new_qp(pd->context, pd, attributes->qp_type));
    }
    static ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes) {
        if (refused("create_qp_ex")) return nullptr;
        if ((attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) // there is no ibv_wr_*
            return failed<ibv_qp>(EOPNOTSUPP);
        if (attributes->qp_type != IBV_QPT_RAW_PACKET || attributes->pd == nullptr)
            return failed<ibv_qp>(EINVAL);
        std::unique_ptr<Qp> qp = new_qp(context, attributes->pd, attributes->qp_type);
        if ((attributes->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE) != 0) {
            qp->table = attributes->rwq_ind_tbl;
            qp->queues = static_cast<const Table*>(qp->table)->queues();
            if (const int error = qp->set_hash(attributes->rx_hash_conf))
                return failed<ibv_qp>(error);
        }
        return made_qp(std::move(qp));
    }
    static int destroy_qp(ibv_qp* plain) {
        Qp* const qp = &Qp::of(plain);
        check(free_of(device->flows, [&](const Flow& flow) { return flow.qp == qp; }),
              "QP destroyed while a flow uses it");
        return dropped("QP", device->qps, qp);
    }
    static int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
        if (const int error = entered("modify_qp")) return error;
        const ibv_qp_state to = attributes->qp_state;
        const bool legal = to == IBV_QPS_RESET || to == IBV_QPS_ERR ||
                           (qp->state == IBV_QPS_RESET && to == IBV_QPS_INIT) ||
                           (qp->state == IBV_QPS_INIT && to == IBV_QPS_RTR) ||
                           (qp->state == IBV_QPS_RTR && to == IBV_QPS_RTS) ||
                           (qp->state == IBV_QPS_RTS && to == IBV_QPS_RTS);
        if (!legal || ((mask & IBV_QP_RATE_LIMIT) != 0 && to != IBV_QPS_RTS)) return EINVAL;
        if (to == IBV_QPS_RESET) device->rates.erase(qp->qp_num);
        if ((mask & IBV_QP_RATE_LIMIT) != 0) device->rates[qp->qp_num] = attributes->rate_limit;
        qp->state = to;
        return 0;
    }

    static ibv_wq* create_wq(ibv_context* context, ibv_wq_init_attr* attributes) {
        if (refused("create_wq")) return nullptr;
        ibv_wq& wq = made("WQ", new FakeVerbsWq)->handle;
        wq.context = context;
        wq.cq = attributes->cq;
        wq.wq_num = next_number();
        wq.state = IBV_WQS_RESET;
        return &wq;
    }
    static int destroy_wq(ibv_wq* handle) {
        FakeVerbsWq& wq = FakeVerbsWq::of(handle);
        check(wq.misuse == 0, "receive WQE posted to a WQ that is not in RDY");
        const auto uses = [&](const Table& table) {
            return std::find(table.wqs.begin(), table.wqs.end(), handle) != table.wqs.end();
        };
        check(free_of(device->tables, uses), "WQ destroyed while a table uses it");
        return gone("WQ", &wq);
    }
    static int modify_wq(ibv_wq* wq, ibv_wq_attr* attributes) {
        if (const int error = entered("modify_wq")) return error;
        wq->state = attributes->wq_state;
        return 0;
    }
    static ibv_rwq_ind_table* create_rwq_ind_table(ibv_context* context,
                                                   ibv_rwq_ind_table_init_attr* attributes) {
        if (refused("create_rwq_ind_table")) return nullptr;
        const uint32_t most = device->attributes.rss_caps.max_rwq_indirection_table_size;
        const size_t entries = size_t{1} << attributes->log_ind_tbl_size;
        if (entries > most) return failed<ibv_rwq_ind_table>(EINVAL); // like the kernel
        auto* const table = new Table{};
        table->context = context;
        table->wqs.assign(attributes->ind_tbl, attributes->ind_tbl + entries);
        return kept("table", device->tables, table);
    }
    static int destroy_rwq_ind_table(ibv_rwq_ind_table* table) {
        check(free_of(device->qps, [&](const Qp& qp) { return qp.table == table; }),
              "indirection table destroyed while a QP uses it");
        return dropped("table", device->tables, static_cast<Table*>(table));
    }
    static ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attributes) {
        if (refused("create_flow")) return nullptr;
        auto flow = std::make_unique<Flow>(qp, attributes);
        int error = attributes->priority < device->priorities ? 0 : EINVAL; // like mlx5_ib
        if (error == 0 && device->refuse_flow) error = device->refuse_flow(*flow);
        if (error != 0) return failed<ibv_flow>(error);
        ibv_flow* const created = kept("flow", device->flows, flow.release());
        if (device->on_change) device->on_change();
        return created;
    }
    static int destroy_flow(ibv_flow* flow) {
        const int error = dropped("flow", device->flows, static_cast<Flow*>(flow));
        if (device->on_change) device->on_change();
        return error;
    }
    static int destroy_flow_action(ibv_flow_action* action) {
        const auto uses = [&](const Flow& flow) {
            return std::ranges::any_of(flow.actions, [&](const mlx5dv_flow_action_attr& used) {
                return used.type == MLX5DV_FLOW_ACTION_IBV_FLOW_ACTION && used.action == action;
            });
        };
        check(free_of(device->flows, uses), "flow action destroyed while a flow uses it");
        return dropped("flow action", device->flow_actions, static_cast<FlowAction*>(action));
    }
    static ibv_counters* create_counters(ibv_context* context, ibv_counters_init_attr*) {
        if (!device->offers_counters) return failed<ibv_counters>(EOPNOTSUPP);
        if (refused("create_counters")) return nullptr;
        auto* const counters = new Counters{};
        counters->context = context;
        return kept("counters", device->counters, counters);
    }

    static int get_async_event(ibv_context* context, ibv_async_event* event) {
        return read(context->async_fd, event, sizeof(*event)) == sizeof(*event) ? 0 : -1;
    }
    static void ack_async_event(ibv_async_event*) { acknowledge(); }

    static verbs::Api table() {
        verbs::Api api;
        api.get_device_list = get_device_list;
        api.free_device_list = free_device_list;
        api.get_device_name = get_device_name;
        api.open_device = open_device;
        api.close_device = close_device;
        api.alloc_pd = alloc_pd;
        api.dealloc_pd = dealloc_pd;
        api.reg_mr_iova2 = reg_mr;
        api.dereg_mr = [](ibv_mr* mr) { return gone("MR", mr); };
        api.create_cq = create_cq;
        api.destroy_cq = destroy_cq;
        api.create_qp = create_qp;
        api.qp_to_qp_ex = [](ibv_qp*) -> ibv_qp_ex* { return nullptr; }; // there is no ibv_wr_*
        api.modify_qp = modify_qp;
        api.destroy_qp = destroy_qp;
        api.get_async_event = get_async_event;
        api.ack_async_event = ack_async_event;
        api.event_type_str = [](ibv_event_type) { return "event"; };
        api.wc_status_str = [](ibv_wc_status) { return "status"; };
        return api;
    }
};

} // namespace

FakeRdma::FakeRdma() : outer_(FakeVerbs::device), api_(Calls::table()) {
    FakeVerbs::device = this;
    if (pipe(event_pipe_) != 0) throw std::bad_alloc();
    ibv_device_attr& basic = attributes.orig_attr;
    std::strcpy(basic.fw_ver, "1.2.3");
    basic.max_qp = 1000;
    basic.max_cq = 1000;
    basic.max_qp_wr = 4096;
    basic.max_sge = 8;
    basic.phys_port_cnt = 1;
    attributes.max_wq_type_rq = 4096;
    attributes.rss_caps.max_rwq_indirection_table_size = 128;
    port.state = IBV_PORT_ACTIVE;
    port.link_layer = IBV_LINK_LAYER_ETHERNET;
    port.active_speed = 32; // EDR
    port.active_width = 2;  // 4x
}

FakeRdma::~FakeRdma() {
    close(event_pipe_[0]);
    close(event_pipe_[1]);
    FakeVerbs::device = outer_;
}

void FakeRdma::check(bool right, const char* violation) {
    if (!right) violations.emplace_back(violation);
}

std::vector<const Flow*> FakeRdma::rules() const {
    std::vector<const Flow*> living;
    for (const auto& flow : flows)
        living.push_back(flow.get());
    return living;
}

void FakeRdma::fail_call(int nth, int error) {
    countdown_ = nth;
    countdown_error_ = error;
    failed_.clear();
}

unsigned FakeRdma::calls(const std::string& name) const {
    const auto found = calls_.find(name);
    return found == calls_.end() ? 0 : found->second;
}

unsigned FakeRdma::calls() const {
    unsigned sum = 0;
    for (const auto& [name, count] : calls_)
        sum += count;
    return sum;
}

int FakeRdma::enter(const std::string& name) {
    ++calls_[name];
    if (countdown_ > 0 && --countdown_ == 0) {
        failed_ = name;
        return countdown_error_;
    }
    if (const auto once = failing_once_.extract(name)) return once.mapped();
    const auto failing = failing_.find(name);
    return failing == failing_.end() ? 0 : failing->second;
}

int FakeRdma::alive(const std::string& kind) const {
    const auto found = alive_.find(kind);
    return found == alive_.end() ? 0 : found->second;
}

std::string FakeRdma::alive() const {
    std::string text;
    for (const auto& [kind, count] : alive_)
        if (count != 0) text += fmt::format("{} {} ", count, kind);
    return text;
}

void FakeRdma::raise(const ibv_async_event& event) {
    if (write(event_pipe_[1], &event, sizeof(event)) != sizeof(event)) throw std::bad_alloc();
}

} // namespace verbs_test
