// SPDX-License-Identifier: BSD-3-Clause
// One client's view of packets: a bounded queue between device threads and the control server.
#pragma once

#include "app/softhca/core/device.hpp"
#include "app/softhca/core/observer.hpp"

#include <deque>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace softhca::control {

struct ObservationOptions {
    bool steps = false; ///< the complete path, not just the outcome
    uint64_t count = 0; ///< stop after this many; 0: unlimited
};

/// Observes some devices for as long as it exists. A device thread never waits for the client:
/// packets that find no room are lost, and counted.
class Observation final : public core::Observer {
  public:
    Observation(std::vector<core::Device*> devices, const ObservationOptions& options);
    ~Observation() override;
    Observation(const Observation&) = delete;
    Observation& operator=(const Observation&) = delete;

    /// The packets since the last call, as many as fit into an answer, how many were lost, and
    /// whether these were the last ("done").
    [[nodiscard]] nlohmann::json take();

    [[nodiscard]] bool wants_steps() const override { return options_.steps; }
    void on_packet(const core::Passage& passage) override;

  private:
    static constexpr size_t kMostKept = 4096;       ///< packets
    static constexpr size_t kMostBytes = 16u << 20; ///< of their frames
    static constexpr size_t kAnswered = 256;        ///< packets in one answer

    const std::vector<core::Device*> devices_;
    const ObservationOptions options_;
    const int64_t to_real_time_; ///< from the devices' clock, ns
    std::mutex mutex_;
    std::deque<core::Passage> kept_;
    size_t kept_bytes_ = 0;
    uint64_t seen_ = 0; ///< kept or lost
    uint64_t lost_ = 0;
};

} // namespace softhca::control
