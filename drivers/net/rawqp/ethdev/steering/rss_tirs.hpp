// SPDX-License-Identifier: BSD-3-Clause
// What hash QPs are to verbs, for entries of the process's own flow tables, and for LRO: TIRs by
// DevX. (libmlx5 does not tell the number of a hash QP's TIR, by which an entry would name it, and
// makes none with LRO.)
#pragma once

#include "drivers/net/rawqp/ethdev/devx/devx.hpp"
#include "drivers/net/rawqp/ethdev/lro.hpp"
#include "drivers/net/rawqp/ethdev/steering/rss.hpp"
#include "drivers/net/rawqp/ethdev/steering/shared_objects.hpp"

namespace rawqp {

struct RssTir {
    DevxObject table; ///< none for one queue
    DevxObject tir;   ///< goes before the table that it refers to

    explicit operator bool() const { return bool(tir); }
};

/// By destination. Control threads only.
class RssTirs {
  public:
    RssTirs(Devx& devx, const RxQueueSet& queues) : devx_(devx), queues_(queues) {}

    /// Of TIRs from now on; there are none that live. Null: packets stay as they are.
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
