// SPDX-License-Identifier: BSD-3-Clause
// An rte_flow rule as the driver keeps it: one piece of memory, whatever the rule is made of (what
// it changes in packets is beside it).
#pragma once

#include "drivers/net/rawqp/ethdev/flow/actions.hpp"
#include "drivers/net/rawqp/ethdev/flow/error.hpp"
#include "drivers/net/rawqp/ethdev/flow/level_map.hpp"
#include "drivers/net/rawqp/ethdev/flow/port_guard.hpp"
#include "drivers/net/rawqp/ethdev/flow/short_list.hpp"
#include "drivers/net/rawqp/ethdev/steering/steering.hpp"

#include <memory>
#include <string_view>

namespace rawqp {

/// A rule of the device before it has a place to be kept in.
struct PlannedPart {
    TrafficClass traffic = TrafficClass::other;
    Pattern pattern;
    RssTargetRef target;            ///< null for egress and jumps
    bool whole = true;              ///< the rule's own pattern; else a class of it, made for RSS
    const Engine* engine = nullptr; ///< see SteeringRequest
};

/// Whose packets a rule is for, and when it is tried.
struct RulePosition {
    uint32_t group = 0;
    uint32_t priority = 0;
    bool egress = false;

    /// Whether the rule shares the device's levels with the port's filters.
    [[nodiscard]] bool has_levels() const { return group == 0 && !egress; }
};

/// What all parts of a rule have in common.
struct RuleTerms : RulePosition {
    uint32_t tag = 0; ///< flow tag of mark or flag; 0: none
    bool drop = false;
    std::optional<uint32_t> jump; ///< to this group
    SharedEdits edits;            ///< null: none
    CounterRef counter;           ///< null: none
    bool counts = false;          ///< the application may ask for it
    AgeRef age;                   ///< by this counter; null: none
    SampleRef sample;             ///< null: none
    MeterRef meter;               ///< null: none
    SharedActionRef rss;          ///< the indirect action that spreads its packets; null: none
    ReservationsRef ports;        ///< that the kernel gives to nobody; null: none

    /// What the device is asked for each part, without pattern and target.
    [[nodiscard]] SteeringRequest request(uint16_t level) const;
};

/// A rule as translated, of which the device knows nothing.
struct Plan : RuleTerms {
    const rte_flow_action* count = nullptr; ///< the action that needs a counter, if there is one
    ShortList<PlannedPart> parts;           ///< most specific class first
};

/// One rule of the device, in the memory of the rule that it is a part of.
struct RulePart {
    rte_flow* rule;
    std::string_view key; ///< position and pattern: equal ones the device could not tell apart
    uint64_t hash;        ///< of the key
    TrafficClass traffic;
    RssTargetRef target;
    bool whole;             ///< see PlannedPart
    uint8_t turn = 0;       ///< see RulePlace
    const Engine* engine;   ///< see SteeringRequest
    PlaceRef place;         ///< of an ingress rule that is kept
    SteeringRule installed; ///< while the port runs
};

/// The bytes that a key is made of.
[[nodiscard]] std::string key_of(const RulePosition& position, const Pattern& pattern);
/// The pattern of such a key.
[[nodiscard]] Pattern pattern_of(std::string_view key);
[[nodiscard]] uint64_t hash_of(std::string_view key);

/// Where in the key the values of the pattern's layers are.
[[nodiscard]] std::vector<size_t> value_places(const Pattern& pattern);

/// Who gets the memory of a rule back.
class RuleMemory {
  public:
    virtual ~RuleMemory() = default;
    virtual void release(void* memory) = 0;
};

struct DestroyRule {
    void operator()(rte_flow* rule) const;
};

} // namespace rawqp

/// What the application holds a pointer to. The declaration belongs to DPDK, hence no namespace.
struct rte_flow : rawqp::RuleTerms {
    rte_flow *before = nullptr, *after = nullptr; ///< in order of creation

    /// The memory holds the parts and their keys as well.
    [[nodiscard]] static rte_flow* make(const rawqp::Plan& plan);
    /// A rule of these terms with the parts of the model, in memory of somebody else, of as many
    /// bytes; hash_keys() is up to the caller.
    [[nodiscard]] static rte_flow* make(rawqp::RuleTerms terms, const rte_flow& model, void* memory,
                                        rawqp::RuleMemory* owner);
    [[nodiscard]] size_t bytes() const;
    /// Sets bits of a key, which has room for all of them.
    void add_to_key(size_t part, size_t at, const rawqp::LayerBytes& bits, size_t bytes);
    void hash_keys();
    static void destroy(rte_flow* rule);
    /// Does from now on what the other one does, with its parts. Its own are taken out of the
    /// device, where those of the other one may be already.
    void become(std::unique_ptr<rte_flow, rawqp::DestroyRule> other);

    rte_flow(const rte_flow&) = delete;
    rte_flow& operator=(const rte_flow&) = delete;

    [[nodiscard]] std::span<rawqp::RulePart> parts() { return {parts_, part_count_}; }
    [[nodiscard]] std::span<const rawqp::RulePart> parts() const { return {parts_, part_count_}; }
    /// Its own patterns, without those made for RSS.
    [[nodiscard]] std::vector<rawqp::Pattern> whole_patterns() const;
    /// One line for each rule of the device, for people.
    [[nodiscard]] std::string text();
    [[nodiscard]] rawqp::SteeringRequest request(const rawqp::RulePart& part, uint16_t level) const;

  private:
    /// The parts come then.
    rte_flow(rawqp::RuleTerms terms, rawqp::RuleMemory* owner)
        : rawqp::RuleTerms(std::move(terms)), owner_(owner) {}
    ~rte_flow() = default;
    template <class Like> void add(const Like& like, const char* key, const char* key_end);

    rawqp::RulePart* parts_ = nullptr;
    uint16_t part_count_ = 0;
    rawqp::RuleMemory* owner_ = nullptr; ///< null: the heap
    /// In whose memory the parts are, if not in its own.
    std::unique_ptr<rte_flow, rawqp::DestroyRule> donor_;
};

namespace rawqp {
using OwnedRule = std::unique_ptr<rte_flow, DestroyRule>;
} // namespace rawqp
