// SPDX-License-Identifier: BSD-3-Clause
// One owning handle per verbs object. The owner is responsible for the destruction order (members
// in reverse).
#pragma once

#include "common/verbs/api.hpp"

#include <functional>
#include <memory>
#include <type_traits>

namespace verbs {

/// Deleter that calls the destroy function of the run-time loaded library. A destroy that fails is
/// reported by report_destroy_failure (an object still in use is a bug of the owner) and retried
/// before the object's context is closed: closing alone may leave the object, as the kernel cleans
/// up only when no register of the device is mapped any more, and providers keep a QP's mapped as
/// long as the QP exists.
template <class T> struct Destroy {
    int (*destroy)(T*) = nullptr;
    const char* kind = "";
    void operator()(T* object) const;
};
void report_destroy_failure(const char* kind, int error);
/// `destroy` returns 0 on success. destroy_left() calls it once more. Both are thread-safe.
void leave_to_close(ibv_context* context, std::function<int()> destroy);
/// Retries what was left of this context, in the order of the failures: whatever kept an object
/// busy failed before it.
void destroy_left(ibv_context* context);

/// Where failures to destroy go; stderr by default. `error` is an errno value. Thread-safe.
using DestroyFailureHandler = void (*)(const char* kind, int error);
/// Returns the previous one.
DestroyFailureHandler set_destroy_failure_handler(DestroyFailureHandler function);

/// Returns what `destroy` returns.
template <class T> int destroy_object(T* object, int (*destroy)(T*), const char* kind) {
    if constexpr (std::is_same_v<T, ibv_context>) destroy_left(object);
    const int error = destroy(object);
    if (error == 0) return 0;
    report_destroy_failure(kind, error);
    // An object that does not tell its context is not a QP and keeps no register mapped.
    if constexpr (requires { object->context; })
        leave_to_close(object->context, [object, destroy] { return destroy(object); });
    return error;
}

template <class T> void Destroy<T>::operator()(T* object) const {
    destroy_object(object, destroy, kind);
}

template <class T> using Handle = std::unique_ptr<T, Destroy<T>>;

/// For callers that have to know: not 0 if the object could not be destroyed now, which has been
/// reported.
template <class T> int destroy(Handle<T>& handle) {
    const Destroy<T>& deleter = handle.get_deleter();
    return destroy_object(handle.release(), deleter.destroy, deleter.kind);
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
    void operator()(ibv_cq_ex* cq) const { destroy_object(ibv_cq_ex_to_cq(cq), destroy, "CQ"); }
};
using CqEx = std::unique_ptr<ibv_cq_ex, DestroyCqEx>;

} // namespace verbs
