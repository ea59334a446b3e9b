// SPDX-License-Identifier: BSD-3-Clause
// A verbs device that records hash QPs and flows instead of steering packets. It answers through
// the same context operations that a provider fills in, checks that objects are released in order,
// and fails the n-th call with an errno on request.
#pragma once

#include "common/verbs/api.hpp"
#include "drivers/net/rawqp/ethdev/steering/rss.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rawqp::test {

using Bytes = std::vector<uint8_t>;

/// "20 00 0a": bytes by hex digits, blanks ignored.
inline Bytes hex(const std::string& text) {
    Bytes bytes;
    std::string digits;
    for (const char c : text)
        if (c != ' ' && c != '\n') digits += c;
    for (size_t i = 0; i + 1 < digits.size(); i += 2)
        bytes.push_back(static_cast<uint8_t>(std::stoul(digits.substr(i, 2), nullptr, 16)));
    return bytes;
}

struct FakeDevice {
    struct Table {
        ibv_rwq_ind_table base{};
        std::vector<uint16_t> queues;
    };
    struct Qp {
        ibv_qp base{};
        const ibv_rwq_ind_table* table = nullptr;
        std::vector<uint16_t> queues;
        RssKey key{};
        uint64_t hash_fields = 0;
    };
    struct Flow {
        ibv_flow base{};
        Qp* qp = nullptr;
        Bytes bytes; ///< attr and specs as they came
        [[nodiscard]] ibv_flow_attr attr() const {
            ibv_flow_attr attr;
            std::memcpy(&attr, bytes.data(), sizeof attr);
            return attr;
        }
        [[nodiscard]] Bytes specs() const {
            return {bytes.begin() + sizeof(ibv_flow_attr), bytes.end()};
        }
        [[nodiscard]] uint16_t level() const { return attr().priority; }
        /// Where the first spec of that type stands in bytes; 0: there is none.
        [[nodiscard]] size_t find(uint32_t type) const {
            for (size_t at = sizeof(ibv_flow_attr); at < bytes.size();) {
                uint32_t its_type;
                uint16_t its_size;
                std::memcpy(&its_type, &bytes[at], sizeof its_type);
                std::memcpy(&its_size, &bytes[at + sizeof its_type], sizeof its_size);
                if (its_type == type) return at;
                at += its_size;
            }
            return 0;
        }
        template <class Spec> [[nodiscard]] std::optional<Spec> spec(uint32_t type) const {
            const size_t at = find(type);
            if (at == 0) return std::nullopt;
            Spec found;
            std::memcpy(&found, &bytes[at], sizeof found);
            return found;
        }
    };
    struct Counters {
        ibv_counters base{};
        uint64_t packets = 0, bytes = 0;
        unsigned attached = 0;
    };

    explicit FakeDevice(uint16_t queues = 8) : wqs(queues) {
        auto& ops = provider_.ops;
        ops.sz = sizeof ops;
        ops.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
        ops.create_rwq_ind_table = create_table;
        ops.destroy_rwq_ind_table = destroy_table;
        ops.create_qp_ex = create_qp;
        ops.ibv_create_flow = create_flow;
        ops.ibv_destroy_flow = destroy_flow;
        ops.create_counters = create_counters;
        ops.attach_counters_point_flow = attach_counters;
        ops.read_counters = read_counters;
        ops.destroy_counters = destroy_counters;
        provider_.device = this;
        pd.context = context();
        api.destroy_qp = destroy_qp;
        for (ibv_wq& wq : wqs)
            wq.context = context();
    }

    ibv_context* context() { return &provider_.ops.context; }

    /// Live flows that some frame can match, in order of creation (trial rules come and go).
    std::vector<const Flow*> rules() const {
        std::vector<const Flow*> live;
        for (const auto& flow : flows)
            live.push_back(flow.get());
        return live;
    }

    /// The `nth` creation call from now on (1: the next) fails with `error`, once.
    void fail_call(int nth, int error) {
        calls_until_failure_ = nth;
        failure_ = error;
    }

    // What is alive.
    std::vector<std::unique_ptr<Table>> tables;
    std::vector<std::unique_ptr<Qp>> qps;
    std::vector<std::unique_ptr<Flow>> flows;
    std::vector<std::unique_ptr<Counters>> counters;

    std::vector<std::string> violations; ///< objects released while in use
    /// Called before and after each change of the flows (to look at intermediate states).
    std::function<void()> on_change;
    /// Refuses a flow with the errno returned; 0 accepts.
    std::function<int(const Flow&)> refuse_flow;
    uint16_t priorities = 16;
    bool offers_counters = false;
    int creations = 0; ///< creation calls so far

    verbs::Api api;
    ibv_pd pd{};
    std::vector<ibv_wq> wqs;

    /// A port that was configured with as many queues as the device had at first.
    struct RxQueues final : RxQueueSet {
        explicit RxQueues(std::vector<ibv_wq>& set_up)
            : wqs(set_up), configured(static_cast<uint16_t>(set_up.size())) {}
        [[nodiscard]] uint16_t count() const override { return configured; }
        [[nodiscard]] ibv_wq* wq(uint16_t queue) const override {
            return queue < wqs.size() ? &wqs[queue] : nullptr;
        }
        [[nodiscard]] size_t table_entries() const override { return kRetaMax; }
        void use_marks() override { marks = true; }

        std::vector<ibv_wq>& wqs;
        uint16_t configured;
        bool marks = false;
    } rx_queues{wqs};

  private:
    struct Provider {
        verbs_context ops{};
        FakeDevice* device = nullptr;
    };
    Provider provider_;
    int calls_until_failure_ = 0;
    int failure_ = 0;

