// SPDX-License-Identifier: BSD-3-Clause
// An rte_flow rule as the driver keeps it: one piece of memory, whatever the rule is made of
// (except what it changes in packets and what it shares with other rules). With one part and few
// values it is 272 bytes: a rule costs what has to be written for it.
#pragma once

#include "drivers/net/rawqp/ethdev/flow/actions.hpp"
#include "drivers/net/rawqp/ethdev/flow/error.hpp"
#include "drivers/net/rawqp/ethdev/flow/level_map.hpp"
#include "drivers/net/rawqp/ethdev/flow/pattern_mask.hpp"
#include "drivers/net/rawqp/ethdev/flow/port_guard.hpp"
#include "drivers/net/rawqp/ethdev/flow/short_list.hpp"
#include "drivers/net/rawqp/ethdev/flow/stages.hpp"
#include "drivers/net/rawqp/ethdev/steering/steering.hpp"

#include <memory>
#include <string>

namespace rawqp {

/// A rule of the device before it has a place to be kept.
struct PlannedPart {
    TrafficClass traffic = TrafficClass::other;
    Pattern pattern;
    RssTargetRef target;            ///< null for egress, jumps and to the kernel
    bool whole = true;              ///< the rule's own pattern; else a class of it, made for RSS
    const Engine* engine = nullptr; ///< see SteeringRequest
};

/// Which packets a rule is for, and when it is tried.
struct RulePosition {
    uint32_t group = 0;
    uint32_t priority = 0;
    bool egress = false;

    bool operator==(const RulePosition&) const = default;
    /// Whether the rule shares the device's levels with the port's filters.
    [[nodiscard]] bool has_levels() const { return group == 0 && !egress; }
};

/// What all parts of a rule have in common.
struct RuleTerms : RulePosition {
    bool drop = false;
    bool counts = false; ///< the application may ask what the counter says
    bool jumps : 1 = false;
    bool passes : 1 = false;        ///< on to the rules of lower priority
    bool to_kernel : 1 = false;     ///< past all other rules and the port's filters
    bool one_level : 1 = false;     ///< for parts of several depths: a table tells them apart
    bool counts_passed : 1 = false; ///< what the meter lets pass: it is before the count
    uint32_t tag = 0;               ///< flow tag of mark or flag; 0: none
    SharedEdits edits;              ///< null: none
    CounterRef counter;             ///< null: none
    AgeRef age;                     ///< by this counter; null: none
    SampleRef sample;               ///< null: none
    MeterRef meter;                 ///< null: none
    SharedActionRef rss;            ///< indirect action that spreads its packets; null: none
    ReservationsRef ports;          ///< ports that the kernel gives to nobody; null: none
    uint32_t jump = 0;              ///< to this group, if it jumps

    /// Whether its packets might have been the kernel's.
    [[nodiscard]] bool takes_from_kernel() const { return !egress && !to_kernel; }
    /// Whether the counter counts the copies of its sample: it is queried as the rule's, too.
    [[nodiscard]] bool counts_copies() const {
        return sample && sample->counter && !sample->counter->shared();
    }
    /// Fills in what the parts have in common: everything but pattern, target, engine and level.
    void fill(SteeringRequest& request) const;
};

/// A rule as translated, of which the device knows nothing.
struct Plan : RuleTerms {
    const rte_flow_attr* attr = nullptr; ///< the application's, to name in refusals; or null
    NamedActions named;                  ///< likewise
    ShortList<PlannedPart> parts;        ///< most specific class first

    [[nodiscard]] std::vector<Pattern> whole_patterns() const;
};

/// One rule of the device, in the memory of the rule that it is a part of.
struct RulePart {
    rte_flow* rule;
    uint32_t hash;      ///< of what distinguishes it from others
    uint16_t values_at; ///< words from this part on
    TrafficClass traffic;
    bool whole : 1; ///< see PlannedPart
    bool turn : 1;  ///< see RulePlace
    PatternMaskRef mask;
    RssTargetRef target;
    const Engine* engine;   ///< see SteeringRequest
    UseRef use;             ///< of a PlaceRef, by an ingress rule of group 0; else of a stage
    SteeringRule installed; ///< while the port runs

