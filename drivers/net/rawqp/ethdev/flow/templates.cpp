// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/templates.hpp"

#include "drivers/net/rawqp/ethdev/flow/edit_targets.hpp"
#include "drivers/net/rawqp/ethdev/flow/items.hpp"
#include "drivers/net/rawqp/ethdev/names.hpp"

#include <algorithm>
#include <utility>

namespace rawqp {

namespace {

/// Specs of template items are not looked at.
constexpr std::array<std::max_align_t, 16> kZeros{};

template <class Entry>
FlowResult<CopiedList<Entry>> copy(rte_flow_conv_op operation, const Entry* from) {
    CopiedList<Entry> list;
    rte_flow_error error{};
    const int bytes = rte_flow_conv(operation, nullptr, 0, from, &error);
    if (bytes >= 0) {
        list.memory.resize((static_cast<size_t>(bytes) + 7) / 8);
        rte_flow_conv(operation, list.memory.data(), list.memory.size() * 8, from, &error);
        while (list.entries()[list.count].type != 0) // both END are 0
            ++list.count;
        return list;
    }
    return refuse(-bytes, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                  "the template cannot be copied: {}",
                  error.message != nullptr ? error.message : "an unknown item or action");
}

/// Copies what rte_flow_conv leaves in the application's memory: the header of a raw_encap, which
/// may be gone when a table is made, and the value that a modify_field points to.
void copy_data(const rte_flow_action& copied, rte_flow_actions_template& made) {
    void* const conf = const_cast<void*>(copied.conf);
    if (conf == nullptr) return;
    if (copied.type == RTE_FLOW_ACTION_TYPE_MODIFY_FIELD)
        take_value(*static_cast<rte_flow_action_modify_field*>(conf));
    if (copied.type != RTE_FLOW_ACTION_TYPE_RAW_ENCAP) return;
    auto& header = *static_cast<rte_flow_action_raw_encap*>(conf);
    if (header.data == nullptr || header.size > kMostHeaderBytes) return; // tables are refused
    header.data = made.headers.emplace_back(header.data, header.data + header.size).data();
}

/// The first field of the item whose value decides how the pattern is read.
const char* deciding_field(const ItemKind& kind, const rte_flow_item& item) {
    rte_flow_item probe = item;
    probe.spec = probe.mask; // all ones that matter
    const auto asked = read_item(kind, probe);
    if (!asked) return nullptr;
    const auto asks = [&](uint16_t bit, uint16_t bits) { return any_bit(asked->mask, bit, bits); };
    constexpr uint16_t kFragmentOffset = 48;
    switch (kind.protocol) {
    case Protocol::eth:
        if (asks(96, 16)) return "type";
        break;
    case Protocol::vlan:
        if (asks(16, 16)) return "inner_type";
        break;
    case Protocol::ipv4:
        if (asks(kFragmentOffset, 16)) return "fragment_offset";
        break;
    default: break;
    }
    return asks(kFirstFlag, 8) ? "has_…" : nullptr;
}

/// The first field of the item whose value decides whether the header of `next` can follow.
const char* decided_field(const ItemKind& kind, const rte_flow_item& item,
                          const rte_flow_item& next) {
    const auto upper = known_kind(next);
    rte_flow_item probe = item;
    probe.spec = probe.mask;
    const auto asked = read_item(kind, probe);
    if (!upper || !asked) return nullptr;
    const auto same = [](Protocol placed, Protocol protocol) { // whatever place it has
        return std::string_view(traits_of(placed).name) == traits_of(protocol).name;
    };
    for (const Binding& binding : bindings()) {
        if (!same(binding.lower, kind.protocol) || !same(binding.upper, (*upper)->protocol))
            continue;
        if (!any_bit(asked->mask, binding.bit, binding.bits)) continue;
        for (const Field& field : fields_of(binding.lower))
            if (field.bit <= binding.bit && binding.bit < field.bit + field.bits) return field.name;
    }
    return nullptr;
}

/// Removes a last that asks for no range, and refuses others: rules give values.
FlowResult<void> remove_last(rte_flow_item& item, const rte_flow_item& theirs) {
    const ItemKind* const kind = kind_of(item.type);
    if (item.last == nullptr || kind == nullptr) return {}; // the translator knows the others
    rte_flow_item probe = item;
    if (probe.spec == nullptr) probe.spec = kZeros.data();
    const auto asked = read_item(*kind, probe);
    if (!asked) {
        FlowError error = asked.error();
        error.cause = &theirs;
        return tl::unexpected(std::move(error));
    }
    for (const Field& field : fields_of(kind->protocol))
        if (asks_for_range(*asked, field))
            return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM_LAST, &theirs,
                          "item {}: range on field {}: rules of a template give a value, which the "
                          "device compares by the template's mask: leave last out, or create rules "
                          "with ranges by rte_flow_create",
                          item_name(item.type), field.name);
    item.last = nullptr;
    return {};
}

FlowResult<void> check_item(rte_flow_item& item, const rte_flow_item& next,
                            const rte_flow_item& theirs) {
    if (auto ok = remove_last(item, theirs); !ok) return ok;
    if (item.type == RTE_FLOW_ITEM_TYPE_TAG && item.spec != nullptr && item.mask != nullptr)
        const_cast<rte_flow_item_tag*>(static_cast<const rte_flow_item_tag*>(item.spec))->data = 0;
    else
        item.spec = item.mask != nullptr ? kZeros.data() : nullptr;
    if (item.mask == nullptr || item.type == RTE_FLOW_ITEM_TYPE_VOID) return {};
    const auto kind = known_kind(item);
    if (!kind) return {}; // the translator says so
    if (const char* const field = decided_field(**kind, item, next); field != nullptr)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM_MASK, &theirs,
                      "item {}: item {} after it decides field {}, which cannot be a rule's value: "
                      "clear its mask",
                      item_name(item.type), item_name(next.type), field);
    const char* const field = deciding_field(**kind, item);
    if (field == nullptr) return {};
    return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM_MASK, &theirs,
                  "item {}: field {} decides how a pattern is read, and cannot be a rule's value: "
                  "clear its mask and name headers by items",
                  item_name(item.type), field);
}

