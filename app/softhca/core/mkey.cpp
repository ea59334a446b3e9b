// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/mkey.hpp"

#include <utility>

namespace softhca::core {

uint32_t MkeyTable::insert(MkeyAttr attr) {
    constexpr uint32_t kFirst = 2;
    // Parts are found by their ends: otherwise keys of many keys of many parts would keep the
    // device busy for seconds.
    std::erase_if(attr.parts, [](const KeyPart& part) { return part.bytes == 0; });
    std::vector<uint64_t> part_ends;
    part_ends.reserve(attr.parts.size());
    for (uint64_t end = 0; const KeyPart& part : attr.parts)
        part_ends.push_back(end += part.bytes);
    for (uint32_t tried = kFirst; tried < kEntries; tried++) {
        const uint32_t index = next_;
        next_ = next_ + 1 < kEntries ? next_ + 1 : kFirst;
        if (next_ == kFirst) variant_++; // the indices wrap around: give them new keys
        if (entries_[index]) continue;
        const uint32_t lkey = index << 8 | attr.variant.value_or(variant_);
        entries_[index] = std::make_unique<Mkey>(
            Mkey{attr.free ? 0 : lkey, attr.pd, attr.iova, attr.length, attr.local_write,
                 attr.remote_read, attr.remote_write, attr.any_pd, std::move(attr.memory),
                 std::move(attr.parts), std::move(part_ends), lkey});
        used_++;
        return lkey;
    }
    return 0;
}

Number MkeyTable::erase(uint32_t lkey) {
    const Mkey* const key = at_index(lkey >> 8);
    if (!key || key->own_lkey != lkey) return 0;
    const Number pd = key->pd;
    entries_[lkey >> 8].reset();
    used_--;
    return pd;
}

Number MkeyTable::change(const KeyChange& change) {
    const Number index = change.lkey >> 8;
    if (index >= kEntries || !entries_[index]) return 0;
    Mkey& key = *entries_[index];
    if (key.any_pd || (!change.variant && key.own_lkey != change.lkey)) return 0;
    if (change.expects_free.value_or(key.is_free()) != key.is_free()) return 0;
    const bool free = change.free.value_or(key.is_free());
    if (change.variant) key.own_lkey = index << 8 | *change.variant;
    key.lkey = free ? 0 : key.own_lkey;
    key.local_write = change.local_write.value_or(key.local_write);
    key.remote_read = change.remote_read.value_or(key.remote_read);
    key.remote_write = change.remote_write.value_or(key.remote_write);
    return std::exchange(key.pd, change.pd.value_or(key.pd));
}

} // namespace softhca::core
