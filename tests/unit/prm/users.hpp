// SPDX-License-Identifier: BSD-3-Clause
// A user of the firmware, its memory and what it creates there.
#pragma once

#include "tests/unit/prm/transports.hpp"

namespace prm_test {

/// The requests of a user with a umem and a PD.
class UserRequests {
  public:
    explicit UserRequests(const Transport& transport)
        : memory_(transport.memory), uar_(transport.uar), eq_(transport.eq) {}

    Request umem_request(bool writable, uint64_t page_offset = 0, uint64_t pages = kPages) {
        constexpr Field kUmem = PRM(create_umem_in, umem);
        Request request = REQUEST(CREATE_UMEM, create_umem)
                              .set(inside(kUmem, PRM(umem, page_offset)), page_offset)
                              .set(inside(kUmem, PRM(umem, num_of_mtt)), pages);
        for (size_t i = 0; i < pages; i++)
            request.page(memory_ + i * kPage + (writable ? 3 : 1));
        return request;
    }
    /// 64 entries at the start of the umem, the record in its last page.
    Request cq_request(Number in_umem, uint64_t offset = 0) {
        constexpr Field kContext = PRM(create_cq_in, cq_context);
        return REQUEST(CREATE_CQ, create_cq)
            .set(inside(kContext, PRM(cqc, log_cq_size)), 6)
            .set(inside(kContext, PRM(cqc, uar_page)), uar_)
            .set(inside(kContext, PRM(cqc, c_eqn_or_apu_element)), eq_)
            .set(inside(kContext, PRM(cqc, dbr_umem_valid)), 1)
            .set(inside(kContext, Field{0x20, 32}), in_umem)
            .set(inside(kContext, PRM(cqc, dbr_addr)), (kPages - 1) * kPage)
            .set(PRM(create_cq_in, cq_umem_valid), 1)
            .set({0x2c0, 32}, in_umem)
            .set({0x280, 64}, offset);
    }
    Request queue(Request request, Field context, Field wq_at, Field cqn_at, Number cqn,
                  uint8_t log_stride) {
        const Field wq = inside(context, wq_at);
        return request.set(inside(context, cqn_at), cqn)
            .set(inside(wq, PRM(wq, wq_type)), 1)
            .set(inside(wq, PRM(wq, pd)), pd)
            .set(inside(wq, PRM(wq, uar_page)), uar_)
            .set(inside(wq, PRM(wq, log_wq_stride)), log_stride)
            .set(inside(wq, PRM(wq, log_wq_sz)), 4)
            .set(inside(wq, PRM(wq, dbr_umem_valid)), 1)
            .set(inside(wq, PRM(wq, wq_umem_valid)), 1)
            .set(inside(wq, Field{0x140, 32}), umem)
            .set(inside(wq, Field{0x160, 32}), umem)
            .set(inside(wq, Field{0x180, 64}), kPage);
    }
    Request rq_request(Number cqn) {
        return queue(REQUEST(CREATE_RQ, create_rq), PRM(create_rq_in, ctx), PRM(rqc, wq),
                     PRM(rqc, cqn), cqn, 4);
    }
    Request sq_request(Number cqn) {
        return queue(REQUEST(CREATE_SQ, create_sq), PRM(create_sq_in, ctx), PRM(sqc, wq),
                     PRM(sqc, cqn), cqn, 6);
    }
    Request mkey_request(uint64_t mode) {
        constexpr Field kContext = PRM(create_mkey_in, memory_key_mkey_entry);
        return REQUEST(CREATE_MKEY, create_mkey)
            .set(PRM(create_mkey_in, mkey_umem_valid), 1)
            .set({0x320, 32}, umem)
            .set(inside(kContext, PRM(mkc, pd)), pd)
            .set(inside(kContext, PRM(mkc, access_mode_1_0)), mode)
            .set(inside(kContext, PRM(mkc, lw)), 1)
            .set(inside(kContext, PRM(mkc, start_addr)), 0x10000)
            .set(inside(kContext, PRM(mkc, len)), 2 * kPage);
    }
    /// An SQ and an RQ at the start of the umem, the record in its second page.
    Request rc_qp_request(Number cqn) {
        constexpr Field kContext = PRM(create_qp_in, qpc);
        return REQUEST(CREATE_QP, create_qp)
            .set(inside(kContext, PRM(qpc, pd)), pd)
            .set(inside(kContext, PRM(qpc, uar_page)), uar_)
            .set(inside(kContext, PRM(qpc, cqn_snd)), cqn)
            .set(inside(kContext, PRM(qpc, cqn_rcv)), cqn)
            .set(inside(kContext, PRM(qpc, log_sq_size)), 4)
            .set(inside(kContext, PRM(qpc, log_rq_size)), 2)
            .set(inside(kContext, PRM(qpc, dbr_umem_valid)), 1)
            .set(inside(kContext, Field{0x720, 32}), umem)
            .set(inside(kContext, PRM(qpc, dbr_addr)), kPage)
            .set(PRM(create_qp_in, wq_umem_valid), 1)
            .set({0x840, 32}, umem);
    }
    static Request init2rtr_request(Number qpn, Number peer, bool force_loopback = true) {
        constexpr Field kContext = PRM(init2rtr_qp_in, qpc);
        return REQUEST(INIT2RTR_QP, init2rtr_qp)
            .number(qpn)
            .set(inside(kContext, PRM(qpc, remote_qpn)), peer)
            .set(inside(kContext, PRM(qpc, primary_address_path.fl)), force_loopback);
    }

    Number umem = 0, pd = 0;

  private:
    uint64_t memory_;
    Number uar_, eq_;
};

class UsersTest : public TransportTest, protected UserRequests {
  protected:
    UsersTest() : UserRequests(*transport) {
        umem = made(by(mine, umem_request(true)));
        pd = made(by(mine, REQUEST(ALLOC_PD, alloc_pd)));
    }
};

} // namespace prm_test
