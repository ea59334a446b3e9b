// SPDX-License-Identifier: BSD-3-Clause
// A list that usually has one element, which needs no allocation.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace rawqp {

template <class T> class ShortList {
  public:
    using value_type = T;
    using const_iterator = const T*;

    void push_back(T element) {
        if (count_ == 0 && more_.empty()) {
            one_ = std::move(element);
        } else {
            if (more_.empty()) more_.push_back(std::move(one_));
            more_.push_back(std::move(element));
        }
        ++count_;
    }
    /// Keeps only the elements before `end`.
    void erase_from(const T* end) {
        count_ = static_cast<size_t>(end - begin());
        if (!more_.empty()) more_.resize(count_);
    }

    [[nodiscard]] T* begin() { return more_.empty() ? &one_ : more_.data(); }
    [[nodiscard]] const T* begin() const { return more_.empty() ? &one_ : more_.data(); }
    [[nodiscard]] T* end() { return begin() + count_; }
    [[nodiscard]] const T* end() const { return begin() + count_; }
    [[nodiscard]] size_t size() const { return count_; }
    [[nodiscard]] bool empty() const { return count_ == 0; }
    [[nodiscard]] T& front() { return *begin(); }
    [[nodiscard]] const T& front() const { return *begin(); }
    [[nodiscard]] T& back() { return end()[-1]; }
    [[nodiscard]] const T& operator[](size_t at) const { return begin()[at]; }

  private:
    T one_{};
    std::vector<T> more_; ///< all of them, if there are several
    size_t count_ = 0;
};

} // namespace rawqp
