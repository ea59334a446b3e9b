// SPDX-License-Identifier: BSD-3-Clause
// Which rule takes a packet: tuple space search, one RuleTable per (domain, priority, mask).
#pragma once

#include "app/softhca/core/no_watch.hpp"
#include "app/softhca/core/rule_table.hpp"

#include <array>
#include <memory>
#include <vector>

namespace softhca::core {

/// Lookup cost grows with the number of different masks in a domain. Used with the device locked.
class Steering {
  public:
    /// `flow` must not move until erase(). Refuses (exists) a flow that contradicts an equal one:
    /// another tag, other changes, or two of drop, forward, pass on and default miss at once.
    [[nodiscard]] Outcome<void> insert(const Flow& flow);
    void erase(const Flow& flow);

    /// The packet's key, with as much as the rules need.
    [[nodiscard]] const FlowKey& key_of(const Packet& packet) const {
        return asks_integrity_ ? packet.verified_key() : packet.key();
    }
    /// Whether rules may tell this packet from others of its flow by their numbers.
    [[nodiscard]] bool asks_numbers_of(const Packet& packet) const {
        return asks_numbers_ && packet.key().outer.l4 == net::kProtoTcp;
    }
    /// The matching rule of the highest priority (lowest number); among equal priorities, the one
    /// whose mask has been in use for longer. Null when none matches.
    template <class W = NoWatch>
    [[nodiscard]] const Rule* match(FlowDomain domain, const FlowKey& key, W watch = {}) const {
        for (const auto& table : tables(domain)) {
            const Rule* const rule = table->find(key);
            watch.asked(domain, *table, key, rule);
            if (rule) return rule;
        }
        return nullptr;
    }
    /// The bypass rule that takes the packet, or null. `copies` gets the earlier rules that receive
    /// a copy and pass the packet on to the priorities after theirs, and then the one, if any, that
    /// passes it on to what comes after all of them.
    template <class W = NoWatch>
    [[nodiscard]] const Rule* match(const FlowKey& key, std::vector<const Rule*>& copies,
                                    W watch = {}) const {
        uint32_t first_priority = 0;
        for (const auto& table : tables(FlowDomain::bypass)) {
            if (table->priority() < first_priority) continue;
            const Rule* const rule = table->find(key);
            watch.asked(FlowDomain::bypass, *table, key, rule);
            if (!rule) continue;
            if (!rule->pass_on && !rule->default_miss) return rule;
            copies.push_back(rule);
            if (rule->default_miss) return nullptr;
            first_priority = table->priority() + 1u;
        }
        return nullptr;
    }
    [[nodiscard]] bool has(FlowDomain domain) const { return !tables(domain).empty(); }
    /// Calls `use(const Rule&)` for every sniffer rule that matches.
    template <class W, class Use>
    void for_each_sniffer(const FlowKey& key, W watch, Use&& use) const {
        for (const auto& table : tables(FlowDomain::sniffer)) {
            const Rule* const rule = table->find(key);
            watch.asked(FlowDomain::sniffer, *table, key, rule);
            if (rule) use(*rule);
        }
    }

    /// Calls `use(const Rule&, const RuleTable&)` for all rules of a domain, in the order in which
    /// they see packets.
    template <class Use> void for_each_rule(FlowDomain domain, Use&& use) const {
        for (const auto& table : tables(domain))
            table->for_each([&](const Rule& rule) { use(rule, *table); });
    }

    /// Counts all lookups so far.
    [[nodiscard]] LookupCounts counts() const;

  private:
    using Tables = std::vector<std::unique_ptr<RuleTable>>; // by priority, then by age

    [[nodiscard]] const Tables& tables(FlowDomain domain) const {
        return domains_[static_cast<size_t>(domain)];
    }
    [[nodiscard]] Tables::iterator find_table(const Flow& flow);
    void look_at_masks();

    std::array<Tables, 4> domains_;
    bool asks_integrity_ = false, asks_numbers_ = false;
    LookupCounts gone_; ///< of tables that are gone
};

} // namespace softhca::core
