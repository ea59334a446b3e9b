// SPDX-License-Identifier: BSD-3-Clause
// Software steering: rules of groups above 0, which libmlx5 writes into the device's memory
// (mlx5dv_dr), and those of group 0 that lead there. The latter are ordinary flows of the kernel,
// made through the domain's root table, as nothing else can name the domain's tables.
#include "drivers/net/rawqp/ethdev/steering/mlx5_words.hpp"
#include "drivers/net/rawqp/ethdev/steering/rss_tirs.hpp"
#include "drivers/net/rawqp/ethdev/steering/software_rules.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

namespace rawqp {
namespace {

using Action = verbs::Handle<mlx5dv_dr_action>;

/// The table of a group; that of group 0 stands for the kernel's, and nothing leads there.
struct Table {
    verbs::Handle<mlx5dv_dr_table> table;
    Action to_it;
    explicit operator bool() const { return table != nullptr; }
};

struct Matcher {
    PartRef table;
    verbs::Handle<mlx5dv_dr_matcher> matcher;
    uint32_t log_room = 0; ///< of its hash tables, as far as they were asked for more
    explicit operator bool() const { return matcher != nullptr; }
};
struct MatcherKey {
    GroupStage at;
    uint16_t level;
    uint8_t criteria;
    std::array<uint8_t, Mlx5Match::kBytes> mask;
    auto operator<=>(const MatcherKey&) const = default;
};

struct ToTir {
    PartRef tir;
    Action action;
    SettledFirst settled;
    explicit operator bool() const { return action != nullptr; }
};

/// In group 0 the kernel makes the changes.
struct PlacedEdit {
    bool root;
    EditKey key;
    friend bool operator<(const PlacedEdit& a, const PlacedEdit& b) {
        return a.root != b.root ? a.root < b.root : a.key < b.key;
    }
};
struct Edit {
    Action action;
    SettledFirst settled;
    explicit operator bool() const { return action != nullptr; }
};

/// libmlx5 wants a table to lead to higher levels only. There are enough for the groups that have
/// several stages; the very last groups share one.
uint32_t level_of(const GroupStage& at) {
    const uint64_t stages = uint64_t{std::min(at.group, kLastStage + 1)} * kLastStage;
    return static_cast<uint32_t>(std::min<uint64_t>(at.group + stages + at.stage, UINT32_MAX));
}

/// libmlx5 wants the version in the mask to be that of the header (dr_ste_build_pre_check), by
/// which it chooses entries: the version replaces the EtherType.
void name_ip_version(const Pattern& pattern, Mlx5Match& match) {
    constexpr size_t kEtherType = 0x30, kVersion = 0x93; // of fte_match_set_lyr_2_4
    constexpr size_t kOuter = 0, kInner = 2;             // blocks
    for (const Layer& layer : pattern.layers()) {
        if (layer.protocol != Protocol::ipv4 && layer.protocol != Protocol::ipv6) continue;
        const bool v4 = layer.protocol == Protocol::ipv4;
        const size_t block = layer.depth == 0 ? kOuter : kInner;
        const size_t type = block * 8 * Mlx5Match::kBlockBytes + kEtherType;
        const size_t version = block * 8 * Mlx5Match::kBlockBytes + kVersion;
        if (get_bits(match.mask, version, 4) == 0) set_bits(match.value, version, 4, v4 ? 4 : 6);
        set_bits(match.mask, version, 4, v4 ? 4 : 6);
        match.criteria |= static_cast<uint8_t>(1 << block);
        if (get_bits(match.value, type, 16) != (v4 ? RTE_ETHER_TYPE_IPV4 : RTE_ETHER_TYPE_IPV6))
            continue; // a shim's
        set_bits(match.mask, type, 16, 0);
        set_bits(match.value, type, 16, 0);
    }
}

Mlx5Match match_of(MatchMaker& maker, const SteeringRequest& request) {
    Mlx5Match match = maker.of(request.pattern);
    if (request.group != 0) name_ip_version(request.pattern, match);
    return match;
}

/// What a rule does, in the order that libmlx5 wants.
class ActionList {
  public:
    /// False: there is none, with errno.
    bool add(mlx5dv_dr_action* action) {
        if (action != nullptr) actions_[count_++] = action;
        return action != nullptr;
    }
    [[nodiscard]] std::span<mlx5dv_dr_action*> all() { return {actions_.data(), count_}; }

  private:
    std::array<mlx5dv_dr_action*, 5> actions_{}; ///< at most tag, counter, two edits, destination
    size_t count_ = 0;
};

class Software final : public SoftwareEngine {
  public:
    Software(const verbs::Api& api, ibv_context* context, Devx& devx, const RxQueueSet& queues,
             const GroupWay& way)
        : api_(api), context_(context), devx_(devx), way_(way), rules_(api), tirs_(devx, queues) {}

