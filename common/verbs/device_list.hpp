// SPDX-License-Identifier: BSD-3-Clause
// libibverbs' list of devices: those that the kernel has and a provider supports.
#pragma once

#include "common/verbs/api.hpp"

#include <cerrno>
#include <string>
#include <vector>

namespace verbs {

/// The list, and what find() returned, are freed with this object. Not thread-safe.
class DeviceList {
  public:
    explicit DeviceList(const Api& api)
        : api_(api), list_(api.get_device_list(&count_)), error_(list_ == nullptr ? errno : 0) {}
    ~DeviceList() {
        if (list_ != nullptr) api_.free_device_list(list_);
    }
    DeviceList(const DeviceList&) = delete;
    DeviceList& operator=(const DeviceList&) = delete;

    /// Errno: 0 if there is a list.
    [[nodiscard]] int error() const { return error_; }
    /// Null: it is not in the list.
    [[nodiscard]] ibv_device* find(const std::string& name) const {
        for (int i = 0; i < count_; ++i)
            if (name == api_.get_device_name(list_[i])) return list_[i];
        return nullptr;
    }
    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> names;
        names.reserve(static_cast<size_t>(count_));
        for (int i = 0; i < count_; ++i)
            names.emplace_back(api_.get_device_name(list_[i]));
        return names;
    }

  private:
    const Api& api_;
    int count_ = 0;
    ibv_device** list_;
    int error_;
};

} // namespace verbs
