// SPDX-License-Identifier: BSD-3-Clause
// Rules in the device's own terms, by mlx5dv: a matcher for each mask and level, which all rules of
// that mask share, and flows with their values.
#include "drivers/net/rawqp/ethdev/steering/engine.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

namespace rawqp {
namespace {

/// Blocks of fte_match_param, in the order of their bytes, as bits of match_criteria_enable: outer
/// headers, misc, inner headers, misc 2, misc 3.
constexpr size_t kBlockBytes = 64;

uint16_t place_of(const Field& field, uint8_t depth) {
    return depth == 0 ? field.mlx5.outer : field.mlx5.inner;
}

/// mlx5dv_flow_match_parameters with its bytes.
struct Parameters {
    alignas(mlx5dv_flow_match_parameters)
        std::array<uint8_t, sizeof(mlx5dv_flow_match_parameters) + Mlx5Match::kBytes> bytes{};

    explicit Parameters(const std::array<uint8_t, Mlx5Match::kBytes>& match) {
        get()->match_sz = match.size();
        std::memcpy(&bytes[sizeof(mlx5dv_flow_match_parameters)], match.data(), match.size());
    }
    mlx5dv_flow_match_parameters* get() {
        return reinterpret_cast<mlx5dv_flow_match_parameters*>(bytes.data());
    }
};

struct MatcherKey {
    bool egress;
    uint16_t level;
    uint8_t criteria;
    std::array<uint8_t, Mlx5Match::kBytes> mask;
    auto operator<=>(const MatcherKey&) const = default;
};

/// Edits of packets as the device takes them: header rewriting, or reformatting with its header.
struct FlowActionKey {
    bool egress;
    Reformat reformat; ///< none: `bytes` are commands of rewriting
    std::vector<uint8_t> bytes;
    auto operator<=>(const FlowActionKey&) const = default;
};

/// Objects of the device that rules share, by what they are made from: made for the first rule,
/// destroyed after the last one.
template <class Key, class Object> class SharedObjects {
  public:
    explicit SharedObjects(int (*destroy)(Object* object)) : destroy_(destroy) {}

    struct Entry final : SharedPart {
        SharedObjects* owner = nullptr;
        const Key* key = nullptr; ///< by which the owner knows it
        Object* object = nullptr;
        size_t users = 0;

        void release() override { owner->release(*this); }
    };

    /// Null with errno. `make(key)` gives the object, or null with errno.
    template <class Make> Entry* acquire(Key key, Make make) {
        const auto [at, fresh] = entries_.try_emplace(std::move(key));
        Entry& entry = at->second;
        if (fresh) {
            entry.owner = this;
            entry.key = &at->first;
            entry.object = make(at->first);
            if (entry.object == nullptr) {
                const int error = errno;
                entries_.erase(at);
                errno = error;
                return nullptr;
            }
        }
        ++entry.users;
        return &entry;
    }

  private:
    void release(Entry& entry) {
        if (--entry.users != 0) return;
        destroy_(entry.object);
        entries_.erase(entries_.find(*entry.key));
    }

    int (*destroy_)(Object* object);
    std::map<Key, Entry> entries_;
};

class Mlx5Engine final : public Engine {
  public:
    Mlx5Engine(const verbs::Api& api, ibv_context* context)
        : api_(api), context_(context), matchers_(api.mlx5_destroy_flow_matcher),
          actions_(ibv_destroy_flow_action) {}

    [[nodiscard]] const char* name() const override { return "mlx5"; }
    [[nodiscard]] std::optional<Lack> lack(const SteeringRequest& request) const override;
    [[nodiscard]] DeviceRule create(const SteeringRequest& request, ibv_qp* qp) override;

  private:
    [[nodiscard]] mlx5dv_flow_matcher* make_matcher(const MatcherKey& key) const;
    [[nodiscard]] ibv_flow_action* make_action(const FlowActionKey& key) const;
    bool acquire_edits(const SteeringRequest& request, DeviceRule& rule,
                       std::vector<mlx5dv_flow_action_attr>& actions);