/// Relaxed matching skips items without a mask, and each item asks for its header here: refuses
/// those where that is a condition. Every packet has an outermost Ethernet header.
FlowResult<void> check_relaxed(const rte_flow_item* items) {
    bool outermost = true;
    for (; items->type != RTE_FLOW_ITEM_TYPE_END; ++items) {
        if (items->type == RTE_FLOW_ITEM_TYPE_VOID) continue;
        const bool ethernet =
            std::exchange(outermost, false) && items->type == RTE_FLOW_ITEM_TYPE_ETH;
        if (items->mask == nullptr && !ethernet)
            return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM, items,
                          "item {}: relaxed matching would skip it, as it has no mask, but the "
                          "device finds headers by those before them: leave relaxed_matching 0",
                          item_name(items->type));
    }
    return {};
}

/// Whether a mask has any bit set.
bool masks_something(const rte_flow_action& mask) {
    if (mask.conf == nullptr) return false;
    std::array<std::max_align_t, 64> copied{};
    rte_flow_error error{};
    const int bytes = rte_flow_conv(RTE_FLOW_CONV_OP_ACTION, &copied, sizeof copied, &mask, &error);
    const auto* const conf = reinterpret_cast<const rte_flow_action*>(copied.data())->conf;
    if (bytes < 0 || static_cast<size_t>(bytes) > sizeof copied || conf == nullptr) return true;
    const std::span all(reinterpret_cast<const uint8_t*>(copied.data()), sizeof copied);
    return std::ranges::any_of(
        all.subspan(static_cast<size_t>(static_cast<const uint8_t*>(conf) - all.data())),
        [](uint8_t byte) { return byte != 0; });
}

