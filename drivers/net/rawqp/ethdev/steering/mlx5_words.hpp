// SPDX-License-Identifier: BSD-3-Clause
// A request in the device's terms, as common to all rules through libmlx5, however installed: match
// parameters, and packet edits as lists that rules share.
#pragma once

#include "drivers/net/rawqp/ethdev/steering/engine.hpp"

#include <array>
#include <cstring>
#include <vector>

namespace rawqp {

/// mlx5dv_flow_match_parameters with its bytes.
struct Parameters {
    alignas(mlx5dv_flow_match_parameters)
        std::array<uint8_t, sizeof(mlx5dv_flow_match_parameters) + Mlx5Match::kBytes> bytes;

    explicit Parameters(const std::array<uint8_t, Mlx5Match::kBytes>& match) {
        get()->match_sz = match.size();
        std::memcpy(&bytes[sizeof(mlx5dv_flow_match_parameters)], match.data(), match.size());
    }
    mlx5dv_flow_match_parameters* get() {
        return reinterpret_cast<mlx5dv_flow_match_parameters*>(bytes.data());
    }
};

/// mlx5_match() for rules that come one after the other, of which most have the mask of the one
/// before: it remembers where the fields of that mask are. Control threads only.
class MatchMaker {
  public:
    [[nodiscard]] Mlx5Match of(const Pattern& pattern);

  private:
    /// A field of a layer, and its place in the parameters.
    struct Place {
        uint8_t layer;
        uint16_t bit, bits, place;
    };
    [[nodiscard]] bool has_mask_of(const Pattern& pattern) const;
    void learn(const Pattern& pattern);

    std::optional<Pattern> known_; ///< has that mask
    std::vector<Place> places_;    ///< of its fields
    Mlx5Match mask_;               ///< without values
};

/// Why the device's match parameters, or those of the kernel's flows in group 0, have no place for
/// something that the request matches.
[[nodiscard]] std::optional<Lack> lack_of_match(const SteeringRequest& request);
/// Decides like mlx5_ib, which tries such rules after all levels: by the bytes in the places of a
/// MAC and an IPv4 address.
[[nodiscard]] bool sorted_as_multicast(const Mlx5Match& match);

/// Packet edits as the device takes them: what it rewrites, or a reformat with its header. Keys are
/// equal if that part of their edits is.
struct EditKey {
    bool egress;
    bool rewrites;
    uint32_t noted_tag; ///< mark that rules of later groups match; 0: none
    SharedEdits edits;  ///< null: none

    friend bool operator<(const EditKey& a, const EditKey& b);
    /// The rewrite commands, or the header.
    [[nodiscard]] std::vector<uint8_t> bytes() const;
};

/// Whether fields change, including the mark's note for later groups.
[[nodiscard]] bool rewrites(const SteeringRequest& request);
[[nodiscard]] EditKey rewriting_of(const SteeringRequest& request);
[[nodiscard]] bool reformats(const SteeringRequest& request);
[[nodiscard]] EditKey reformatting_of(const SteeringRequest& request);

/// How the device names a reformat.
struct ReformatName {
    Reformat reformat;
    mlx5dv_flow_action_packet_reformat_type of_flow;
    uint32_t of_entry; ///< 0: none, an entry has a bit for it
};
[[nodiscard]] const ReformatName& name_of(Reformat reformat);

} // namespace rawqp
