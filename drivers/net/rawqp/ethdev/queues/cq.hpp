// SPDX-License-Identifier: BSD-3-Clause
// Creation of completion queues that one thread uses, and their owners.
#pragma once

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <infiniband/verbs.h>

namespace rawqp {

/// The owner of a CQ, held in its cq_context: device events deliver it when the queue may already
/// be gone or have another CQ.
struct CqOwner {
    enum class Side : uint16_t { neither, rx, tx };
    Side side = Side::neither;
    uint16_t queue = 0;
    uint32_t serial = 0; ///< of the CQ; unique in this process

    [[nodiscard]] static CqOwner make(Side side, uint16_t queue) {
        static std::atomic<uint32_t> last{0};
        return {side, queue, ++last};
    }
    [[nodiscard]] void* context() const { return std::bit_cast<void*>(*this); }
    [[nodiscard]] static CqOwner of(const ibv_cq& cq) {
        return std::bit_cast<CqOwner>(cq.cq_context);
    }
};
static_assert(sizeof(CqOwner) == sizeof(void*));

/// Whether a creation failed because the provider does not support what was requested, rather than
/// for lack of resources: providers do not agree on the errno for that.
[[nodiscard]] inline bool is_unsupported(int error) {
    return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
}

/// A CQ that the caller promises to use from one thread at a time, so that the provider takes no
/// locks; an ordinary one where the provider has no such CQs. Null with errno on failure.
[[nodiscard]] inline ibv_cq_ex* create_single_threaded_cq(ibv_context* context,
                                                          const ibv_cq_init_attr_ex& attributes) {
    ibv_cq_init_attr_ex wanted = attributes;
    wanted.comp_mask |= IBV_CQ_INIT_ATTR_MASK_FLAGS;
    wanted.flags |= IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    ibv_cq_ex* const cq = ibv_create_cq_ex(context, &wanted);
    if (cq != nullptr || !is_unsupported(errno)) return cq;
    wanted = attributes;
    return ibv_create_cq_ex(context, &wanted);
}

} // namespace rawqp
