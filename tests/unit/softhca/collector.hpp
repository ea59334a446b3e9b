// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "app/softhca/core/observer.hpp"

#include <string>
#include <vector>

namespace testbed {

/// Keeps everything it is told about packets.
struct Collector final : softhca::core::Observer {
    explicit Collector(bool with_steps) : steps(with_steps) {}
    [[nodiscard]] bool wants_steps() const override { return steps; }
    void on_packet(const softhca::core::Passage& passage) override { passages.push_back(passage); }

    /// The first packet's steps, one per line.
    [[nodiscard]] std::string first_way() const {
        std::string way;
        if (!passages.empty())
            for (const auto& [where, what] : passages.front().steps)
                way += std::string(where) + ": " + what + "\n";
        return way;
    }

    bool steps;
    std::vector<softhca::core::Passage> passages;
};

} // namespace testbed
