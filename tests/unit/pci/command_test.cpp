// SPDX-License-Identifier: BSD-3-Clause
// Firmware commands as only a guest gives them: through mailboxes, about its memory and what its
// driver has; and failures that are injected. What is the same for processes is in tests/unit/prm.
#include "app/softhca/pci/control.hpp"
#include "tests/unit/pci/guest.hpp"

#include <nlohmann/json.hpp>

namespace pci_test {
namespace {

class CommandTest : public Guest {
  protected:
    CommandTest() {
        start_driver();
        cq = made(cq_request(6, alloc(kPage)));
    }
    Number cq = 0;
};

Request with_number(uint16_t opcode, Number number) { return Request(opcode, 64).number(number); }

TEST_F(CommandTest, UnknownAndShortCommandsAreRefused) {
    EXPECT_EQ(status_of(Request(0x7ff, 64)), FwStatus::bad_operation);
    EXPECT_EQ(status_of(Request(MLX5_CMD_OP_CREATE_CQ, 32)), FwStatus::bad_input_length);
    EXPECT_EQ(status_of(Request(MLX5_CMD_OP_CREATE_CQ, 8)), FwStatus::bad_input_length);
}

TEST_F(CommandTest, MailboxesOutsideMemoryAreADeliveryError) {
    constexpr uint64_t kSlot = 0x10000;
    execute(REQUEST(QUERY_ISSI, query_issi));
    const auto run = [&](uint64_t in_mailbox, uint64_t out_mailbox, uint8_t token) {
        net::store_be(at(kSlot + 8), in_mailbox);
        net::store_be(at(kSlot + 48), out_mailbox);
        at(kSlot + 4)[3] = std::byte{64};
        *at(kSlot + 60) = std::byte{token};
        *at(kSlot + 63) = std::byte{1};
        write_register(0x18, 1);
        return static_cast<int>(*at(kSlot + 63)) >> 1;
    };
    EXPECT_EQ(run(kMemory, 0x80000, 0x5a), 5);
    EXPECT_EQ(run(~uint64_t{0} - 7, 0x80000, 0x5a), 5);
    EXPECT_EQ(run(0x20000, 0x80000, 1), 5);
    EXPECT_EQ(run(0x20000, kMemory - 8, 0x5a), 4);
    EXPECT_EQ(run(0x20000, 0x80000, 0x5a), 0);
}

/// As mlx5_ib registers 1 GiB when it may not do so by UMR: the list alone is 2 MiB.
TEST_F(CommandTest, AKeyListsThePagesOfMoreThanAGigabyte) {
    constexpr uint64_t kPages = (1u << 18) + 2;
    constexpr Field kContext = PRM(create_mkey_in, memory_key_mkey_entry);
    const uint64_t memory = alloc(2 * kPage);
    Request request = mkey_request(memory, 2 * kPage);
    request.set(inside(kContext, PRM(mkc, len)), kPages * kPage);
    request.set(PRM(create_mkey_in, translations_octword_actual_size), kPages / 2);
    for (uint64_t page = 2; page < kPages; page++)
        request.page(memory + page % 2 * kPage);
    const uint32_t lkey = made(request) << 8;
    const std::array<std::byte, 4> data{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
    EXPECT_TRUE(device->write_memory(lkey, memory + (kPages - 1) * kPage + 8, data));
    EXPECT_EQ(std::memcmp(at(memory + kPage + 8), data.data(), data.size()), 0);
}

TEST_F(CommandTest, ALongCommandNeedsAllItsMailboxes) {
    constexpr uint32_t kMost = 64u << 20;
    execute(REQUEST(QUERY_ISSI, query_issi));
    const auto run = [&](uint32_t length) {
        constexpr uint64_t kSlot = 0x10000;
        net::store_be(at(kSlot + 4), length);
        *at(kSlot + 63) = std::byte{1};
        write_register(0x18, 1);
        return static_cast<int>(*at(kSlot + 63)) >> 1;
    };
    EXPECT_EQ(run(64), 0);
    EXPECT_EQ(run(kMost), 5) << "the chain has one mailbox";
    EXPECT_EQ(run(kMost + 1), 7);
}

/// Those of a process are the kernel's: its firmware does not have these commands.
TEST_F(CommandTest, TheDriversOwnObjectsAreBusyUntilTheirUsersAreGone) {
    const Request destroy_eq = with_number(MLX5_CMD_OP_DESTROY_EQ, eq);
    const Request dealloc_uar = with_number(MLX5_CMD_OP_DEALLOC_UAR, uar);
    EXPECT_EQ(status_of(destroy_eq), FwStatus::resource_busy) << "the CQ has it";
    EXPECT_EQ(status_of(dealloc_uar), FwStatus::resource_busy) << "the CQ and the EQ have it";
    EXPECT_EQ(status_of(with_number(MLX5_CMD_OP_DESTROY_CQ, cq)), FwStatus::ok);
    EXPECT_EQ(status_of(dealloc_uar), FwStatus::resource_busy) << "the EQ has it";
    for (const Request& request : {destroy_eq, dealloc_uar}) {
        EXPECT_EQ(status_of(request), FwStatus::ok);
        EXPECT_EQ(status_of(request), FwStatus::bad_resource);
    }
    EXPECT_EQ(status_of(with_number(MLX5_CMD_OP_QUERY_EQ, eq)), FwStatus::bad_resource);
}

TEST_F(CommandTest, RingsAndRecordsLieInMemory) {
    EXPECT_EQ(status_of(cq_request(16, alloc(kPage))), FwStatus::bad_parameter) << "too few pages";
    EXPECT_EQ(status_of(cq_request(6, kMemory)), FwStatus::bad_parameter)
        << "record outside memory";
    EXPECT_EQ(status_of(cq_request(6, alloc(kPage) + 4)), FwStatus::bad_parameter) << "alignment";
    Request outside = cq_request(6, alloc(kPage));
    net::store_be(outside.in.data() + outside.in.size() - 8, kMemory);
    EXPECT_EQ(status_of(outside), FwStatus::bad_parameter);
    Request no_pages = cq_request(6, alloc(kPage));
    no_pages.in.resize(no_pages.in.size() - 8);
    no_pages.set(inside(PRM(create_cq_in, cq_context), PRM(cqc, page_offset)), 3);
    EXPECT_EQ(status_of(no_pages), FwStatus::bad_parameter);
    EXPECT_EQ(status_of(mkey_request(kMemory - kPage, 2 * kPage)), FwStatus::bad_parameter);
}

TEST_F(CommandTest, QpsOfTransportsAreRefused) {
    const Field transport = inside(PRM(create_qp_in, qpc), PRM(qpc, st));
    const Field page = inside(PRM(create_qp_in, qpc), PRM(qpc, uar_page));
    for (const uint64_t rc_uc_ud : {0, 1, 2})
        EXPECT_EQ(status_of(REQUEST(CREATE_QP, create_qp).set(transport, rc_uc_ud).set(page, uar)),
                  FwStatus::bad_parameter);
}

TEST_F(CommandTest, CqsCompressInKnownFormats) {
    const auto create = [&](uint64_t format, uint64_t size) {
        return status_of(
            cq_request(6, alloc(kPage))
                .set(inside(PRM(create_cq_in, cq_context), PRM(cqc, cqe_comp_en)), 1)
                .set(inside(PRM(create_cq_in, cq_context), PRM(cqc, mini_cqe_res_format)), format)
                .set(inside(PRM(create_cq_in, cq_context), PRM(cqc, cqe_sz)), size));
    };
    for (const uint64_t known : {0, 1, 3})
        EXPECT_EQ(create(known, 0), FwStatus::ok) << known;
    EXPECT_EQ(create(2, 0), FwStatus::bad_parameter);
}

TEST_F(CommandTest, PagesComeBackAsTheyWereGiven) {
    Request give = REQUEST(MANAGE_PAGES, manage_pages, 1);
    give.set(PRM(manage_pages_in, input_num_entries), 3);
    for (const uint64_t page : {0x5000, 0x6000, 0x7000})
        give.page(page);
    ASSERT_EQ(status_of(give), FwStatus::ok);
    const Request take =
        REQUEST(MANAGE_PAGES, manage_pages, 2).set(PRM(manage_pages_in, input_num_entries), 8);
    const Answer taken = execute(take);
    EXPECT_EQ(taken.get(PRM(manage_pages_out, output_num_entries)), 3);
    uint64_t sum = 0;
    for (size_t i = 0; i < 3; i++)
        sum += net::load_be<uint64_t>(taken.out.data() + 16 + 8 * i);
    EXPECT_EQ(sum, 0x12000u);
    EXPECT_EQ(execute(take).get(PRM(manage_pages_out, output_num_entries)), 0);
}

TEST_F(CommandTest, InjectionsAreForOpcodesThatThereMayBe) {
    const auto inject = [&](nlohmann::json opcode) {
        return control_commands(*function).at("inject")(
            {{"opcode", std::move(opcode)}, {"status", 0u}});
    };
    for (const char* name : {"CREATE_CQ", "any"})
        EXPECT_EQ(inject(name).value("ok", false), true) << name;
    EXPECT_EQ(inject(0x400u).value("ok", false), true);
    for (const unsigned none : {0u, 0x10000u, 0x10400u})
        EXPECT_TRUE(inject(none).contains("error")) << none;
}

TEST_F(CommandTest, InjectionsSkipAndCountAsTheySay) {
    const auto control = control_commands(*function);
    const auto allocated = [&] {
        const auto counts = control.at("commands")({}).at("ALLOC_PD");
        return std::pair(counts.at("done").get<int>(), counts.at("refused").get<int>());
    };
    const auto [done, refused] = allocated();
    control.at("inject")({{"opcode", "ALLOC_PD"}, {"status", 0xfu}, {"skip", 2u}, {"count", 1u}});
    std::vector<FwStatus> answers(4);
    for (FwStatus& answer : answers)
        answer = status_of(REQUEST(ALLOC_PD, alloc_pd));
    EXPECT_EQ(answers,
              (std::vector{FwStatus::ok, FwStatus::ok, FwStatus::no_resources, FwStatus::ok}));
    EXPECT_EQ(allocated(), std::pair(done + 3, refused + 1));
}

TEST_F(CommandTest, ThePortWithoutACable) {
    constexpr uint16_t kPddr = 0x5031, kMcia = 0x9014, kQuery = 1;
    constexpr Field kRegister{128, 0};
    const auto ask = [&](uint16_t id, size_t bytes, Field what, uint64_t value, Field answer) {
        return execute(Request(MLX5_CMD_OP_ACCESS_REG, 16 + bytes, kQuery)
                           .set(PRM(access_register_in, register_id), id)
                           .set(inside(kRegister, what), value))
            .get(inside(kRegister, answer));
    };
    function->with_firmware([](Firmware& firmware) { firmware.set_cable(false); });
    EXPECT_EQ(ask(kPddr, PRM_BYTES(pddr_reg), PRM(pddr_reg, page_select), 1,
                  inside(PRM(pddr_reg, page_data), PRM(pddr_troubleshooting_page, status_opcode))),
              1024u);
    EXPECT_EQ(ask(kMcia, PRM_BYTES(mcia_reg), PRM(mcia_reg, i2c_device_address), 0x50,
                  PRM(mcia_reg, status)),
              3u)
        << "nor is there a plug";
}

TEST_F(CommandTest, TheVportKeepsWhatIsChosen) {
    constexpr Field kSelect = PRM(modify_nic_vport_context_in, field_select),
                    kGiven = PRM(modify_nic_vport_context_in, nic_vport_context),
                    kMode = PRM(nic_vport_context, min_wqe_inline_mode);
    const auto kept = [&] {
        return execute(REQUEST(QUERY_NIC_VPORT_CONTEXT, query_nic_vport_context))
            .get(inside(PRM(query_nic_vport_context_out, nic_vport_context), kMode));
    };
    Request modify = REQUEST(MODIFY_NIC_VPORT_CONTEXT, modify_nic_vport_context);
    ASSERT_EQ(status_of(modify.set(inside(kGiven, kMode), 1)), FwStatus::ok);
    EXPECT_EQ(kept(), 0u);
    modify.set(inside(kSelect, PRM(modify_nic_vport_field_select, min_inline)), 1);
    ASSERT_EQ(status_of(modify), FwStatus::ok);
    EXPECT_EQ(kept(), 1u);
}

TEST_F(CommandTest, EventQueuesInterruptByVectorsThatThereAre) {
    const auto create = [&](uint32_t vector) {
        Request request = REQUEST(CREATE_EQ, create_eq);
        constexpr Field kContext = PRM(create_eq_in, eq_context_entry);
        request.set(inside(kContext, PRM(eqc, uar_page)), uar);
        request.set(inside(kContext, PRM(eqc, intr)), vector);
        return status_of(request.page(alloc(kPage)));
    };
    EXPECT_EQ(create(BarLayout::kVectors - 1), FwStatus::ok);
    EXPECT_EQ(create(BarLayout::kVectors), FwStatus::bad_parameter);
}

TEST_F(CommandTest, NoMorePagesAreTakenThanAListIsGoodFor) {
    constexpr uint32_t kAtOnce = 30000;
    Request give = REQUEST(MANAGE_PAGES, manage_pages, 1);
    give.set(PRM(manage_pages_in, input_num_entries), kAtOnce);
    for (uint64_t page = 0; page < kAtOnce; page++)
        give.page(page << 12);
    EXPECT_EQ(status_of(give), FwStatus::ok);
    EXPECT_EQ(status_of(give), FwStatus::ok);
    EXPECT_EQ(status_of(give), FwStatus::exceeded_limit);
    function->reset();
    load_driver();
    EXPECT_EQ(status_of(give), FwStatus::ok) << "a driver that starts has lent none";
}

TEST_F(CommandTest, ThePortPausesInBothDirectionsOrNone) {
    constexpr uint16_t kPfcc = 0x5007, kWrite = 0, kQuery = 1;
    constexpr Field kSends = inside({128, 0}, PRM(pfcc_reg, pptx)),
                    kHeeds = inside({128, 0}, PRM(pfcc_reg, pprx)),
                    kByPriority = inside({128, 0}, PRM(pfcc_reg, pfctx));
    const auto request = [&](uint16_t op_mod) {
        return Request(MLX5_CMD_OP_ACCESS_REG, 16 + PRM_BYTES(pfcc_reg), op_mod)
            .set(PRM(access_register_in, register_id), kPfcc);
    };
    const auto expect = [&](bool on) {
        const Answer answer = execute(request(kQuery));
        EXPECT_EQ(answer.get(kSends), on);
        EXPECT_EQ(answer.get(kHeeds), on);
        EXPECT_EQ(device->pause(), on);
    };
    expect(false);
    ASSERT_EQ(status_of(request(kWrite).set(kSends, 1).set(kHeeds, 1)), FwStatus::ok);
    expect(true);
    EXPECT_EQ(status_of(request(kWrite).set(kSends, 1)), FwStatus::bad_parameter);
    EXPECT_EQ(status_of(request(kWrite).set(kHeeds, 1)), FwStatus::bad_parameter);
    EXPECT_EQ(status_of(request(kWrite).set(kByPriority, 8)), FwStatus::bad_parameter);
    expect(true);
    ASSERT_EQ(status_of(request(kWrite)), FwStatus::ok);
    expect(false);
}

TEST_F(CommandTest, InjectedFailuresComeWhenAskedFor) {
    function->with_firmware([](Firmware& firmware) {
        firmware.inject(MLX5_CMD_OP_ALLOC_PD,
                        {.status = FwStatus::no_resources, .skip = 1, .count = 2});
    });
    const Request alloc = REQUEST(ALLOC_PD, alloc_pd);
    EXPECT_EQ(status_of(alloc), FwStatus::ok);
    EXPECT_EQ(status_of(alloc), FwStatus::no_resources);
    EXPECT_EQ(status_of(alloc), FwStatus::no_resources);
    EXPECT_EQ(status_of(alloc), FwStatus::ok);
    const auto counts =
        function->with_firmware([](Firmware& firmware) { return firmware.command_counts(); });
    EXPECT_EQ(counts.at("ALLOC_PD").done, 3u);
    EXPECT_EQ(counts.at("ALLOC_PD").refused, 2u);
}

TEST_F(CommandTest, AnyCommandFailsAfterSoManyOthers) {
    const auto inject = [&](uint16_t opcode, FwStatus status) {
        return function->with_firmware([&](Firmware& firmware) {
            return firmware.inject(opcode, {.status = status, .skip = 1, .count = 1});
        });
    };
    const Request alloc = REQUEST(ALLOC_PD, alloc_pd);
    EXPECT_FALSE(inject(Firmware::kAnyCommand, FwStatus::no_resources));
    EXPECT_EQ(status_of(alloc), FwStatus::ok);
    EXPECT_EQ(status_of(with_number(MLX5_CMD_OP_QUERY_CQ, cq)), FwStatus::no_resources);
    EXPECT_EQ(status_of(alloc), FwStatus::ok);
    EXPECT_FALSE(inject(Firmware::kAnyCommand, FwStatus::resource_busy))
        << "the one before has failed";
    EXPECT_EQ(status_of(alloc), FwStatus::ok);
    EXPECT_TRUE(inject(Firmware::kAnyCommand, FwStatus::ok)) << "it had one left to fail";
    EXPECT_EQ(status_of(alloc), FwStatus::ok);
    EXPECT_EQ(status_of(alloc), FwStatus::ok);

    inject(MLX5_CMD_OP_ALLOC_PD, FwStatus::resource_busy);
    inject(Firmware::kAnyCommand, FwStatus::no_resources);
    EXPECT_EQ(status_of(alloc), FwStatus::ok) << "both skip it";
    EXPECT_EQ(status_of(alloc), FwStatus::resource_busy) << "its own status goes first";
    EXPECT_EQ(status_of(alloc), FwStatus::no_resources);
    EXPECT_EQ(status_of(alloc), FwStatus::ok);

    function->with_firmware([](Firmware& firmware) {
        firmware.inject(
            Firmware::kAnyCommand,
            {.status = FwStatus::no_resources, .count = 1, .spared = {MLX5_CMD_OP_ALLOC_PD}});
    });
    EXPECT_EQ(status_of(alloc), FwStatus::ok) << "it is spared";
    EXPECT_EQ(status_of(with_number(MLX5_CMD_OP_QUERY_CQ, cq)), FwStatus::no_resources);
}

TEST_F(CommandTest, AFatalErrorStopsFirmwareUntilTheDriverResetsIt) {
    constexpr uint32_t kSeverity = 0x238, kSyndrome = 0x23c, kQueueLow = 0x14;
    EXPECT_EQ(read_register(kSyndrome), 0u);
    function->fail(0x10);
    EXPECT_EQ(read_register(kSyndrome) >> 16 & 0xff, 0x10u);
    EXPECT_NE(read_register(kSeverity) >> 31, 0u);
    EXPECT_EQ(execute(REQUEST(ALLOC_PD, alloc_pd)).delivery, 1) << "still owned by the device";
    write_register(kQueueLow, 0x10000 | 7 << 8); // software reset
    EXPECT_EQ(read_register(kQueueLow) >> 8 & 7, 1u) << "interface disabled";
    EXPECT_EQ(read_register(kSyndrome), 0u);
    write_register(kQueueLow, 0x10000);
    EXPECT_EQ(status_of(with_number(MLX5_CMD_OP_QUERY_CQ, cq)), FwStatus::bad_resource);
    start_driver();
    function->fail(0x10);
    function->reset(); // of the function, by its bus
    EXPECT_EQ(read_register(kSyndrome), 0u);
    load_driver();
}

TEST_F(CommandTest, TeardownDestroysEverything) {
    const Number rq = made(rq_request(cq));
    made(tir_request(rq));
    ASSERT_EQ(status_of(REQUEST(TEARDOWN_HCA, teardown_hca)), FwStatus::ok);
    EXPECT_EQ(status_of(with_number(MLX5_CMD_OP_QUERY_RQ, rq)), FwStatus::bad_resource);
    EXPECT_TRUE(device->alloc_pd()) << "the core goes on";
    start_driver();
}

} // namespace
} // namespace pci_test
