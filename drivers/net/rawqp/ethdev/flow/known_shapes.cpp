// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/known_shapes.hpp"

#include "drivers/net/rawqp/ethdev/flow/table_impl.hpp"

#include <algorithm>
#include <cstring>

namespace rawqp {
namespace {

/// Writes bytes one after the other, as long as there is room.
class Writer {
  public:
    explicit Writer(std::span<uint8_t> room) : room_(room) {}

    bool put(const void* bytes, size_t size) {
        if (size > room_.size() - used_) return false;
        std::memcpy(&room_[used_], bytes, size);
        used_ += size;
        return true;
    }
    [[nodiscard]] std::span<const uint8_t> written() const { return room_.first(used_); }

  private:
    std::span<uint8_t> room_;
    size_t used_ = 0;
};

/// Accepts the bytes that a writer wrote, one after the other, and no others.
class Comparer {
  public:
    explicit Comparer(std::span<const uint8_t> written) : left_(written) {}

    bool put(const void* bytes, size_t size) {
        if (size > left_.size() || std::memcmp(left_.data(), bytes, size) != 0) return false;
        left_ = left_.subspan(size);
        return true;
    }
    [[nodiscard]] bool all() const { return left_.empty(); }

  private:
    std::span<const uint8_t> left_;
};

template <class To, class T> bool put(const T& value, To& to) {
    return to.put(&value, sizeof value);
}

/// Puts an item that asks for fields of a header by a mask, or for no field of it.
template <class To> bool put_item(const rte_flow_item& item, To& to) {
    if (!put(static_cast<uint16_t>(item.type), to)) return false;
    if (item.type == RTE_FLOW_ITEM_TYPE_VOID) return true;
    const ItemKind* const kind = kind_of(item.type);
    if (kind == nullptr || is_metadata(kind->protocol) || item.last != nullptr) return false;
    if ((item.spec != nullptr) != (item.mask != nullptr)) return false;
    if (item.mask == nullptr) return put(uint8_t{0}, to);
    const uint8_t flags = kind->flags != nullptr ? kind->flags(item.mask) : uint8_t{0};
    return put(uint8_t{1}, to) && put(flags, to) &&
           to.put(item.mask, traits_of(kind->protocol).bytes);
}

/// Puts an action that is the same in all rules, or says where packets go or how they are marked.
template <class To> bool put_action(const rte_flow_action& action, To& to) {
    switch (action.type) {
    case RTE_FLOW_ACTION_TYPE_VOID:
    case RTE_FLOW_ACTION_TYPE_DROP:
    case RTE_FLOW_ACTION_TYPE_FLAG:
    case RTE_FLOW_ACTION_TYPE_QUEUE:
    case RTE_FLOW_ACTION_TYPE_MARK: return put(static_cast<uint16_t>(action.type), to);
    default: return false;
    }
}

/// Puts what a rule asks for without its values. False: templates do not serve it, or `to` does not
/// take it.
template <class To>
bool put_shape(const rte_flow_attr& attr, const rte_flow_item* item, const rte_flow_action* action,
               To& to) {
    if (!put(attr, to)) return false;
    for (; item->type != RTE_FLOW_ITEM_TYPE_END; ++item)
        if (!put_item(*item, to)) return false;
    if (!put(uint16_t{RTE_FLOW_ITEM_TYPE_END}, to)) return false;
    for (; action->type != RTE_FLOW_ACTION_TYPE_END; ++action)
        if (!put_action(*action, to)) return false;
    return true;
}

} // namespace

KnownShape* KnownShapes::find(const rte_flow_attr& attr, const rte_flow_item* items,
                              const rte_flow_action* actions) {
    const auto is_of = [&](const std::unique_ptr<KnownShape>& known) {
        Comparer comparer(known->bytes);
        return put_shape(attr, items, actions, comparer) && comparer.all();
    };
    auto at = std::ranges::find_if(shapes_, is_of);
    if (at == shapes_.end()) {
        Writer writer(bytes_);
        if (!put_shape(attr, items, actions, writer)) return nullptr;
        const std::span<const uint8_t> bytes = writer.written();
        if (shapes_.size() == kMost) shapes_.pop_back();
        shapes_.push_back(std::make_unique<KnownShape>());
        at = std::prev(shapes_.end());
        (*at)->bytes.assign(bytes.begin(), bytes.end());
    }
    if (at != shapes_.begin()) std::rotate(shapes_.begin(), at, std::next(at));
    return shapes_.front().get();
}

/// Refusals are not shown to the application: the rule is then translated as a whole.
FlowResult<void> FlowTable::Impl::make_template(const rte_flow_attr& attr,
                                                const rte_flow_item* items,
                                                const rte_flow_action* actions, KnownShape& shape) {
    rte_flow_pattern_template_attr of_pattern{};
    of_pattern.ingress = attr.ingress;
    of_pattern.egress = attr.egress;
    auto pattern = make_pattern_template(of_pattern, items);
    if (!pattern) return tl::unexpected(pattern.error());
    std::vector<rte_flow_action> masks; // of zeros: rules give what they can
    for (const rte_flow_action* action = actions; action->type != RTE_FLOW_ACTION_TYPE_END;)
        masks.push_back({action++->type, nullptr});
    auto made_actions = make_actions_template({}, actions, masks.data());
    if (!made_actions) return tl::unexpected(made_actions.error());
    auto recipe = make_recipe(attr, **pattern, **made_actions);
    if (!recipe) return tl::unexpected(recipe.error());
    shape.pattern = std::move(*pattern);
    shape.actions = std::move(*made_actions);
    shape.table = std::make_unique<rte_flow_template_table>();
    shape.table->attributes = attr;
    shape.table->patterns = {shape.pattern.get()};
    shape.table->actions = {shape.actions.get()};
    shape.table->recipes.push_back(std::move(*recipe));
    return {};
}

/// The application is not told why templates or their rules are refused: the whole translation
/// decides about the rule, except for what the device says.
[[gnu::always_inline]] inline std::optional<FlowResult<rte_flow*>>
FlowTable::Impl::create_alike(const rte_flow_attr* attr, const rte_flow_item* items,
                              const rte_flow_action* actions) {
    if (!running || attr == nullptr || items == nullptr || actions == nullptr) return std::nullopt;
    KnownShape* const shape = shapes.find(*attr, items, actions);
    if (shape == nullptr) return std::nullopt;
    if (++shape->rules == 2) (void)make_template(*attr, items, actions, *shape);
    if (!shape->table) return std::nullopt;
    auto rule = fill(*shape->table, 0, items, 0, actions);
    if (!rule || !reserve_ports(**rule, nullptr) || !place(**rule)) return std::nullopt;
    auto created = enter(std::move(*rule));
    // With these values, or by now, another engine or way may be able to express the rule, or none.
    if (!created && is_refusal(created.error().code)) return std::nullopt;
    return created;
}

rte_flow* FlowTable::create(const rte_flow_attr* attr, const rte_flow_item* pattern,
                            const rte_flow_action* actions, rte_flow_error* error) {
    auto created = impl_->create_alike(attr, pattern, actions);
    if (!created)
        created = impl_->in_either_way([&] { return impl_->create(attr, pattern, actions); },
                                       [&] { return impl_->check(attr, pattern, actions); });
    if (*created)
        if (auto settled = impl_->settle(); !settled) {
            impl_->rules.erase(***created);
            created = tl::unexpected(settled.error());
        }
    if (*created) return **created;
    report(created->error(), error);
    return nullptr;
}

} // namespace rawqp
