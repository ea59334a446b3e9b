// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/devx/devx.hpp"

#include "drivers/net/rawqp/log.hpp"

#include <cerrno>

namespace rawqp {
namespace {

/// Translates a status as the kernel's driver does (Linux: cmd_status_to_err).
int errno_of_status(uint8_t status) {
    switch (status) {
    case 0x01:             // internal error
    case 0x04: return EIO; // bad state of the system
    case 0x06: return EBUSY;
    case 0x08: return ENOMEM; // limits exceeded
    case 0x0f: return EAGAIN; // no resources
    default: return EINVAL;
    }
}

} // namespace

int Devx::settle(int error, const prm::AnswerHead& answer) {
    if (error == 0 || answer.status == 0) return error;
    RAWQP_LOG(DEBUG, "the firmware refuses a command: status %#x, syndrome %#x", answer.status,
              static_cast<uint32_t>(answer.syndrome));
    return errno_of_status(answer.status);
}

DevxObject Devx::make_raw(std::span<const uint8_t> command, const char* kind) {
    prm::NumberOut out{};
    DevxObject object;
    if (api_.mlx5_devx_obj_create == nullptr) {
        errno = EOPNOTSUPP;
        return object;
    }
    object.handle = {
        api_.mlx5_devx_obj_create(context_, command.data(), command.size(), &out, sizeof out),
        {api_.mlx5_devx_obj_destroy, kind}};
    if (!object.handle)
        errno = settle(errno, out.head);
    else
        object.number = out.number;
    return object;
}

bool Devx::available() {
    if (!available_) available_ = bool(make(prm::AllocFlowCounterIn{}, "flow counter"));
    return available_;
}

} // namespace rawqp
