// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/mkey.hpp"

namespace softhca::core {

uint32_t MkeyTable::insert(MkeyAttr attr) {
    constexpr uint32_t kFirst = 2;
    for (uint32_t tried = kFirst; tried < kEntries; tried++) {
        const uint32_t index = next_;
        next_ = next_ + 1 < kEntries ? next_ + 1 : kFirst;
        if (next_ == kFirst) variant_++; // the indices come round: give them new keys
        if (entries_[index]) continue;
        const uint32_t lkey = index << 8 | attr.variant.value_or(variant_);
        entries_[index] = std::make_unique<Mkey>(
            Mkey{lkey, attr.pd, attr.iova, attr.length, attr.local_write, attr.remote_read,
                 attr.remote_write, attr.any_pd, std::move(attr.memory), std::move(attr.parts)});
        used_++;
        return lkey;
    }
    return 0;
}

Number MkeyTable::erase(uint32_t lkey) {
    const Mkey* const key = find(lkey);
    if (!key) return 0;
    const Number pd = key->pd;
    entries_[lkey >> 8].reset();
    used_--;
    return pd;
}

} // namespace softhca::core