    static FakeDevice& of(ibv_context* context) {
        auto* ops = verbs_get_ctx(context);
        return *reinterpret_cast<Provider*>(ops)->device;
    }
    bool fails() {
        ++creations;
        if (calls_until_failure_ == 0 || --calls_until_failure_ != 0) return false;
        errno = failure_;
        return true;
    }
    template <class Object, class Base>
    static std::unique_ptr<Object> take(std::vector<std::unique_ptr<Object>>& from, Base* base) {
        const auto it = std::find_if(from.begin(), from.end(),
                                     [&](const auto& object) { return &object->base == base; });
        if (it == from.end()) return nullptr;
        auto object = std::move(*it);
        from.erase(it);
        return object;
    }

    static ibv_rwq_ind_table* create_table(ibv_context* context,
                                           ibv_rwq_ind_table_init_attr* attr) {
        FakeDevice& device = of(context);
        if (device.fails()) return nullptr;
        auto table = std::make_unique<Table>();
        table->base.context = context;
        for (size_t i = 0; i < size_t{1} << attr->log_ind_tbl_size; ++i)
            table->queues.push_back(static_cast<uint16_t>(attr->ind_tbl[i] - device.wqs.data()));
        device.tables.push_back(std::move(table));
        return &device.tables.back()->base;
    }
    static int destroy_table(ibv_rwq_ind_table* base) {
        FakeDevice& device = of(base->context);
        for (const auto& qp : device.qps)
            if (qp->table == base)
                device.violations.emplace_back("indirection table destroyed while a QP uses it");
        return take(device.tables, base) ? 0 : EINVAL;
    }

    static ibv_qp* create_qp(ibv_context* context, ibv_qp_init_attr_ex* attr) {
        FakeDevice& device = of(context);
        if (device.fails()) return nullptr;
        auto qp = std::make_unique<Qp>();
        qp->base.context = context;
        qp->table = attr->rwq_ind_tbl;
        for (const auto& table : device.tables)
            if (&table->base == attr->rwq_ind_tbl) qp->queues = table->queues;
        qp->hash_fields = attr->rx_hash_conf.rx_hash_fields_mask;
        // What mlx5_ib demands.
        const bool hashes_right =
            attr->rx_hash_conf.rx_hash_function == IBV_RX_HASH_FUNC_TOEPLITZ &&
            attr->rx_hash_conf.rx_hash_key_len == kRssKeyBytes &&
            (qp->hash_fields != 0 || qp->queues.size() == 1) && layers_of(qp->hash_fields) <= 2;
        if (!hashes_right || attr->qp_type != IBV_QPT_RAW_PACKET || attr->pd != &device.pd) {
            errno = EINVAL;
            return nullptr;
        }
        std::memcpy(qp->key.data(), attr->rx_hash_conf.rx_hash_key, kRssKeyBytes);
        device.qps.push_back(std::move(qp));
        return &device.qps.back()->base;
    }
    /// 3 when two L3 or two L4 types are mixed.
    static int layers_of(uint64_t fields) {
        const auto pairs = [&](unsigned shift) {
            return ((fields >> shift & 3) != 0) + ((fields >> (shift + 2) & 3) != 0);
        };
        return pairs(0) > 1 || pairs(4) > 1 ? 3 : pairs(0) + pairs(4);
    }
    static int destroy_qp(ibv_qp* base) {
        FakeDevice& device = of(base->context);
        for (const auto& flow : device.flows)
            if (&flow->qp->base == base)
                device.violations.emplace_back("QP destroyed while a flow uses it");
        return take(device.qps, base) ? 0 : EINVAL;
    }

    static ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attr) {
        FakeDevice& device = of(qp->context);
        if (device.fails()) return nullptr;
        auto flow = std::make_unique<Flow>();
        flow->base.context = qp->context;
        flow->qp = reinterpret_cast<Qp*>(qp);
        const auto* bytes = reinterpret_cast<const uint8_t*>(attr);
        flow->bytes.assign(bytes, bytes + attr->size);
        int error = attr->priority < device.priorities ? 0 : EINVAL;
        if (error == 0 && device.refuse_flow) error = device.refuse_flow(*flow);
        if (error != 0) {
            errno = error;
            return nullptr;
        }
        device.flows.push_back(std::move(flow));
        ibv_flow* const created = &device.flows.back()->base;
        if (device.on_change) device.on_change();
        return created;
    }
    static int destroy_flow(ibv_flow* base) {
        FakeDevice& device = of(base->context);
        const bool known = take(device.flows, base) != nullptr;
        if (device.on_change) device.on_change();
        return known ? 0 : EINVAL;
    }

    static ibv_counters* create_counters(ibv_context* context, ibv_counters_init_attr*) {
        FakeDevice& device = of(context);
        if (!device.offers_counters) {
            errno = EOPNOTSUPP;
            return nullptr;
        }
        if (device.fails()) return nullptr;
        device.counters.push_back(std::make_unique<Counters>());
        device.counters.back()->base.context = context;
        return &device.counters.back()->base;
    }
    static int attach_counters(ibv_counters* base, ibv_counter_attach_attr*, ibv_flow* flow) {
        if (flow != nullptr) return ENOTSUP; // as mlx5: only before the flow exists
        ++reinterpret_cast<Counters*>(base)->attached;
        return 0;
    }
    static int read_counters(ibv_counters* base, uint64_t* values, uint32_t count, uint32_t) {
        const auto& counters = *reinterpret_cast<const Counters*>(base);
        if (count != counters.attached) return EINVAL;
        values[0] = counters.packets;
        values[1] = counters.bytes;
        return 0;
    }
    static int destroy_counters(ibv_counters* base) {
        FakeDevice& device = of(base->context);
        return take(device.counters, base) ? 0 : EINVAL;
    }
};

} // namespace rawqp::test
