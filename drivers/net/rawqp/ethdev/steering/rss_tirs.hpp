// SPDX-License-Identifier: BSD-3-Clause
// The counterpart of verbs' hash QPs for entries of the process's own flow tables, and for LRO:
// TIRs made through DevX. (libmlx5 does not tell the number of a hash QP's TIR, by which an entry
// would name it, and makes none with LRO.)
#pragma once

#include "drivers/net/rawqp/ethdev/devx/devx.hpp"
#include "drivers/net/rawqp/ethdev/lro.hpp"
#include "drivers/net/rawqp/ethdev/steering/rss.hpp"
#include "drivers/net/rawqp/ethdev/steering/shared_objects.hpp"

namespace rawqp {

struct RssTir {
    DevxObject table; ///< none for one queue
    DevxObject tir;   ///< destroyed before the table that it refers to

    explicit operator bool() const { return bool(tir); }
};

/// TIRs by destination. Control threads only.
class RssTirs {
  public:
    RssTirs(Devx& devx, const RxQueueSet& queues) : devx_(devx), queues_(queues) {}

    /// For future TIRs; there are no live ones. Null: packets stay as they are.
    void use_lro(const std::optional<LroTerms>& terms) { lro_ = terms; }
    /// The destination's TIR, as long as `use` lives. Null with errno.
    [[nodiscard]] const RssTir* acquire(PartRef& use, const RssDestination& destination);

  private:
    [[nodiscard]] RssTir make(const RssDestination& destination);
    [[nodiscard]] DevxObject make_table(const RssDestination& destination);

    Devx& devx_;
    const RxQueueSet& queues_;
    std::optional<LroTerms> lro_;
    DevxObject domain_; ///< transport domain, made for the first TIR
    SharedObjects<RssDestination, RssTir> tirs_;
};

} // namespace rawqp
