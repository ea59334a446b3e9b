// SPDX-License-Identifier: BSD-3-Clause
// The provider's side of the verbs data path: records what is posted, plays completions.
#pragma once

#include "common/verbs/api.hpp"

#include <deque>
#include <vector>

namespace rings_test {

struct Completion {
    uint64_t wr_id = 0;
    ibv_wc_status status = IBV_WC_SUCCESS;
    uint32_t bytes = 0;
    uint32_t tag = 0;
    unsigned wc_flags = 0;
};

/// An extended CQ. Completions wait in `queue`; `open` tells that a poll was started and not ended.
struct FakeVerbsCq {
    FakeVerbsCq() {
        handle.cq_context = this;
        handle.start_poll = [](ibv_cq_ex* cq, ibv_poll_cq_attr*) { return of(cq).start(); };
        handle.next_poll = [](ibv_cq_ex* cq) { return of(cq).next(); };
        handle.end_poll = [](ibv_cq_ex* cq) { of(cq).open = false; };
        handle.read_byte_len = [](ibv_cq_ex* cq) { return of(cq).current.bytes; };
        handle.read_flow_tag = [](ibv_cq_ex* cq) { return of(cq).current.tag; };
        handle.read_wc_flags = [](ibv_cq_ex* cq) { return of(cq).current.wc_flags; };
        handle.read_vendor_err = [](ibv_cq_ex*) { return 0x77u; };
    }
    FakeVerbsCq(const FakeVerbsCq&) = delete;
    FakeVerbsCq& operator=(const FakeVerbsCq&) = delete;

    static FakeVerbsCq& of(ibv_cq_ex* cq) { return *static_cast<FakeVerbsCq*>(cq->cq_context); }
    int start() {
        if (open) ++misuse;
        const int result = next();
        open = result == 0;
        return result;
    }
    int next() {
        if (queue.empty()) return ENOENT;
        current = queue.front();
        queue.pop_front();
        handle.wr_id = current.wr_id;
        handle.status = current.status;
        return 0;
    }

    std::deque<Completion> queue;
    Completion current;
    bool open = false;
    int misuse = 0;
    ibv_cq_ex handle{};
};

template <class Request> struct Posted {
    Request request;
    std::vector<ibv_sge> sges;
};

/// Copies a chain of requests; refuses from the one after `accept` more on, as a full queue does.
template <class Request>
int record(std::vector<Posted<Request>>& log, size_t& accept, Request* request, Request** bad) {
    for (; request != nullptr; request = request->next) {
        if (accept == 0) {
            *bad = request;
            return ENOMEM;
        }
        --accept;
        log.push_back({*request, {request->sg_list, request->sg_list + request->num_sge}});
    }
    return 0;
}

struct FakeVerbsWq {
    FakeVerbsWq() {
        handle.wq_context = this;
        handle.post_recv = [](ibv_wq* wq, ibv_recv_wr* request, ibv_recv_wr** bad) {
            auto& self = *static_cast<FakeVerbsWq*>(wq->wq_context);
            ++self.calls;
            return record(self.posted, self.accept, request, bad);
        };
    }
    FakeVerbsWq(const FakeVerbsWq&) = delete;
    FakeVerbsWq& operator=(const FakeVerbsWq&) = delete;

    std::vector<Posted<ibv_recv_wr>> posted;
    size_t accept = SIZE_MAX;
    int calls = 0;
    ibv_wq handle{};
};

struct FakeVerbsQp {
    FakeVerbsQp() {
        handle.qp_context = this;
        handle.context = &context;
        context.ops.post_send = [](ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
            auto& self = *static_cast<FakeVerbsQp*>(qp->qp_context);
            ++self.calls;
            return record(self.posted, self.accept, request, bad);
        };
    }
    FakeVerbsQp(const FakeVerbsQp&) = delete;
    FakeVerbsQp& operator=(const FakeVerbsQp&) = delete;

    std::vector<Posted<ibv_send_wr>> posted;
    size_t accept = SIZE_MAX;
    int calls = 0;
    ibv_context context{};
    ibv_qp handle{};
};

} // namespace rings_test
