// SPDX-License-Identifier: BSD-3-Clause
// Indirect actions of rte_flow: made once, used by many rules, changed for all of them together.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/ethdev/flow/age.hpp"
#include "drivers/net/rawqp/ethdev/ref.hpp"
#include "drivers/net/rawqp/ethdev/rss_state.hpp"
#include "drivers/net/rawqp/ethdev/steering/flow_counter.hpp"

#include <map>
#include <vector>

namespace rawqp {

/// The configuration of action rss with all that it points to.
class RssConf {
  public:
    explicit RssConf(const rte_flow_action_rss& conf);
    RssConf(const RssConf&) = delete;
    RssConf& operator=(const RssConf&) = delete;
    [[nodiscard]] const rte_flow_action_rss& get() const { return conf_; }

  private:
    rte_flow_action_rss conf_;
    std::vector<uint16_t> queues_;
    std::vector<uint8_t> key_;
};

using SharedActionRef = Ref<rte_flow_action_handle>;

} // namespace rawqp

/// What the application holds a pointer to; the rules that use it share it. The declaration belongs
/// to DPDK, hence no namespace.
struct rte_flow_action_handle {
    const char* name;
    rte_flow_indir_action_conf directions; ///< of the rules that may use it
    /// The action that represents it in a rule.
    rte_flow_action action;
    std::unique_ptr<rawqp::RssConf> rss; ///< of action rss
    rawqp::CounterRef counter;           ///< of action count
    rawqp::AgeRef age;                   ///< of action age
    rte_flow_action_age age_conf;        ///< that it was made with
};

namespace rawqp {

/// The indirect actions of a port.
class SharedActions {
  public:
    void add(SharedActionRef action) {
        const rte_flow_action_handle* const handle = action.get();
        actions_.emplace(handle, std::move(action));
    }
    void erase(const rte_flow_action_handle* handle) { actions_.erase(handle); }
    [[nodiscard]] size_t size() const { return actions_.size(); }
    /// A handle may be stale: it is compared, not dereferenced. Null: there is no such action.
    [[nodiscard]] SharedActionRef find(const rte_flow_action_handle* handle) const {
        const auto at = actions_.find(handle);
        return at != actions_.end() ? at->second : nullptr;
    }

  private:
    std::map<const rte_flow_action_handle*, SharedActionRef> actions_;
};

/// Whether rules use it, besides the `known` references that the caller has.
[[nodiscard]] bool in_use(const SharedActionRef& action, size_t known);

} // namespace rawqp
