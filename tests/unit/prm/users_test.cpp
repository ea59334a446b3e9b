// SPDX-License-Identifier: BSD-3-Clause
// Users of the firmware and their memory: the same commands, with the same statuses, by the command
// queue of a guest and from a process.
#include "app/softhca/uverbs/devx/port_firmware.hpp"
#include "tests/unit/pci/guest.hpp"

#include <functional>

namespace prm_test {
namespace {

constexpr size_t kPage = 4096, kPages = 8;

/// A way for commands to firmware, and what a driver has there.
class Transport {
  public:
    virtual ~Transport() = default;
    virtual Answer run(Request request) = 0;
    uint64_t memory = 0; ///< address of kPages zeroed pages
    Number eq = 0, uar = 0;
};

class GuestTransport final : public Transport, private pci_test::Guest {
  public:
    GuestTransport() {
        start_driver();
        memory = alloc(kPages * kPage);
        Transport::eq = Guest::eq;
        Transport::uar = Guest::uar;
    }
    Answer run(Request request) override { return execute(request); }

  private:
    void TestBody() override {}
};

class ProcessTransport final : public Transport {
  public:
    ProcessTransport() {
        const auto start = reinterpret_cast<uint64_t>(storage_.data());
        memory = (start + kPage - 1) & ~(kPage - 1);
        eq = uverbs::PortFirmware::eq_of(0);
        uar = firmware_.with_firmware([](Firmware& firmware) {
            firmware.objects.act_for(kSharedUid);
            firmware.objects.add(Kind::uar, 1, {});
            firmware.objects.act_for(0);
            return Number{1};
        });
    }
    Answer run(Request request) override {
        constexpr Field kUid{16, 16};
        Answer answer;
        answer.out.resize(1024);
        const auto uid =
            static_cast<uint16_t>(Fields(request.in.data(), request.in.size()).get(kUid));
        (void)firmware_.execute(request.in, answer.out, uid);
        return answer;
    }

  private:
    std::vector<std::byte> storage_ = std::vector<std::byte>((kPages + 1) * kPage);
    core::Device device_{core::DeviceConfig{.mac = {2, 0, 0, 0, 0, 1}},
                         std::make_unique<testbed::FakeWire>(), nullptr};
    uverbs::PortFirmware firmware_{device_, 100000};
};

struct Named {
    const char* name;
    std::function<std::unique_ptr<Transport>()> make;
};

class UsersTest : public testing::TestWithParam<Named> {
  protected:
    static constexpr Field kUid{16, 16};

