// SPDX-License-Identifier: BSD-3-Clause
// Objects of the device that rules share.
#pragma once

#include <cerrno>
#include <cstddef>
#include <map>
#include <memory>

namespace rawqp {

/// Something that a rule has in the device besides itself, given back when its owner goes.
class SharedPart {
  public:
    virtual ~SharedPart() = default;
    virtual void release() = 0;
};
struct ReleasePart {
    void operator()(SharedPart* part) const { part->release(); }
};

using PartRef = std::unique_ptr<SharedPart, ReleasePart>;

/// Owning objects by what they are made from: made for the first rule, gone after the last one.
template <class Key, class Object> class SharedObjects {
  public:
    /// A use, which `use` keeps. Null with errno. `make(key)` gives the object, or a false one with
    /// errno.
    template <class Make> Object* acquire(PartRef& use, const Key& key, Make make) {
        const auto [at, fresh] = entries_.try_emplace(key); // copied if it is new

        Entry& entry = at->second;
        if (fresh) {
            entry.owner = this;
            entry.key = &at->first;
            entry.object = make(at->first);
            if (!entry.object) {
                const int error = errno;
                entries_.erase(at);
                errno = error;
                return nullptr;
            }
        }
        ++entry.users;
        use = PartRef(&entry);
        return &entry.object;
    }

  private:
    struct Entry final : SharedPart {
        SharedObjects* owner = nullptr;
        const Key* key = nullptr; ///< by which the owner knows it
        Object object{};
        size_t users = 0;

        void release() override { owner->release(*this); }
    };

    void release(Entry& entry) {
        if (--entry.users == 0) entries_.erase(entries_.find(*entry.key));
    }

    std::map<Key, Entry> entries_;
};

} // namespace rawqp
