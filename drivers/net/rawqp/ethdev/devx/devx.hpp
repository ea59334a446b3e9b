// SPDX-License-Identifier: BSD-3-Clause
// Device objects that the process makes by firmware commands, where the kernel allows it.
#pragma once

#include "common/verbs/handles.hpp"
#include "drivers/net/rawqp/ethdev/devx/commands.hpp"

#include <cerrno>
#include <span>

namespace rawqp {

/// An object and its number, by which other commands name it.
struct DevxObject {
    verbs::Handle<mlx5dv_devx_obj> handle;
    uint32_t number = 0;

    explicit operator bool() const { return handle != nullptr; }
};

/// Control threads only.
class Devx {
  public:
    Devx(const verbs::Api& api, ibv_context* context) : api_(api), context_(context) {}

    /// Whether the process may make objects: tried with a counter until it has succeeded once.
    [[nodiscard]] bool available();

    /// An empty object, with errno, if refused; a firmware status becomes the matching errno.
    template <class In> [[nodiscard]] DevxObject make(In in, const char* kind) {
        in.head.opcode = static_cast<uint16_t>(In::kOpcode);
        DevxObject made = make_raw({reinterpret_cast<const uint8_t*>(&in), sizeof in}, kind);
        made.number &= In::kNumber;
        return made;
    }
    /// For commands of any length; the number has all bits of its word.
    [[nodiscard]] DevxObject make_raw(std::span<const uint8_t> command, const char* kind);

    /// 0 or an errno.
    template <class In, class Out>
    [[nodiscard]] int query(mlx5dv_devx_obj* object, In in, Out& out) const {
        in.head.opcode = static_cast<uint16_t>(In::kOpcode);
        out = {};
        const int error = api_.mlx5_devx_obj_query(object, &in, sizeof in, &out, sizeof out);
        return settle(error, out.head);
    }

    /// A command about no object. 0 or an errno.
    template <class In, class Out> [[nodiscard]] int ask(In in, Out& out) const {
        if (api_.mlx5_devx_general_cmd == nullptr) return EOPNOTSUPP;
        in.head.opcode = static_cast<uint16_t>(In::kOpcode);
        out = {};
        const int error = api_.mlx5_devx_general_cmd(context_, &in, sizeof in, &out, sizeof out);
        return settle(error, out.head);
    }

    /// A command about the RQ of a verbs WQ. 0 or an errno.
    template <class In> [[nodiscard]] int modify(ibv_wq* wq, In in) const {
        in.head.opcode = static_cast<uint16_t>(In::kOpcode);
        prm::NumberOut out{};
        const int error = api_.mlx5_devx_wq_modify(wq, &in, sizeof in, &out, sizeof out);
        return settle(error, out.head);
    }

  private:
    [[nodiscard]] static int settle(int error, const prm::AnswerHead& answer);

    const verbs::Api& api_;
    ibv_context* context_;
    bool available_ = false;
};

} // namespace rawqp