/// Whether a mask says that the template's configuration holds for all rules.
bool is_fixed(const rte_flow_action& action, const rte_flow_action& mask) {
    constexpr auto kSet = [](uint8_t byte) { return byte != 0; };
    switch (action.type) {
    case RTE_FLOW_ACTION_TYPE_COUNT: return true; // its identifier means nothing to drivers
    case RTE_FLOW_ACTION_TYPE_INDIRECT: return mask.conf != nullptr;
    case RTE_FLOW_ACTION_TYPE_AGE: { // each rule may have its own context
        const auto* const conf = static_cast<const rte_flow_action_age*>(mask.conf);
        return conf != nullptr && conf->timeout != 0 && conf->context != nullptr;
    }
    case RTE_FLOW_ACTION_TYPE_RSS: {
        const auto* const conf = static_cast<const rte_flow_action_rss*>(mask.conf);
        return conf != nullptr && (conf->queue_num != 0 || conf->queue != nullptr);
    }
    case RTE_FLOW_ACTION_TYPE_MODIFY_FIELD: // what matters is its value
        return mask.conf != nullptr &&
               std::ranges::any_of(
                   static_cast<const rte_flow_action_modify_field*>(mask.conf)->src.value, kSet);
    case RTE_FLOW_ACTION_TYPE_QUEUE:
    case RTE_FLOW_ACTION_TYPE_MARK:
    case RTE_FLOW_ACTION_TYPE_JUMP: return masks_something(mask);
    default: return action.conf == nullptr || masks_something(mask);
    }
}

/// Refuses a mask that makes a configuration hold for all rules where the template has none.
FlowResult<void> check_fixed(const rte_flow_action& action) {
    constexpr rte_flow_action_type kWithConf[] = {
        RTE_FLOW_ACTION_TYPE_QUEUE, RTE_FLOW_ACTION_TYPE_RSS, RTE_FLOW_ACTION_TYPE_MARK,
        RTE_FLOW_ACTION_TYPE_JUMP};
    if (action.conf != nullptr || std::ranges::find(kWithConf, action.type) == std::end(kWithConf))
        return {};
    return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &action,
                  "action {}: by its mask all rules have the template's configuration, which is "
                  "missing: give it, or clear the mask",
                  action_name(action.type));
}

constexpr uint16_t kAnyQueue = 0;
constexpr uint32_t kAnyMark = 0, kAnyGroup = UINT32_MAX, kShortest = 1;

/// The types with which the device gets a rule for each class of packets, so that rules can choose
/// the hash.
constexpr uint64_t kAllClasses = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP;

template <class Conf> Conf copy_of(const void* conf) {
    return conf != nullptr ? *static_cast<const Conf*>(conf) : Conf{};
}

/// The template's part of a configuration, next to what rules give.
const rte_flow_action_rss* open_rss(const void* conf, const void* mask,
                                    rte_flow_actions_template& made) {
    made.rss_mask = copy_of<rte_flow_action_rss>(mask);
    made.rss = copy_of<rte_flow_action_rss>(conf); // also its level: it decides about the pattern
    if (made.rss_mask.func == RTE_ETH_HASH_FUNCTION_DEFAULT)
        made.rss.func = RTE_ETH_HASH_FUNCTION_DEFAULT;
    if (made.rss_mask.types == 0) made.rss.types = kAllClasses;
    if (made.rss_mask.key_len == 0) made.rss.key = nullptr;
    made.rss.queue = &kAnyQueue;
    made.rss.queue_num = 1;
    return &made.rss;
}
const rte_flow_action_age* open_age(const void* conf, const void* mask,
                                    rte_flow_actions_template& made) {
    made.age_mask = copy_of<rte_flow_action_age>(mask);
    made.age = copy_of<rte_flow_action_age>(conf);
    if (made.age_mask.timeout == 0) made.age.timeout = kShortest;
    return &made.age;
}

