// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/devx/port_firmware.hpp"

#include "app/softhca/core/q_counters.hpp"
#include "app/softhca/uverbs/commands.hpp"
#include "app/softhca/uverbs/devx/rules.hpp"

#include <cerrno>

namespace softhca::uverbs {

std::shared_ptr<PortFirmware> PortFirmware::of(Port& port) {
    const std::lock_guard lock(port.firmware_mutex);
    if (!port.firmware)
        port.firmware = std::make_shared<PortFirmware>(*port.device.load(), port.config.speed_mbps);
    return port.firmware;
}

PortFirmware::PortFirmware(core::Device& device, uint32_t speed_mbps)
    : firmware_(device, memory_, events, speed_mbps, prm::Users::steering) {
    const Runtime* const runtime = Runtime::get();
    firmware_.set_verbose(runtime && runtime->config().verbose != 0);
    firmware_.objects.act_for(prm::kSharedUid);
    for (uint32_t vector = 0; vector < kCompletionVectors; vector++)
        firmware_.objects.add(prm::Kind::eq, eq_of(vector), {});
    // Verbs RQs count there. Programs find it in QUERY_RQ.
    firmware_.objects.add(prm::Kind::q_counter, core::kOwnQCounter, {});
    firmware_.objects.act_for(0);
}

Errno PortFirmware::execute(std::vector<uint8_t>& in, std::vector<uint8_t>& out, uint16_t uid) {
    constexpr prm::Field kUid{16, 16};
    devx::set(in, kUid, uid);
    prm::Command command;
    command.in.swap(in);
    command.out.swap(out);
    {
        const std::lock_guard lock(mutex_);
        firmware_.execute(command);
    }
    command.in.swap(in);
    command.out.swap(out);
    return out[0] == static_cast<uint8_t>(prm::FwStatus::ok) ? 0 : EREMOTEIO;
}

} // namespace softhca::uverbs
