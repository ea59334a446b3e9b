// SPDX-License-Identifier: BSD-3-Clause
// Objects that several owners share, used by one thread at a time. References are counted per rule:
// with std::shared_ptr each would cost two words and, in a multi-threaded process, two locked
// instructions.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace rawqp {

template <class T> class Ref;

/// A T with its count of references, made by make_ref().
template <class T> class Counted final : public T {
  public:
    template <class... Arguments>
    explicit Counted(Arguments&&... arguments) : T{std::forward<Arguments>(arguments)...} {}

  private:
    template <class> friend class Ref;
    size_t references_ = 0;
};

/// Owns its object jointly with the others; null: none. Control threads only.
template <class T> class Ref {
    using Object = Counted<std::remove_const_t<T>>;

  public:
    Ref() = default;
    Ref(std::nullptr_t) {} // NOLINT(google-explicit-constructor): like a pointer
    Ref(const Ref& other) : Ref(other.object_) {}
    Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    /// For reading only.
    Ref(const Ref<std::remove_const_t<T>>& other) // NOLINT(google-explicit-constructor)
        requires std::is_const_v<T> : Ref(other.object_) {}
    Ref& operator=(Ref other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Ref() {
        if (object_ != nullptr && --object_->references_ == 0) delete object_;
    }
    /// A reference to an object that others already refer to.
    [[nodiscard]] static Ref to(T& object) { return Ref(static_cast<Object*>(&object)); }

    [[nodiscard]] T* get() const { return object_; }
    [[nodiscard]] T& operator*() const { return *object_; }
    [[nodiscard]] T* operator->() const { return object_; }
    [[nodiscard]] explicit operator bool() const { return object_ != nullptr; }
    [[nodiscard]] size_t use_count() const { return object_ != nullptr ? object_->references_ : 0; }
    /// Whether both refer to the same object.
    friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }

  private:
    template <class> friend class Ref;
    template <class U, class... Arguments> friend Ref<U> make_ref(Arguments&&... arguments);

    explicit Ref(Object* object) : object_(object) {
        if (object_ != nullptr) ++object_->references_;
    }

    Object* object_ = nullptr;
};

template <class T, class... Arguments> [[nodiscard]] Ref<T> make_ref(Arguments&&... arguments) {
    return Ref<T>(new Counted<std::remove_const_t<T>>(std::forward<Arguments>(arguments)...));
}

} // namespace rawqp