/// The template's placeholder for an action that rules give: its type is the mask's, as an indirect
/// action has its real type there. `conf`: its configuration, in the template's memory.
FlowResult<rte_flow_action> stand_in(const rte_flow_action& action, const rte_flow_action& mask,
                                     const void* conf, rte_flow_actions_template& made) {
    switch (action.type) {
    case RTE_FLOW_ACTION_TYPE_AGE: return rte_flow_action{action.type, &made.age};
    case RTE_FLOW_ACTION_TYPE_RSS:
        return rte_flow_action{action.type, open_rss(conf, mask.conf, made)};
    case RTE_FLOW_ACTION_TYPE_QUEUE: return rte_flow_action{action.type, &kAnyQueue};
    case RTE_FLOW_ACTION_TYPE_MARK: return rte_flow_action{action.type, &kAnyMark};
    case RTE_FLOW_ACTION_TYPE_JUMP: return rte_flow_action{action.type, &kAnyGroup};
    case RTE_FLOW_ACTION_TYPE_INDIRECT:
        if (mask.type == RTE_FLOW_ACTION_TYPE_COUNT) return rte_flow_action{mask.type, nullptr};
        if (mask.type == RTE_FLOW_ACTION_TYPE_AGE)
            return rte_flow_action{mask.type, open_age(nullptr, nullptr, made)};
        if (mask.type == RTE_FLOW_ACTION_TYPE_RSS)
            return rte_flow_action{mask.type, open_rss(nullptr, nullptr, made)};
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &action,
                      "action indirect: rules can give an rss, a count or an age, if the mask has "
                      "that type; or give the template the handle, and a mask");
    default: break;
    }
    return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &action,
                  "action {}: only queue, rss, mark, jump and age, and what is indirect, differ "
                  "from rule to rule: give the template its configuration, and a mask with bits "
                  "set",
                  action_name(action.type));
}

} // namespace

RuleSlots::RuleSlots(size_t count, size_t bytes)
    : count_(count), units_((bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t)),
      memory_(std::make_unique_for_overwrite<std::max_align_t[]>(count * units_)) {
    free_.reserve(count);
    for (size_t i = count; i-- > 0;)
        free_.push_back(&memory_[i * units_]);
}

void* RuleSlots::take() {
    if (free_.empty()) return nullptr;
    void* const slot = free_.back();
    free_.pop_back();
    return slot;
}

FlowResult<std::unique_ptr<rte_flow_pattern_template>>
make_pattern_template(const rte_flow_pattern_template_attr& attributes,
                      const rte_flow_item* items) {
    if (attributes.relaxed_matching != 0)
        if (auto ok = check_relaxed(items); !ok) return tl::unexpected(ok.error());
    auto list = copy(RTE_FLOW_CONV_OP_PATTERN, items);
    if (!list) return tl::unexpected(list.error());
    for (size_t i = 0; i < list->count; ++i) {
        const rte_flow_item* next = &items[i];
        do {
            next = next_item(next);
            if (auto ok = check_item(list->entries()[i], *next, items[i]); !ok)
                return tl::unexpected(ok.error());
        } while (next->type == RTE_FLOW_ITEM_TYPE_GRE_KEY); // GRE says what follows it
    }
    const auto is_tag = [](const rte_flow_item& item) {
        return item.type == RTE_FLOW_ITEM_TYPE_TAG;
    };
    if (std::ranges::count_if(std::span(list->entries(), list->count), is_tag) > 1)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM, items, "a template has one item tag");
    if (auto patterns = translate_pattern(list->entries(), attributes.egress != 0); !patterns) {
        FlowError error = patterns.error();
        const auto* const cause = static_cast<const rte_flow_item*>(error.cause);
        if (cause != nullptr) error.cause = items + (cause - list->entries());
        return tl::unexpected(std::move(error));
    }
    auto made = std::make_unique<rte_flow_pattern_template>();
    made->attributes = attributes;
    made->items = std::move(*list);
    return made;
}

