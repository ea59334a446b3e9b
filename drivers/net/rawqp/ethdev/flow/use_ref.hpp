// SPDX-License-Identifier: BSD-3-Clause
// What parts of rules use together.
#pragma once

#include <cstddef>
#include <utility>

namespace rawqp {

/// Counts its users; goes after the last one.
class Used {
  public:
    [[nodiscard]] size_t users() const { return users_; }

  protected:
    Used() = default;
    ~Used() = default;

  private:
    friend class UseRef;
    virtual void unused() = 0;

    size_t users_ = 0;
};

/// A use, given up on destruction; or none.
class UseRef {
  public:
    UseRef() = default;
    explicit UseRef(Used& of) : of_(&of) { ++of.users_; }
    UseRef(UseRef&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    UseRef& operator=(UseRef&& other) noexcept {
        std::swap(of_, other.of_);
        return *this;
    }
    ~UseRef() {
        if (of_ != nullptr && --of_->users_ == 0) of_->unused();
    }

    explicit operator bool() const { return of_ != nullptr; }
    /// What is used: the caller knows of which kind it is.
    template <class Kind> [[nodiscard]] const Kind& as() const {
        return static_cast<const Kind&>(*of_);
    }

  private:
    Used* of_ = nullptr;
};

} // namespace rawqp
