// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/send_clock.hpp"

#include "common/verbs/errno_text.hpp"
#include "drivers/net/rawqp/ethdev/devx/clock.hpp"
#include "drivers/net/rawqp/ethdev/devx/devx.hpp"
#include "drivers/net/rawqp/log.hpp"

#include <bit>
#include <string>

namespace rawqp {
namespace {

/// Whether stamps and times are ticks, rather than seconds and nanoseconds of real time.
bool runs_freely(const Devx& devx, bool readable, uint64_t khz) {
    if (readable) {
        prm::ReadClockModeIn in{};
        in.head.op_mod = prm::kReadRegister;
        in.register_number = prm::kMtutc;
        prm::ReadClockModeOut out{};
        if (devx.ask(in, out) == 0) return out.mode >> prm::kClockModeShift == 0;
    }
    // net_mlx5's criterion: devices with real time count nanoseconds.
    constexpr uint64_t kNanoseconds = 1'000'000;
    return khz != kNanoseconds;
}

} // namespace

SendClock find_send_clock(const verbs::Api& api, ibv_context* context, uint64_t khz) {
    const Devx devx(api, context);
    prm::QueryCapIn in{};
    in.head.op_mod = prm::kGeneralCap;
    prm::QueryGeneralCapOut device{};
    std::string reason = "its send queues do not wait for times";
    if (const int error = devx.ask(in, device))
        reason = verbs::errno_text(error); // no DevX
    else if (khz == 0)
        reason = "the kernel does not tell how fast its clock is";
    else if ((device.waits & prm::kWaitOnTime) != 0) {
        reason = "its clock keeps real time, which is not supported";
        if (runs_freely(devx, (device.registers & prm::kAccessRegisterUser) != 0, khz)) {
            // As in net_mlx5: devices are known to wait for this many bits.
            constexpr uint64_t kSeconds = 8;
            return {.mask = std::bit_ceil(kSeconds * 1000 * khz) - 1,
                    .khz = static_cast<uint32_t>(khz)};
        }
    }
    RAWQP_LOG(DEBUG, "the device does not send at given times: %s", reason.c_str());
    return {};
}

} // namespace rawqp