    /// A copy of another part or of a planned one.
    template <class Like>
    RulePart(rte_flow& of, const Like& like, PatternMaskRef its_mask, size_t its_values_at)
        : rule(&of), hash(0), values_at(static_cast<uint16_t>(its_values_at / PatternMask::kWord)),
          traffic(like.traffic), whole(like.whole), turn(false), mask(std::move(its_mask)),
          target(like.target), engine(like.engine) {}
    [[nodiscard]] std::span<const uint8_t> values() const {
        return {reinterpret_cast<const uint8_t*>(this) + values_at * PatternMask::kWord,
                mask->bytes()};
    }
    [[nodiscard]] Pattern pattern() const;
    /// See SteeringRequest.
    [[nodiscard]] std::optional<uint16_t> class_depth() const;
    [[nodiscard]] uint8_t stage() const;
    /// Whether the device cannot tell them apart: position and pattern are the same.
    [[nodiscard]] bool matches_like(const RulePart& other) const;
};

/// Position and pattern as bytes.
[[nodiscard]] std::string key_of(const RulePosition& position, const Pattern& pattern);

/// The owner to which the memory of a rule is returned.
class RuleMemory {
  public:
    virtual ~RuleMemory() = default;
    virtual void release(void* memory, size_t bytes) = 0;
};

struct DestroyRule {
    void operator()(rte_flow* rule) const;
};

} // namespace rawqp

/// What the application holds a pointer to. The declaration belongs to DPDK, hence no namespace.
struct rte_flow : rawqp::RuleTerms {
    /// The memory holds the parts and their values as well.
    [[nodiscard]] static rte_flow* make(const rawqp::Plan& plan, rawqp::PatternMasks& masks);
    /// A rule with the model's terms and parts, in somebody else's memory, of as many bytes; the
    /// caller calls hash().
    [[nodiscard]] static rte_flow* make(const rte_flow& model, void* memory,
                                        rawqp::RuleMemory& owner);
    [[nodiscard]] size_t bytes() const { return words_ * rawqp::PatternMask::kWord; }
    /// Adds bits of a layer's bytes to the values of a part.
    void add_values(size_t part, std::span<const rawqp::PatternMask::Source> sources,
                    const uint8_t* layer);
    void hash();
    static void destroy(rte_flow* rule);
    /// From now on does what the other one does, with the other one's parts. Its own are removed
    /// from the device, where those of the other one may be already.
    void become(std::unique_ptr<rte_flow, rawqp::DestroyRule> other);

    rte_flow(const rte_flow&) = delete;
    rte_flow& operator=(const rte_flow&) = delete;

    [[nodiscard]] std::span<rawqp::RulePart> parts() {
        rte_flow* const keeper = donor_ ? donor_.get() : this;
        return {reinterpret_cast<rawqp::RulePart*>(keeper + 1), part_count_};
    }
    [[nodiscard]] std::span<const rawqp::RulePart> parts() const {
        return const_cast<rte_flow*>(this)->parts();
    }
    /// Its patterns, without those made for RSS.
    [[nodiscard]] std::vector<rawqp::Pattern> whole_patterns() const;
    /// Whether its parts must be at device levels in the order of their depths.
    [[nodiscard]] bool ranked() const;
    /// One line for each rule of the device, for people.
    [[nodiscard]] std::string text();

  private:
    /// The parts are added afterwards.
    rte_flow(const rawqp::RuleTerms& terms, size_t bytes, rawqp::RuleMemory* owner)
        : rawqp::RuleTerms(terms), words_(static_cast<uint16_t>(bytes / rawqp::PatternMask::kWord)),
          owner_(owner) {}
    ~rte_flow() = default;
    /// Returns where the values are to be written.
    template <class Like>
    uint8_t* add(const Like& like, rawqp::PatternMaskRef mask, uint8_t* values);

    uint16_t part_count_ = 0;
    uint16_t words_;           ///< of its own memory
    rawqp::RuleMemory* owner_; ///< null: the heap
    /// The rule whose memory holds the parts, if not its own.
    std::unique_ptr<rte_flow, rawqp::DestroyRule> donor_;

  public:
    rte_flow *before = nullptr, *after = nullptr; ///< in order of creation
};

namespace rawqp {

/// The request to the device, for one part after the other: among parts with the same mask, only
/// the values are rewritten.
class RuleRequest {
  public:
    /// Valid until the next call.
    [[nodiscard]] const SteeringRequest& of(const RulePart& part, uint16_t level);
    /// Drops the references to what the part shares with others.
    void let_go() {
        request_.edits = nullptr;
        request_.counter = nullptr;
        request_.sample = nullptr;
        request_.meter = nullptr;
        request_.target = nullptr;
    }

  private:
    SteeringRequest request_;
    PatternMaskRef mask_; ///< of the pattern
};

using OwnedRule = std::unique_ptr<rte_flow, DestroyRule>;

} // namespace rawqp