    const verbs::Api& api_;
    ibv_context* context_;
    SharedObjects<MatcherKey, mlx5dv_flow_matcher> matchers_;
    SharedObjects<FlowActionKey, ibv_flow_action> actions_;
};

mlx5dv_flow_table_type table_of(bool egress) {
    return egress ? MLX5DV_FLOW_TABLE_TYPE_NIC_TX : MLX5DV_FLOW_TABLE_TYPE_NIC_RX;
}

mlx5dv_flow_matcher* Mlx5Engine::make_matcher(const MatcherKey& key) const {
    Parameters mask(key.mask);
    mlx5dv_flow_matcher_attr attr{};
    attr.type = IBV_FLOW_ATTR_NORMAL;
    attr.priority = key.level;
    attr.match_criteria_enable = key.criteria;
    attr.match_mask = mask.get();
    if (key.egress) attr.comp_mask = MLX5DV_FLOW_MATCHER_MASK_FT_TYPE;
    attr.ft_type = table_of(key.egress);
    return api_.mlx5_create_flow_matcher(context_, &attr);
}

ibv_flow_action* Mlx5Engine::make_action(const FlowActionKey& key) const {
    std::vector<uint8_t> bytes = key.bytes;
    const mlx5dv_flow_table_type table = table_of(key.egress);
    if (key.reformat == Reformat::none)
        return api_.mlx5_create_modify_header(context_, bytes.size(),
                                              reinterpret_cast<uint64_t*>(bytes.data()), table);
    const auto kind = key.reformat == Reformat::strip_tunnel
                          ? MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TUNNEL_TO_L2
                      : key.reformat == Reformat::wrap
                          ? MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L2_TUNNEL
                      : key.reformat == Reformat::strip_tunnel_to_l3
                          ? MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L3_TUNNEL_TO_L2
                          : MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L3_TUNNEL;
    return api_.mlx5_create_packet_reformat(context_, bytes.size(),
                                            bytes.empty() ? nullptr : bytes.data(), kind, table);
}

/// False with errno.
bool Mlx5Engine::acquire_edits(const SteeringRequest& request, DeviceRule& rule,
                               std::vector<mlx5dv_flow_action_attr>& actions) {
    if (!request.edits) return true;
    const Edits& edits = *request.edits;
    const auto add = [&](FlowActionKey key, PartRef& place) {
        auto* const action = actions_.acquire(
            std::move(key), [this](const FlowActionKey& of) { return make_action(of); });
        if (action == nullptr) return false;
        place = PartRef(action);
        mlx5dv_flow_action_attr attr{};
        attr.type = MLX5DV_FLOW_ACTION_IBV_FLOW_ACTION;
        attr.action = action->object;
        actions.push_back(attr);
        return true;
    };
    if (!edits.rewrites.empty()) {
        const std::vector<uint64_t> commands = rewrite_commands(edits.rewrites);
        const auto* const bytes = reinterpret_cast<const uint8_t*>(commands.data());
        if (!add({request.egress,
                  Reformat::none,
                  {bytes, bytes + commands.size() * sizeof(uint64_t)}},
                 rule.shared[1]))
            return false;
    }
    return edits.reformat == Reformat::none ||
           add({request.egress, edits.reformat, edits.header}, rule.shared[2]);
}

/// As mlx5_ib decides it, which tries such rules after all levels: by the bytes in the places of a
/// MAC and of an IPv4 address.
bool sorted_as_multicast(const Pattern& pattern) {
    const Mlx5Match match = mlx5_match(pattern);
    constexpr size_t kMac = 0x40 / 8, kIpv4 = 0x1e0 / 8;
    const auto both = [&](size_t at, uint8_t bits, uint8_t wanted) {
        return (match.value[at] & bits) == wanted && (match.mask[at] & bits) == wanted;
    };
    return both(kMac, 0x01, 0x01) || both(kIpv4, 0xf0, 0xe0);
}

std::optional<Lack> Mlx5Engine::lack(const SteeringRequest& request) const {
    if (request.type != IBV_FLOW_ATTR_NORMAL)
        return Lack{nullptr, "mlx5dv flows have no default rules"};
    if (request.counted)
        return Lack{nullptr, "action count: mlx5dv flows have counters by DevX only"};
    if (request.strict_level && sorted_as_multicast(request.pattern))
        return Lack{&request.pattern.eth(), "matches multicast, which the kernel's driver tries "
                                            "after all other mlx5dv flows"};
    return first_lack(request.pattern, "the device's match parameters have",
                      [](const Layer& layer, const Field& field) {
                          return place_of(field, layer.depth) != Field::kNone;
                      });
}

DeviceRule Mlx5Engine::create(const SteeringRequest& request, ibv_qp* qp) {
    DeviceRule rule;
    const Mlx5Match match = mlx5_match(request.pattern);
    auto* const matcher =
        matchers_.acquire({request.egress, request.level, match.criteria, match.mask},
                          [this](const MatcherKey& key) { return make_matcher(key); });
    if (matcher == nullptr) return rule;
    rule.shared[0] = PartRef(matcher);
    std::vector<mlx5dv_flow_action_attr> actions;
    const auto add = [&](mlx5dv_flow_action_type type) -> mlx5dv_flow_action_attr& {
        actions.push_back({});
        actions.back().type = type;
        return actions.back();
    };
    if (request.drop)
        add(MLX5DV_FLOW_ACTION_DROP);
    else if (!request.egress)
        add(MLX5DV_FLOW_ACTION_DEST_IBV_QP).qp = qp;
    if (request.tag != 0) add(MLX5DV_FLOW_ACTION_TAG).tag_value = request.tag;
    if (acquire_edits(request, rule, actions)) {
        Parameters value(match.value);
        rule.flow = verbs::Flow(
            api_.mlx5_create_flow(matcher->object, value.get(), actions.size(), actions.data()),
            {ibv_destroy_flow, "steering rule"});
    }
    const int error = errno;
    if (!rule.flow) rule = {};
    errno = error;
    return rule;
}

} // namespace

Mlx5Match mlx5_match(const Pattern& pattern) {
    Mlx5Match match;
    for (const Layer& layer : pattern.layers())
        for (const Field& field : fields_of(layer.protocol)) {
            const uint16_t place = place_of(field, layer.depth);
            if (place == Field::kNone || !layer.masks(field.bit, field.bits)) continue;
            or_bits(layer.value, field.bit, field.bits, match.value, place);
            or_bits(layer.mask, field.bit, field.bits, match.mask, place);
        }
    for (size_t block = 0; block < Mlx5Match::kBytes / kBlockBytes; ++block)
        if (any_bit(match.mask, 8 * block * kBlockBytes, 8 * kBlockBytes))
            match.criteria |= static_cast<uint8_t>(1 << block);
    return match;
}

std::unique_ptr<Engine> make_mlx5_engine(const verbs::Api& api, ibv_context* context) {
    if (api.mlx5_create_flow_matcher == nullptr || !api.mlx5_is_supported(context->device))
        return nullptr;
    return std::make_unique<Mlx5Engine>(api, context);
}

} // namespace rawqp
