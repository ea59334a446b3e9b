// SPDX-License-Identifier: BSD-3-Clause
// A request in words of the device that all rules by libmlx5 have, however they come to it: match
// parameters, and edits of packets as lists that rules share.
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

/// Why the device's match parameters, or those of the kernel's flows in group 0, have no place for
/// what the request matches.
[[nodiscard]] std::optional<Lack> lack_of_match(const SteeringRequest& request);
/// As mlx5_ib decides it, which tries such rules after all levels: by the bytes in the places of a
/// MAC and of an IPv4 address.
[[nodiscard]] bool sorted_as_multicast(const Mlx5Match& match);

/// Edits of packets as the device takes them: what it rewrites, or a reformat with its header. Keys
/// are the same if that part of their edits is.
struct EditKey {
    bool egress;
    bool rewrites;
    uint32_t noted_tag; ///< a mark that rules of later groups match; 0: none
    SharedEdits edits;  ///< null: none

    friend bool operator<(const EditKey& a, const EditKey& b);
    /// Commands of rewriting, or the header.
    [[nodiscard]] std::vector<uint8_t> bytes() const;
};

/// Whether fields change, a note of the mark for later groups among them.
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