    [[nodiscard]] const char* name() const override { return "software steering"; }
    [[nodiscard]] bool in_charge(const SteeringRequest& request) const override {
        return way_ == GroupWay::software && request.of_groups();
    }
    [[nodiscard]] bool available() override;
    [[nodiscard]] std::optional<Lack> lack(const SteeringRequest& request) const override;
    [[nodiscard]] bool has_lro() const override { return true; }
    void use_lro(const std::optional<LroTerms>& terms) override { tirs_.use_lro(terms); }
    [[nodiscard]] bool create(const SteeringRequest& request, ibv_qp* qp,
                              DeviceRule& rule) override;
    [[nodiscard]] PartRef prepare(const SteeringRequest& request, size_t rules) override;
    [[nodiscard]] int settle() override { return rules_.settle(); }

  private:
    [[nodiscard]] Table make_table(const GroupStage& at) const;
    [[nodiscard]] Matcher make_matcher(const MatcherKey& key);
    [[nodiscard]] Edit make_edit(const PlacedEdit& edit);
    [[nodiscard]] Action owned(mlx5dv_dr_action* action) const {
        return {action, {api_.mlx5_dr_action_destroy, "steering action"}};
    }
    Table* acquire_table(const GroupStage& at, PartRef& use) {
        return tables_.acquire(use, at, [this](const GroupStage& of) { return make_table(of); });
    }
    Matcher* acquire_matcher(const SteeringRequest& request, const Mlx5Match& match, PartRef& use) {
        return matchers_.acquire(
            use, {{request.group, request.stage}, request.level, match.criteria, match.mask},
            [this](const MatcherKey& key) { return make_matcher(key); });
    }
    mlx5dv_dr_action* acquire_edit(const SteeringRequest& request, const EditKey& key,
                                   PartRef& use);
    mlx5dv_dr_action* way(const SteeringRequest& request, PartRef& next);
    bool fill(const SteeringRequest& request, DeviceRule& rule, SoftwareRules::Entry& entry,
              ActionList& actions);

