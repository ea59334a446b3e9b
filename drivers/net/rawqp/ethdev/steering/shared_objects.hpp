// SPDX-License-Identifier: BSD-3-Clause
// Objects of the device that rules share.
#pragma once

#include <array>
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

/// The shared parts of one rule, which are few: the last one added goes first, as it may refer to
/// others.
class PartList {
  public:
    PartList() = default;
    PartList(PartList&&) = default;
    PartList& operator=(PartList&& other) noexcept {
        clear();
        few_ = std::move(other.few_);
        more_ = std::move(other.more_);
        return *this;
    }
    ~PartList() = default;

    /// Room for another one.
    [[nodiscard]] PartRef& add() {
        for (PartRef& part : few_)
            if (part == nullptr) return part;
        if (more_ == nullptr) more_ = std::make_unique<PartList>();
        return more_->add();
    }
    void clear() {
        more_.reset();
        for (size_t left = few_.size(); left > 0; --left)
            few_[left - 1].reset();
    }

  private:
    /// As many as an entry of a table has, except for those with objects of their own: its table,
    /// its TIR, rewriting, reformatting and itself.
    std::array<PartRef, 5> few_;
    std::unique_ptr<PartList> more_;
};

/// Owns objects, keyed by what they are made from: made for the first rule, destroyed after the
/// last one.
template <class Key, class Object> class SharedObjects {
  public:
    /// Adds a use, which `use` holds. Null with errno. `make(key)` returns the object, or a false
    /// one with errno.
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
