// SPDX-License-Identifier: BSD-3-Clause
// The provider's side of the verbs data path: records what is posted, simulates completions.
#pragma once

#include "common/verbs/api.hpp"

#include <deque>
#include <vector>

namespace verbs_test {

struct Completion {
    uint64_t wr_id = 0;
    ibv_wc_status status = IBV_WC_SUCCESS;
    uint32_t bytes = 0;
    uint32_t tag = 0;
    unsigned wc_flags = 0;
    uint64_t ticks = 0, wallclock_ns = 0;
};

/// A CQ with both interfaces. Completions wait in `queue` for the extended one; `open` means that a
/// poll was started but not ended.
struct FakeVerbsCq {
    FakeVerbsCq() {
        handle.cq_context = this;
        handle.start_poll = [](ibv_cq_ex* cq, ibv_poll_cq_attr*) { return of(cq).start(); };
        handle.next_poll = [](ibv_cq_ex* cq) { return of(cq).next(); };
        handle.end_poll = [](ibv_cq_ex* cq) { of(cq).open = false; };
        handle.read_byte_len = [](ibv_cq_ex* cq) { return of(cq).current.bytes; };
        handle.read_flow_tag = [](ibv_cq_ex* cq) { return of(cq).current.tag; };
        handle.read_wc_flags = [](ibv_cq_ex* cq) { return of(cq).current.wc_flags; };
        handle.read_completion_ts = [](ibv_cq_ex* cq) { return of(cq).current.ticks; };
        handle.read_completion_wallclock_ns = [](ibv_cq_ex* cq) {
            return of(cq).current.wallclock_ns;
        };
        handle.read_vendor_err = [](ibv_cq_ex*) { return 0x77u; };
        handle.context = &context;
        context.ops.req_notify_cq = [](ibv_cq* cq, int) {
            ++static_cast<FakeVerbsCq*>(cq->cq_context)->armed;
            return 0;
        };
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
    int armed = 0;         ///< times that an event was asked for
    ibv_context context{}; ///< a substitute where there is no device
    ibv_cq_ex handle{};
};

template <class Request> struct Posted {
    Request request;
    std::vector<ibv_sge> sges;
};

/// Copies a chain of requests; refuses those after the next `accept` ones, like a full queue.
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

/// A receive WQ in the ready state. `misuse` counts posting in any other state.
struct FakeVerbsWq {
    FakeVerbsWq() {
        handle.owner = this;
        handle.state = IBV_WQS_RDY;
        handle.post_recv = [](ibv_wq* wq, ibv_recv_wr* request, ibv_recv_wr** bad) {
            FakeVerbsWq& self = of(wq);
            ++self.calls;
            if (wq->state != IBV_WQS_RDY) ++self.misuse;
            return record(self.posted, self.accept, request, bad);
        };
    }
    FakeVerbsWq(const FakeVerbsWq&) = delete;
    FakeVerbsWq& operator=(const FakeVerbsWq&) = delete;

    struct Handle : ibv_wq {
        FakeVerbsWq* owner = nullptr; // wq_context is the user's: ibv_create_wq sets it
    };
    static FakeVerbsWq& of(ibv_wq* wq) { return *static_cast<Handle*>(wq)->owner; }

    std::vector<Posted<ibv_recv_wr>> posted;
    size_t accept = SIZE_MAX;
    int calls = 0;
    int misuse = 0;
    Handle handle{};
};

/// A QP that takes requests by ibv_post_send and by ibv_wr_*. Both end up in `posted`, where
/// requests of one kind look like those of the other.
struct FakeVerbsQp {
    FakeVerbsQp() {
        handle.qp_base.qp_context = this;
        handle.qp_base.context = &context;
        context.ops.post_send = post_send;
        handle.wr_start = [](ibv_qp_ex* qp) { of(qp).built.clear(); };
        handle.wr_send = [](ibv_qp_ex* qp) { of(qp).begin(IBV_WR_SEND); };
        handle.wr_send_tso = [](ibv_qp_ex* qp, void* header, uint16_t bytes, uint16_t mss) {
            ibv_send_wr& request = of(qp).begin(IBV_WR_TSO);
            request.tso.hdr = header;
            request.tso.hdr_sz = bytes;
            request.tso.mss = mss;
        };
        handle.wr_set_sge = [](ibv_qp_ex* qp, uint32_t lkey, uint64_t address, uint32_t length) {
            of(qp).built.back().sges.push_back({address, length, lkey});
        };
        handle.wr_set_sge_list = [](ibv_qp_ex* qp, size_t count, const ibv_sge* sges) {
            of(qp).built.back().sges.assign(sges, sges + count);
        };
        handle.wr_set_inline_data = [](ibv_qp_ex* qp, void* data, size_t bytes) {
            of(qp).add_inline(data, bytes);
        };
        handle.wr_set_inline_data_list = [](ibv_qp_ex* qp, size_t count,
                                            const ibv_data_buf* pieces) {
            for (size_t i = 0; i < count; ++i)
                of(qp).add_inline(pieces[i].addr, pieces[i].length);
        };
        handle.wr_complete = [](ibv_qp_ex* qp) { return of(qp).complete(); };
    }
    FakeVerbsQp(const FakeVerbsQp&) = delete;
    FakeVerbsQp& operator=(const FakeVerbsQp&) = delete;

    static FakeVerbsQp& of(ibv_qp_ex* qp) {
        return *static_cast<FakeVerbsQp*>(qp->qp_base.qp_context);
    }
    static int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
        auto& self = *static_cast<FakeVerbsQp*>(qp->qp_context);
        ++self.calls;
        return record(self.posted, self.accept, request, bad);
    }
    ibv_send_wr& begin(ibv_wr_opcode opcode) {
        ibv_send_wr& request = built.emplace_back().request;
        request.wr_id = handle.wr_id;
        request.send_flags = handle.wr_flags;
        request.opcode = opcode;
        return request;
    }
    void add_inline(void* data, size_t bytes) {
        built.back().request.send_flags |= IBV_SEND_INLINE;
        built.back().sges.push_back({reinterpret_cast<uintptr_t>(data), uint32_t(bytes), 0});
    }
    int complete() {
        ++calls;
        if (built.size() > accept) return ENOMEM;
        accept -= built.size();
        posted.insert(posted.end(), built.begin(), built.end());
        return 0;
    }

    std::vector<Posted<ibv_send_wr>> posted;
    std::vector<Posted<ibv_send_wr>> built; ///< since ibv_wr_start
    size_t accept = SIZE_MAX;
    int calls = 0;
    ibv_context context{}; ///< a substitute where there is no device
    ibv_qp_ex handle{};
};

} // namespace verbs_test