    const verbs::Api& api_;
    ibv_context* context_;
    Devx& devx_;
    const GroupWay& way_;
    MatchMaker match_;
    verbs::Handle<mlx5dv_dr_domain> domain_;
    SoftwareRules rules_;
    Action drop_;
    SharedObjects<GroupStage, Table> tables_;
    SharedObjects<MatcherKey, Matcher> matchers_;
    SharedObjects<PlacedEdit, Edit> edits_;
    RssTirs tirs_;
    SharedObjects<RssDestination, ToTir> to_tirs_;
};

bool Software::available() {
    if (domain_) return true;
    if (api_.mlx5_dr_domain_create == nullptr || !devx_.available()) return false;
    domain_ = {api_.mlx5_dr_domain_create(context_, MLX5DV_DR_DOMAIN_TYPE_NIC_RX),
               {api_.mlx5_dr_domain_destroy, "steering domain"}};
    if (!domain_) return false;
    drop_ = owned(api_.mlx5_dr_drop());
    rules_.use(domain_.get());
    return true;
}

std::optional<Lack> Software::lack(const SteeringRequest& request) const {
    if (request.to_kernel) return Lack::of(Concern::kernel, "action send_to_kernel is for group 0");
    if (request.sample) return Lack::of(Concern::sample, "action sample is for groups by commands");
    if (request.meter) return Lack::of(Concern::meter, "action meter is for groups by commands");
    if (request.edits && request.edits->changes_tags())
        return Lack::of(Concern::tags, "VLAN tags come off and go on in groups by commands");
    if (request.jump && level_of({*request.jump}) <= level_of({request.group}))
        return Lack::of(Concern::jump, "action jump: a jump leads to a higher group");
    for (const Layer& layer : request.pattern.layers())
        if (layer.protocol == Protocol::esp && any(layer.mask)) // rdma-core 44's does so silently
            return Lack{&layer, "libmlx5 leaves the SPI out of what it writes"};
    return lack_of_match(request);
}

Table Software::make_table(const GroupStage& at) const {
    Table made;
    made.table = {api_.mlx5_dr_table_create(domain_.get(), level_of(at)),
                  {api_.mlx5_dr_table_destroy, "steering table"}};
    if (!made.table || at.group == 0) return made;
    made.to_it = owned(api_.mlx5_dr_to_table(made.table.get()));
    return made.to_it ? std::move(made) : Table{};
}

Matcher Software::make_matcher(const MatcherKey& key) {
    Matcher made;
    const Table* const table = acquire_table(key.at, made.table);
    if (table == nullptr) return {};
    Parameters mask(key.mask);
    made.matcher = {
        api_.mlx5_dr_matcher_create(table->table.get(), key.level, key.criteria, mask.get()),
        {api_.mlx5_dr_matcher_destroy, "steering matcher"}};
    return made;
}

Edit Software::make_edit(const PlacedEdit& edit) {
    const auto& [root, key] = edit;
    const uint32_t flags = root ? MLX5DV_DR_ACTION_FLAGS_ROOT_LEVEL : 0;
    std::vector<uint8_t> bytes = key.bytes();
    void* const data = bytes.empty() ? nullptr : bytes.data();
    auto made = owned(key.rewrites ? api_.mlx5_dr_modify_header(domain_.get(), flags, bytes.size(),
                                                                static_cast<__be64*>(data))
                                   : api_.mlx5_dr_packet_reformat(
                                         domain_.get(), flags, name_of(key.edits->reformat).of_flow,
                                         bytes.size(), data));
    return {std::move(made), SettledFirst(rules_)};
}

/// Null with errno.
mlx5dv_dr_action* Software::acquire_edit(const SteeringRequest& request, const EditKey& key,
                                         PartRef& use) {
    const Edit* const edit = edits_.acquire(use, {request.group == 0, key},
                                            [this](const PlacedEdit& of) { return make_edit(of); });
    return edit != nullptr ? edit->action.get() : nullptr;
}

/// The action that says where a rule's packets go. Null with errno.
mlx5dv_dr_action* Software::way(const SteeringRequest& request, PartRef& next) {
    if (request.drop) return drop_.get();
    if (const auto to = request.next()) {
        const Table* const table = acquire_table(*to, next);
        return table != nullptr ? table->to_it.get() : nullptr;
    }
    const ToTir* const to =
        to_tirs_.acquire(next, request.target->destination, [this](const RssDestination& of) {
            ToTir made;
            const RssTir* const tir = tirs_.acquire(made.tir, of);
            if (tir == nullptr) return ToTir{};
            made.action = owned(api_.mlx5_dr_to_tir(tir->tir.handle.get()));
            made.settled = SettledFirst(rules_);
            return made;
        });
    return to != nullptr ? to->action.get() : nullptr;
}

/// False with errno. Dropped packets are not changed first.
bool Software::fill(const SteeringRequest& request, DeviceRule& rule, SoftwareRules::Entry& entry,
                    ActionList& actions) {
    const auto reformat = [&] {
        return actions.add(acquire_edit(request, reformatting_of(request), rule.parts.add()));
    };
    const bool edited = reformats(request) && !request.drop;
    const bool wraps = edited && (request.edits->reformat == Reformat::wrap ||
                                  request.edits->reformat == Reformat::wrap_l3);
    if (request.tag != 0 && !actions.add(entry.mark(request.tag))) return false;
    if (request.counter && !actions.add(entry.count(request.counter))) return false;
    if (edited && !wraps && !reformat()) return false;
    if (rewrites(request) && !request.drop &&
        !actions.add(acquire_edit(request, rewriting_of(request), rule.parts.add())))
        return false;
    if (wraps && !reformat()) return false;
    return actions.add(way(request, rule.parts.add()));
}

/// A matcher's hash table begins with one entry, and libmlx5 doubles it again and again: a quarter
/// of the time that all insertions take. It makes one of the final size only where a definer covers
/// the mask (ENOTSUP otherwise). Without that, or if there turn out to be more rules, the table
/// grows with them.
PartRef Software::prepare(const SteeringRequest& request, size_t rules) {
    constexpr uint32_t kMostLog = 20; // 64 MiB of the device's memory
    PartRef use;
    Matcher* const matcher = acquire_matcher(request, match_of(match_, request), use);
    const auto log = std::min(static_cast<uint32_t>(std::bit_width(rules - 1)), kMostLog);
    if (matcher == nullptr || log <= matcher->log_room) return use;
    mlx5dv_dr_matcher_layout layout{
        MLX5DV_DR_MATCHER_LAYOUT_RESIZABLE | MLX5DV_DR_MATCHER_LAYOUT_NUM_RULE, log};
    (void)api_.mlx5_dr_matcher_set_layout(matcher->matcher.get(), &layout);
    matcher->log_room = log;
    return use;
}

bool Software::create(const SteeringRequest& request, ibv_qp*, DeviceRule& rule) {
    Mlx5Match match = match_of(match_, request);
    const Matcher* const matcher = acquire_matcher(request, match, rule.parts.add());
    SoftwareRules::Entry& entry = rules_.take();
    PartRef own(&entry);
    ActionList actions;
    Parameters value(match.value);
    if (request.group == 0 && request.strict_level && sorted_as_multicast(match)) {
        errno = EOPNOTSUPP; // due to values that a template lacks
        return false;
    }
    const bool made = matcher != nullptr && fill(request, rule, entry, actions) &&
                      entry.make(matcher->matcher.get(), value.get(), actions.all());
    rule.parts.add() = std::move(own); // last, so that it goes before what it is made of
    return made;
}

} // namespace

std::unique_ptr<SoftwareEngine> make_software_engine(const verbs::Api& api, ibv_context* context,
                                                     Devx& devx, const RxQueueSet& queues,
                                                     const GroupWay& way) {
    return std::make_unique<Software>(api, context, devx, queues, way);
}

} // namespace rawqp
