// SPDX-License-Identifier: BSD-3-Clause
// What the functions of the provider in fake_rdma.hpp share: the device that answers, its records
// and its objects.
#pragma once

#include "tests/unit/verbs/fake_rdma.hpp"

#include <algorithm>
#include <cerrno>

namespace verbs_test {

/// Has access to FakeRdma's records.
struct FakeVerbs {
    static inline FakeRdma* device = nullptr; ///< the last one created

    template <class T> static T* made(const char* kind, T* object) {
        ++device->alive_[kind];
        return object;
    }
    template <class T> static int gone(const char* kind, T* object) {
        --device->alive_[kind];
        delete object;
        return 0;
    }
    static void gone_list(const char* kind, ibv_device** list) {
        --device->alive_[kind];
        delete[] list;
    }
    /// The same for objects that tests can look at while they exist.
    template <class Object, class Kept>
    static Object* kept(const char* kind, std::vector<std::unique_ptr<Kept>>& all, Object* object) {
        all.emplace_back(object);
        return made(kind, object);
    }
    template <class Kept>
    static int dropped(const char* kind, std::vector<std::unique_ptr<Kept>>& all, Kept* object) {
        const auto has = [&](const auto& each) { return each.get() == object; };
        const auto found = std::find_if(all.begin(), all.end(), has);
        if (found == all.end()) return EINVAL;
        all.erase(found);
        --device->alive_[kind];
        return 0;
    }
    /// Whether no existing object of `all` uses the one in question.
    template <class Kept, class Uses>
    static bool free_of(const std::vector<std::unique_ptr<Kept>>& all, Uses uses) {
        return std::none_of(all.begin(), all.end(), [&](const auto& each) { return uses(*each); });
    }
    template <class Object> static Object* failed(int error) {
        errno = error;
        return nullptr;
    }
    /// Returns true, with errno set, if the call is to fail.
    static bool refused(const char* name) {
        errno = device->enter(name);
        return errno != 0;
    }
    static int entered(const char* name) { return device->enter(name); }
    static void check(bool right, const char* violation) { device->check(right, violation); }
    static uint32_t next_number() { return device->next_number_++; }
    static std::vector<std::unique_ptr<ibv_device>>& devices() { return device->devices_; }
    static int event_fd() { return device->event_pipe_[0]; }
    static void acknowledge() { ++device->acknowledged_; }
};

} // namespace verbs_test
