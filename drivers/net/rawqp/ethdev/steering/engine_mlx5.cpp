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
    uint16_t level;
    uint8_t criteria;
    std::array<uint8_t, Mlx5Match::kBytes> mask;
    auto operator<=>(const MatcherKey&) const = default;
};

class Mlx5Engine;

struct Matcher final : SharedPart {
    Mlx5Engine* engine = nullptr;
    const MatcherKey* key = nullptr; ///< by which the engine knows it
    mlx5dv_flow_matcher* handle = nullptr;
    size_t users = 0;

    void release() override;
};

class Mlx5Engine final : public Engine {
  public:
    Mlx5Engine(const verbs::Api& api, ibv_context* context) : api_(api), context_(context) {}

    [[nodiscard]] const char* name() const override { return "mlx5"; }
    [[nodiscard]] std::optional<Lack> lack(const SteeringRequest& request) const override;
    [[nodiscard]] DeviceRule create(const SteeringRequest& request, ibv_qp* qp) override;
    void release(Matcher& matcher);

  private:
    Matcher* acquire(uint16_t level, const Mlx5Match& match);

    const verbs::Api& api_;
    ibv_context* context_;
    std::map<MatcherKey, Matcher> matchers_;
};

void Matcher::release() { engine->release(*this); }

void Mlx5Engine::release(Matcher& matcher) {
    if (--matcher.users != 0) return;
    api_.mlx5_destroy_flow_matcher(matcher.handle);
    matchers_.erase(matchers_.find(*matcher.key));
}

/// Null with errno.
Matcher* Mlx5Engine::acquire(uint16_t level, const Mlx5Match& match) {
    const auto [at, fresh] = matchers_.try_emplace({level, match.criteria, match.mask});
    Matcher& matcher = at->second;
    if (fresh) {
        Parameters mask(match.mask);
        mlx5dv_flow_matcher_attr attr{};
        attr.type = IBV_FLOW_ATTR_NORMAL;
        attr.priority = level;
        attr.match_criteria_enable = match.criteria;
        attr.match_mask = mask.get();
        matcher.engine = this;
        matcher.key = &at->first;
        matcher.handle = api_.mlx5_create_flow_matcher(context_, &attr);
        if (matcher.handle == nullptr) {
            const int error = errno;
            matchers_.erase(at);
            errno = error;
            return nullptr;
        }
    }
    ++matcher.users;
    return &matcher;
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
    const Mlx5Match match = mlx5_match(request.pattern);
    Matcher* const matcher = acquire(request.level, match);
    if (matcher == nullptr) return {};
    DeviceRule rule{std::unique_ptr<SharedPart, ReleasePart>(matcher), {}};
    std::array<mlx5dv_flow_action_attr, 2> actions{};
    size_t count = 0;
    if (request.drop) {
        actions[count++].type = MLX5DV_FLOW_ACTION_DROP;
    } else {
        actions[count].type = MLX5DV_FLOW_ACTION_DEST_IBV_QP;
        actions[count++].qp = qp;
    }
    if (request.tag != 0) {
        actions[count].type = MLX5DV_FLOW_ACTION_TAG;
        actions[count++].tag_value = request.tag;
    }
    Parameters value(match.value);
    rule.flow =
        verbs::Flow(api_.mlx5_create_flow(matcher->handle, value.get(), count, actions.data()),
                    {ibv_destroy_flow, "steering rule"});
    const int error = errno;
    if (!rule.flow) rule.shared.reset();
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
