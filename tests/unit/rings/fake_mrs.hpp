// SPDX-License-Identifier: BSD-3-Clause
// Memory regions without a device.
#pragma once

#include "common/net/endian.hpp"
#include "drivers/net/rawqp/rings/mr_table.hpp"
#include "drivers/net/rawqp/rings/ring.hpp"

namespace rings_test {

/// One region that spans all memory, until told otherwise.
class FakeMrs final : public rawqp::MrSource {
  public:
    static constexpr uint32_t kLkey = 0x00a1b200;

    FakeMrs() { table_ = &empty_; }

    bool register_address(uintptr_t address, rawqp::MrEntry& entry) override {
        if (refuse) return false;
        if (split != 0 && address < split)
            entry = make_entry(0, split, kLkey);
        else
            entry = make_entry(split, UINTPTR_MAX, split != 0 ? kLkey + 1 : kLkey);
        return true;
    }
    /// Caches must forget what they hold.
    void unregister() { generation_ = generation_ + 1; }

    bool refuse = false;
    uintptr_t split = 0; ///< addresses from here on have kLkey + 1

  private:
    static rawqp::MrEntry make_entry(uintptr_t start, uintptr_t end, uint32_t lkey) {
        return {.start = start, .end = end, .lkey = lkey, .lkey_be = net::to_be(lkey)};
    }
    rawqp::MrTable empty_;
};

} // namespace rings_test
