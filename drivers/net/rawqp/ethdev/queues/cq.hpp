// SPDX-License-Identifier: BSD-3-Clause
// Creation of completion queues that one thread uses.
#pragma once

#include <cerrno>
#include <infiniband/verbs.h>

namespace rawqp {

/// Whether a creation failed because the provider does not know what was asked for, rather than for
/// lack of resources: providers do not agree on the errno for that.
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