FlowResult<std::unique_ptr<rte_flow_actions_template>>
make_actions_template(const rte_flow_actions_template_attr& attributes,
                      const rte_flow_action* actions, const rte_flow_action* masks) {
    auto list = copy(RTE_FLOW_CONV_OP_ACTIONS, actions);
    if (!list) return tl::unexpected(list.error());
    auto made = std::make_unique<rte_flow_actions_template>();
    for (size_t i = 0; i < list->count; ++i) {
        rte_flow_action& copied = list->entries()[i];
        const bool indirect = actions[i].type == RTE_FLOW_ACTION_TYPE_INDIRECT;
        if (masks[i].type != actions[i].type && !indirect)
            return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, &masks[i],
                          "the masks are not those of the actions: action {} stands at that of {}",
                          action_name(masks[i].type), action_name(actions[i].type));
        if (copied.type == RTE_FLOW_ACTION_TYPE_SAMPLE || copied.type == RTE_FLOW_ACTION_TYPE_METER)
            return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &actions[i],
                          "action {} is not for templates: each of its rules needs tables of its "
                          "own: use rte_flow_create",
                          action_name(copied.type));
        if (indirect) copied.conf = actions[i].conf; // a handle
        copy_data(copied, *made);
        if (copied.type == RTE_FLOW_ACTION_TYPE_AGE) open_age(copied.conf, masks[i].conf, *made);
        if (is_fixed(actions[i], masks[i])) {
            if (auto ok = check_fixed(actions[i]); !ok) return tl::unexpected(ok.error());
            continue;
        }
        const auto any = stand_in(actions[i], masks[i], copied.conf, *made);
        if (!any) return tl::unexpected(any.error());
        copied = *any;
        made->given.push_back({i, actions[i].type, any->type});
    }
    made->attributes = attributes;
    made->actions = std::move(*list);
    return made;
}

rte_flow_action_rss rss_of(const rte_flow_actions_template& from,
                           const rte_flow_action_rss& given) {
    rte_flow_action_rss rss = given;
    if (from.rss_mask.func != RTE_ETH_HASH_FUNCTION_DEFAULT) rss.func = from.rss.func;
    if (from.rss_mask.level != 0) rss.level = from.rss.level;
    if (from.rss_mask.types != 0) rss.types = from.rss.types;
    if (from.rss_mask.key_len != 0) {
        rss.key = from.rss.key;
        rss.key_len = from.rss.key_len;
    }
    return rss;
}

rte_flow_action_age age_of(const rte_flow_actions_template& from,
                           const rte_flow_action_age* given) {
    rte_flow_action_age age = given != nullptr ? *given : rte_flow_action_age{};
    if (from.age_mask.timeout != 0) age.timeout = from.age.timeout;
    if (from.age_mask.context != nullptr) age.context = from.age.context;
    return age;
}

FlowResult<std::vector<Recipe::Value>> values_of(const Plan& plan, const rte_flow& model,
                                                 const rte_flow_pattern_template& pattern) {
    std::vector<Recipe::Value> values;
    const rte_flow_item* const items = pattern.items.entries();
    for (size_t part = 0; part < plan.parts.size(); ++part) {
        const Pattern& of = plan.parts[part].pattern;
        for (size_t layer = 0; layer < of.layers().size(); ++layer) {
            const uint8_t item = of.layers()[layer].item;
            if (item == Layer::kNone || items[item].mask == nullptr) continue;
            const auto kind = known_kind(items[item]);
            if (!kind) return tl::unexpected(kind.error());
            const auto asked = read_item(**kind, items[item]);
            if (!asked) return tl::unexpected(asked.error());
            const bool plain = !is_metadata((*kind)->protocol) && asked->mask.flags() == 0;
            values.push_back({item, *kind, part,
                              model.parts()[part].mask->sources(layer, asked->mask), asked->index,
                              plain});
        }
    }
    return values;
}

} // namespace rawqp
