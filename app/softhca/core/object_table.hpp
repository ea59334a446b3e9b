// SPDX-License-Identifier: BSD-3-Clause
// The device's objects of one kind, by number.
#pragma once

#include "app/softhca/core/types.hpp"

#include <map>
#include <memory>

namespace softhca::core {

/// The objects' addresses do not change.
template <class T> class ObjectTable {
  public:
    [[nodiscard]] T* find(Number number) const {
        const auto found = objects_.find(number);
        return found == objects_.end() ? nullptr : found->second.get();
    }
    T& insert(Number number, std::unique_ptr<T> object) {
        return *(objects_[number] = std::move(object));
    }
    void erase(Number number) { objects_.erase(number); }
    [[nodiscard]] size_t size() const { return objects_.size(); }
    [[nodiscard]] bool is_full(uint8_t log_most) const { return size() >> log_most != 0; }
    [[nodiscard]] auto begin() const { return objects_.begin(); }
    [[nodiscard]] auto end() const { return objects_.end(); }

  private:
    std::map<Number, std::unique_ptr<T>> objects_;
};

} // namespace softhca::core