    UsersTest() : transport(GetParam().make()) {
        mine = new_user(kRawTransmit);
        other = new_user(0);
        umem = made(by(mine, umem_request(true)));
        pd = made(by(mine, REQUEST(ALLOC_PD, alloc_pd)));
    }
    static Request by(uint16_t uid, Request request) { return request.set(kUid, uid); }
    FwStatus status(const Request& request) { return transport->run(request).status(); }
    Number made(const Request& request) {
        const Answer answer = transport->run(request);
        EXPECT_EQ(answer.status(), FwStatus::ok)
            << "opcode " << std::hex << net::load_be<uint16_t>(request.in.data());
        return answer.number();
    }
    uint16_t new_user(uint32_t caps) {
        return static_cast<uint16_t>(
            transport
                ->run(REQUEST(CREATE_UCTX, create_uctx)
                          .set(inside(PRM(create_uctx_in, uctx), PRM(uctx, cap)), caps))
                .get(PRM(create_uctx_out, uid)));
    }
    Request umem_request(bool writable) {
        constexpr Field kUmem = PRM(create_umem_in, umem);
        Request request =
            REQUEST(CREATE_UMEM, create_umem).set(inside(kUmem, PRM(umem, num_of_mtt)), kPages);
        for (size_t i = 0; i < kPages; i++)
            request.page(transport->memory + i * kPage + (writable ? 3 : 1));
        return request;
    }
    /// 64 entries at the start of the umem, the record in its last page.
    Request cq_request(Number in_umem, uint64_t offset = 0) {
        constexpr Field kContext = PRM(create_cq_in, cq_context);
        return REQUEST(CREATE_CQ, create_cq)
            .set(inside(kContext, PRM(cqc, log_cq_size)), 6)
            .set(inside(kContext, PRM(cqc, uar_page)), transport->uar)
            .set(inside(kContext, PRM(cqc, c_eqn_or_apu_element)), transport->eq)
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
            .set(inside(wq, PRM(wq, uar_page)), transport->uar)
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

    std::unique_ptr<Transport> transport;
    uint16_t mine = 0, other = 0;
    Number umem = 0, pd = 0;
};

TEST_P(UsersTest, OnlyTheDriverMakesUsers) {
    EXPECT_EQ(status(by(mine, REQUEST(CREATE_UCTX, create_uctx))), FwStatus::bad_operation);
    EXPECT_EQ(status(by(0x7777, REQUEST(ALLOC_PD, alloc_pd))), FwStatus::bad_resource) << "nobody";
    const auto destroy = REQUEST(DESTROY_UCTX, destroy_uctx).set(PRM(destroy_uctx_in, uid), mine);
    EXPECT_EQ(status(destroy), FwStatus::resource_busy) << "has objects";
    EXPECT_EQ(status(by(mine, REQUEST(DEALLOC_PD, dealloc_pd).number(pd))), FwStatus::ok);
    EXPECT_EQ(status(by(mine, REQUEST(DESTROY_UMEM, destroy_umem).number(umem))), FwStatus::ok);
    EXPECT_EQ(status(destroy), FwStatus::ok);
    EXPECT_EQ(status(destroy), FwStatus::bad_resource);
}

TEST_P(UsersTest, UsersDoNotSeeEachOther) {
    EXPECT_EQ(status(by(other, cq_request(umem))), FwStatus::bad_resource) << "umem";
    const Number cq = made(by(mine, cq_request(umem)));
    EXPECT_EQ(status(by(other, rq_request(cq))), FwStatus::bad_resource);
    EXPECT_EQ(status(by(other, REQUEST(DESTROY_CQ, destroy_cq).number(cq))),
              FwStatus::bad_resource);
    EXPECT_EQ(status(by(other, REQUEST(QUERY_CQ, query_cq).number(cq))), FwStatus::bad_resource);
    EXPECT_EQ(status(by(0, REQUEST(QUERY_CQ, query_cq).number(cq))), FwStatus::ok) << "the driver";
    EXPECT_EQ(status(by(mine, REQUEST(QUERY_CQ, query_cq).number(cq))), FwStatus::ok);
}

TEST_P(UsersTest, RingsLieInsideUmems) {
    EXPECT_EQ(status(by(mine, cq_request(umem, kPages * kPage))), FwStatus::bad_parameter);
    EXPECT_EQ(status(by(mine, cq_request(umem, ~uint64_t{0}))), FwStatus::bad_parameter);
    EXPECT_EQ(status(by(mine, cq_request(umem, 8))), FwStatus::bad_parameter) << "alignment";
    EXPECT_EQ(status(by(mine, cq_request(0xabcde))), FwStatus::bad_resource);
    const Number to_read = made(by(mine, umem_request(false)));
    EXPECT_EQ(status(by(mine, cq_request(to_read))), FwStatus::bad_parameter) << "CQEs are written";
    EXPECT_EQ(status(by(mine, cq_request(umem, kPage))), FwStatus::ok);
}

TEST_P(UsersTest, WhatIsUsedStays) {
    const Number cq = made(by(mine, cq_request(umem)));
    const Number rq = made(by(mine, rq_request(cq)));
    const Request destroy_umem = by(mine, REQUEST(DESTROY_UMEM, destroy_umem).number(umem));
    EXPECT_EQ(status(destroy_umem), FwStatus::resource_busy);
    EXPECT_EQ(status(by(mine, REQUEST(DESTROY_RQ, destroy_rq).number(rq))), FwStatus::ok);
    EXPECT_EQ(status(destroy_umem), FwStatus::resource_busy);
    EXPECT_EQ(status(by(mine, REQUEST(DESTROY_CQ, destroy_cq).number(cq))), FwStatus::ok);
    EXPECT_EQ(status(destroy_umem), FwStatus::ok);
    EXPECT_EQ(status(destroy_umem), FwStatus::bad_resource);
}

TEST_P(UsersTest, RawTransmissionIsARight) {
    const Number cq = made(by(mine, cq_request(umem)));
    EXPECT_EQ(status(by(mine, sq_request(cq))), FwStatus::ok);
    const uint16_t unprivileged = other;
    umem = made(by(unprivileged, umem_request(true)));
    pd = made(by(unprivileged, REQUEST(ALLOC_PD, alloc_pd)));
    const Number own_cq = made(by(unprivileged, cq_request(umem)));
    EXPECT_EQ(status(by(unprivileged, sq_request(own_cq))), FwStatus::bad_parameter);
    EXPECT_EQ(status(by(unprivileged, rq_request(own_cq))), FwStatus::ok);
}

TEST_P(UsersTest, KeysAreMadeOfUmems) {
    constexpr uint64_t kPhysical = 0, kPaged = 1;
    EXPECT_EQ(status(by(mine, mkey_request(kPaged))), FwStatus::ok);
    EXPECT_EQ(status(by(mine, mkey_request(kPhysical))), FwStatus::bad_parameter);
    EXPECT_EQ(status(by(mine, mkey_request(kPaged).set({0x320, 32}, 0xabcde))),
              FwStatus::bad_resource);
    const Field length = inside(PRM(create_mkey_in, memory_key_mkey_entry), PRM(mkc, len));
    EXPECT_EQ(status(by(mine, mkey_request(kPaged).set(length, (kPages + 1) * kPage))),
              FwStatus::bad_parameter);
}

TEST_P(UsersTest, UmemsHaveTheirPages) {
    const Field count = inside(PRM(create_umem_in, umem), PRM(umem, num_of_mtt));
    EXPECT_EQ(status(by(mine, umem_request(true).set(count, kPages + 1))),
              FwStatus::bad_input_length);
    EXPECT_EQ(status(by(mine, umem_request(true).set(count, 0))), FwStatus::bad_parameter);
    EXPECT_EQ(
        status(by(mine, umem_request(true).set(
                            inside(PRM(create_umem_in, umem), PRM(umem, page_offset)), kPage))),
        FwStatus::bad_parameter);
}

INSTANTIATE_TEST_SUITE_P(
    Transports, UsersTest,
    testing::Values(Named{"Guest", [] { return std::make_unique<GuestTransport>(); }},
                    Named{"Process", [] { return std::make_unique<ProcessTransport>(); }}),
    [](const auto& test) { return std::string(test.param.name); });

} // namespace
} // namespace prm_test
