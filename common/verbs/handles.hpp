// SPDX-License-Identifier: BSD-3-Clause
// One owning handle per verbs object. Destruction order is the owner's duty (members in reverse).
#pragma once

#include "common/verbs/api.hpp"

#include <memory>

namespace verbs {

/// Deleter that calls the destroy function of the run-time loaded library. A destroy that fails is
/// reported by report_destroy_failure (an object still in use is a bug of the owner).
template <class T> struct Destroy {
    int (*destroy)(T*) = nullptr;
    const char* kind = "";
    void operator()(T* object) const;
};
void report_destroy_failure(const char* kind, int error);

/// Where failures to destroy go; stderr by default. `error` is an errno value. Thread-safe.
using DestroyFailureHandler = void (*)(const char* kind, int error);
void set_destroy_failure_handler(DestroyFailureHandler function);

template <class T> void Destroy<T>::operator()(T* object) const {
    if (const int error = destroy(object)) report_destroy_failure(kind, error);
}

template <class T> using Handle = std::unique_ptr<T, Destroy<T>>;

/// For who has to know: an errno value if the object could not be destroyed, which has been
/// reported.
template <class T> int destroy(Handle<T>& handle) {
    T* const object = handle.release();
    const int error = handle.get_deleter().destroy(object);
    if (error != 0) report_destroy_failure(handle.get_deleter().kind, error);
    return error;
}
using Context = Handle<ibv_context>;
using Pd = Handle<ibv_pd>;
using Td = Handle<ibv_td>;
using Mr = Handle<ibv_mr>;
using CompChannel = Handle<ibv_comp_channel>;
using Cq = Handle<ibv_cq>;
using Wq = Handle<ibv_wq>;
using RwqIndTable = Handle<ibv_rwq_ind_table>;
using Qp = Handle<ibv_qp>;
using Flow = Handle<ibv_flow>;

struct DestroyCqEx {
    int (*destroy)(ibv_cq*) = nullptr;
    void operator()(ibv_cq_ex* cq) const {
        if (const int error = destroy(ibv_cq_ex_to_cq(cq))) report_destroy_failure("CQ", error);
    }
};
using CqEx = std::unique_ptr<ibv_cq_ex, DestroyCqEx>;

} // namespace verbs
