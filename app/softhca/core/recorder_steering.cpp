// SPDX-License-Identifier: BSD-3-Clause
// Continues recorder.cpp: the way through rules, tables and TIRs.
#include "app/softhca/core/describe.hpp"
#include "app/softhca/core/meters.hpp"
#include "app/softhca/core/recorder.hpp"
#include "app/softhca/core/rss.hpp"
#include "app/softhca/core/ste/entry.hpp"

#include <fmt/format.h>
#include <limits>

namespace softhca::core {
namespace {

/// How the packet differs from a rule, under the rule's mask.
std::string difference(const FlowKey& packet, const FlowKey& rule, const KeyMask& mask) {
    const FlowKey bits = mask.as_key();
    const FieldTexts is = describe_fields(mask.apply(packet), bits);
    const FieldTexts wanted = describe_fields(rule, bits);
    std::vector<std::string> parts;
    for (size_t i = 0; i < is.size(); i++)
        if (is[i].second != wanted[i].second)
            parts.push_back(
                fmt::format("{} is {}, not {}", is[i].first, is[i].second, wanted[i].second));
    return fmt::format("{}", fmt::join(parts, ", "));
}

/// Why no rule of the table matches, shown by the nearest one. Only as many rules are compared as
/// do not hold the device up for long.
template <class Name>
std::string why_missed(const RuleTable& table, const FlowKey& key, Name&& name) {
    constexpr size_t kMost = 4096;
    const Rule* nearest = nullptr;
    size_t fewest = std::numeric_limits<size_t>::max();
    size_t rules = 0;
    table.for_each([&](const Rule& rule) {
        if (rules++ >= kMost) return;
        const size_t bits = table.mask().differing_bits(key, rule.value);
        if (bits >= fewest) return;
        fewest = bits;
        nearest = &rule;
    });
    if (!nearest) return "it is empty";
    const std::string why = difference(key, nearest->value, table.mask());
    if (rules == 1) return fmt::format("{} misses: {}", name(*nearest), why);
    const std::string among = rules > kMost ? fmt::format(" of {} of them", kMost) : "";
    return fmt::format("none of {} matches; nearest{} is {}: {}", rules, among, name(*nearest),
                       why);
}

std::string name_of(const Rule& rule) {
    std::vector<Number> numbers;
    for (const Flow* const flow : rule.flows)
        numbers.push_back(flow->number);
    return fmt::format("rule {}", fmt::join(numbers, "+"));
}

std::string name_of_entry(const Rule& rule) {
    return fmt::format("entry {}", static_cast<const FlowEntry*>(rule.entry)->index);
}

std::string match_of(const RuleTable& table, const Rule& rule) {
    const std::string match = joined(describe_fields(rule.value, table.mask().as_key()));
    return match.empty() ? "any packet" : match;
}

template <class T>
void add_numbers(std::vector<std::string>& to, const char* what, const std::vector<T*>& objects) {
    for (const T* const object : objects)
        to.push_back(fmt::format("{} {}", what, object->number));
}

std::string hash_of(const Tir& tir, const Target& target) {
    const std::pair<uint8_t, const char*> known[] = {{kHashSrcIp, "source IP"},
                                                     {kHashDstIp, "destination IP"},
                                                     {kHashSrcPort, "source port"},
                                                     {kHashDstPort, "destination port"},
                                                     {kHashSpi, "SPI"}};
    std::vector<const char*> hashed;
    for (const auto& [bit, name] : known)
        if (target.hash_type & bit) hashed.push_back(name);
    if (!tir.toeplitz) return "hashes nothing";
    if (hashed.empty()) return "has nothing to hash in it";
    return fmt::format("hash of {}{}: {:#x}", fmt::join(hashed, ", "),
                       target.inner && tir.hash_inner ? " in the tunnel" : "", target.hash);
}

} // namespace

void Recorder::asked(FlowDomain domain, const RuleTable& table, const FlowKey& key,
                     const Rule* rule) {
    if (!steps_ || !is_open()) return;
    const std::string text =
        rule ? fmt::format("{} matches: {}", name_of(*rule), match_of(table, *rule))
             : why_missed(table, key, [](const Rule& one) { return name_of(one); });
    say("rules", fmt::format("{}, priority {}: {}", text_of(domain), table.priority(), text));
}

void Recorder::asked(const FlowTable& table, const FlowGroup& group, const FlowKey& key,
                     const Rule* rule) {
    if (!steps_ || !is_open()) return;
    const std::string text =
        rule ? fmt::format("{} matches: {}", name_of_entry(*rule), match_of(group.rules, *rule))
             : why_missed(group.rules, key, name_of_entry);
    say("table",
        fmt::format("{} (level {}), group {}: {}", table.number, table.level, group.number, text));
}

void Recorder::missed(const FlowTable& table) {
    if (table.miss)
        say("table", fmt::format("{} has no entry for it: goes to table {}", table.number,
                                 table.miss->number));
    else
        say("table", fmt::format("{} has no entry for it", table.number));
}

void Recorder::walks(const FlowTable& table) {
    say("table", fmt::format("{} (level {}): the program's own entries, from {:#x} on",
                             table.number, table.level, table.icm_root));
}

void Recorder::no_entry(uint64_t address) {
    say("STE", fmt::format("{:#x} is no entry: dropped", address));
}

void Recorder::compared(uint64_t address, const ste::Entry& entry, std::span<const std::byte> seen,
                        bool hit) {
    if (!steps_ || !is_open()) return;
    if (hit) return say("STE", fmt::format("{:#x}: hit", address));
    const std::span mask(entry.mask), tag(entry.tag);
    say("STE", fmt::format("{:#x}: miss, lookup {:#04x} sees {}, under mask {} wanted {}", address,
                           entry.lookup, hex(seen), hex(mask.first(seen.size())),
                           hex(tag.first(seen.size()))));
}

void Recorder::arrived(const ste::Destination& to) {
    switch (to.place) {
    case ste::Place::nothing: say("STE", "leads nowhere: dropped"); break;
    case ste::Place::drop: say("STE", "to the drop address"); break;
    case ste::Place::send: say("STE", "to the allow address: send"); break;
    case ste::Place::tir: say("STE", fmt::format("to TIR {}", to.number)); break;
    case ste::Place::flow_table: say("STE", fmt::format("to table {}", to.number)); break;
    case ste::Place::sampler: say("STE", fmt::format("to sampler {}", to.number)); break;
    }
}

void Recorder::follows(const FlowActions& actions) {
    if (!steps_ || !is_open()) return;
    std::vector<std::string> parts;
    add_numbers(parts, "count in", actions.counters);
    if (actions.tag) parts.push_back(fmt::format("tag {:#x}", *actions.tag));
    for (const Metering& one : actions.metering)
        parts.push_back(describe_metering(one));
    if (actions.drop) parts.emplace_back("drop");
    if (actions.rewrite.any()) parts.push_back(describe_rewrite(actions.rewrite));
    add_numbers(parts, "to TIR", actions.tirs);
    add_numbers(parts, "to table", actions.tables);
    add_numbers(parts, "to sampler", actions.samplers);
    if (actions.send) parts.emplace_back("send");
    if (actions.pass_on) parts.emplace_back("and on to later priorities");
    if (actions.default_miss) parts.emplace_back("default miss: on to what comes after the rules");
    say("actions", fmt::format("{}", fmt::join(parts, ", ")));
}

void Recorder::sampled(const Sampler& sampler, bool copies) {
    if (!steps_ || !is_open()) return;
    const std::string copy =
        copies ? fmt::format("a copy goes to table {}", sampler.copies->number) : "no copy of it";
    say("sampler", fmt::format("{} (1 of {}): {}; it goes to table {}", sampler.number,
                               sampler.ratio, copy, sampler.all->number));
}

void Recorder::metered(const Metering& metering, Color color) {
    if (!steps_ || !is_open()) return;
    say("meter",
        fmt::format("{} of pair {}: {}", metering.meter, metering.pair->number, text_of(color)));
}

void Recorder::changed(const Packet& packet) {
    if (!steps_ || !is_open()) return;
    say("actions",
        fmt::format("it is {} bytes now: {}", packet.bytes(), describe_packet(packet.key())));
}

void Recorder::deaf(const Tir& tir) {
    say("TIR", fmt::format("{} does not hear its own transport domain", tir.number));
}

void Recorder::targeted(const Tir& tir, const Target& target) {
    if (!steps_ || !is_open()) return;
    std::string way = fmt::format("{} {}", tir.number, hash_of(tir, target));
    if (tir.rqt)
        way += fmt::format("; entry {} of {} in RQT {}", entry_of(*tir.rqt, target.hash),
                           tir.rqt->entries.size(), tir.rqt->number);
    say("TIR", fmt::format("{}: RQ {}", way, target.rq->number));
}

} // namespace softhca::core
