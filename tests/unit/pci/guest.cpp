// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/pci/guest.hpp"

#include <algorithm>
#include <sys/mman.h>

namespace pci_test {
namespace {

constexpr uint64_t kQueue = 0x10000, kInMailboxes = 0x20000, kOutMailboxes = 0x80000;
constexpr size_t kMailbox = 1024, kMailboxData = 512, kInline = 16;
constexpr uint8_t kToken = 0x5a;
constexpr uint32_t kQueueHigh = 0x10, kQueueLow = 0x14, kDoorbell = 0x18;

/// Writes a buffer's bytes from 16 on to a chain of mailboxes, or reads them back.
template <class Copy>
void along_mailboxes(std::byte* memory, uint64_t at, size_t bytes, Copy copy) {
    for (size_t done = kInline; done < bytes; done += kMailboxData, at += kMailbox) {
        std::byte* const mailbox = memory + at;
        copy(mailbox, done, std::min(kMailboxData, bytes - done));
        net::store_be<uint64_t>(mailbox + 560, at + kMailbox);
        mailbox[573] = std::byte{kToken};
    }
}

} // namespace

Guest::Guest(uint8_t steering_format) {
    auto own_wire = std::make_unique<testbed::FakeWire>();
    wire = own_wire.get();
    device = std::make_unique<core::Device>(
        core::DeviceConfig{.mac = {2, 0, 0, 0, 0, 1}, .steering_format = steering_format},
        std::move(own_wire), nullptr);
    function = std::make_unique<Function>(*device, 100000, prm::Users::steering);
    function->interrupts().deliver_by([this](uint64_t address, uint32_t data) {
        messages.push_back({address, data});
    });
    memory_file = Fd(memfd_create("guest", MFD_CLOEXEC));
    EXPECT_EQ(ftruncate(memory_file.get(), kMemory), 0);
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, MAP_SHARED, memory_file.get(), 0));
    function->with_memory(
        [&](GuestMemory& memory) { EXPECT_TRUE(memory.add(memory_file.get(), 0, 0, kMemory)); });
    set_command_queue();
}

void Guest::set_command_queue() {
    write_register(kQueueHigh, 0);
    write_register(kQueueLow, kQueue);
}

Guest::~Guest() {
    function.reset(); // before its device
    munmap(memory_, kMemory);
}

uint64_t Guest::alloc(size_t bytes) {
    const uint64_t address = next_;
    next_ += (bytes + kPage - 1) / kPage * kPage;
    EXPECT_LE(next_, kMemory);
    return address;
}

uint8_t Guest::post(std::span<const uint8_t, kSlotBytes> slot) {
    std::memcpy(at(kQueue), slot.data(), slot.size());
    write_register(kDoorbell, 1);
    return static_cast<uint8_t>(at(kQueue)[kSlotBytes - 1]);
}

Answer Guest::execute(const Request& request, size_t out_bytes) {
    std::byte* const slot = at(kQueue);
    const size_t mailboxes = request.in.size() / kMailboxData + 1;
    const uint64_t in_mailboxes = kInMailboxes + mailboxes * kMailbox <= kOutMailboxes
                                      ? kInMailboxes
                                      : alloc(mailboxes * kMailbox);
    std::memset(slot, 0, kSlotBytes);
    slot[0] = std::byte{7};
    net::store_be(slot + 4, static_cast<uint32_t>(request.in.size()));
    net::store_be(slot + 8, in_mailboxes);
    std::memcpy(slot + 16, request.in.data(), std::min(request.in.size(), kInline));
    net::store_be(slot + 48, kOutMailboxes);
    net::store_be(slot + 56, static_cast<uint32_t>(out_bytes));
    slot[60] = std::byte{kToken};
    slot[63] = std::byte{1};
    along_mailboxes(memory_, in_mailboxes, request.in.size(),
                    [&](std::byte* mailbox, size_t done, size_t part) {
                        std::memcpy(mailbox, request.in.data() + done, part);
                    });
    along_mailboxes(memory_, kOutMailboxes, out_bytes, [](std::byte*, size_t, size_t) {});
    write_register(kDoorbell, 1);
    Answer answer;
    answer.delivery = static_cast<uint8_t>(slot[63]);
    answer.out.resize(std::max(out_bytes, kInline));
    std::memcpy(answer.out.data(), slot + 32, kInline);
    along_mailboxes(memory_, kOutMailboxes, out_bytes,
                    [&](const std::byte* mailbox, size_t done, size_t part) {
                        std::memcpy(answer.out.data() + done, mailbox, part);
                    });
    return answer;
}

Number Guest::made(const Request& request) {
    const Answer answer = execute(request);
    EXPECT_EQ(answer.delivery, 0);
    EXPECT_EQ(answer.status(), FwStatus::ok)
        << "opcode " << std::hex << net::load_be<uint16_t>(request.in.data());
    return answer.number();
}

void Guest::load_driver() {
    set_command_queue();
    start_driver();
}

void Guest::start_driver() {
    ASSERT_EQ(status_of(REQUEST(ENABLE_HCA, enable_hca)), FwStatus::ok);
    ASSERT_EQ(status_of(REQUEST(INIT_HCA, init_hca)), FwStatus::ok);
    constexpr Field kUid{16, 16};
    uar = made(REQUEST(ALLOC_UAR, alloc_uar).set(kUid, kSharedUid));
    eq_ring = alloc(kPage);
    constexpr Field kContext = PRM(create_eq_in, eq_context_entry);
    Request request = REQUEST(CREATE_EQ, create_eq);
    request.set(kUid, kSharedUid); // as Linux does for completion EQs
    request.set(inside(kContext, PRM(eqc, log_eq_size)), 6);
    request.set(inside(kContext, PRM(eqc, uar_page)), uar);
    request.set(inside(kContext, PRM(eqc, intr)), 3);
    request.set(PRM(create_eq_in, event_bitmask[0]), 1u << 9 | 1u << 4 | 1u << 5);
    eq = made(request.page(eq_ring));
    pd = made(REQUEST(ALLOC_PD, alloc_pd));
    domain = made(REQUEST(ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain));
}

void Guest::enable_msix() {
    constexpr uint64_t kTable = BarLayout::kMsixTable, kEntry = Interrupts::kEntryBytes;
    for (uint32_t vector = 0; vector < 4; vector++) {
        function->bar_write(kTable + vector * kEntry, 0xfee00000, 4);
        function->bar_write(kTable + vector * kEntry + 8, 0x40 + vector, 4);
        function->bar_write(kTable + vector * kEntry + 12, 0, 4);
    }
    const uint32_t msix = function->config_read(0x61, 1); // after PCI Express
    function->config_write(msix + 2, 0x8000, 2);
}

Request Guest::cq_request(uint8_t log_entries, uint64_t doorbell) {
    constexpr Field kContext = PRM(create_cq_in, cq_context);
    Request request = REQUEST(CREATE_CQ, create_cq);
    request.set(inside(kContext, PRM(cqc, log_cq_size)), log_entries);
    request.set(inside(kContext, PRM(cqc, uar_page)), uar);
    request.set(inside(kContext, PRM(cqc, c_eqn_or_apu_element)), eq);
    request.set(inside(kContext, PRM(cqc, dbr_addr)), doorbell);
    const uint64_t pages = ((uint64_t{64} << log_entries) + kPage - 1) / kPage;
    const uint64_t ring = alloc(std::min<uint64_t>(pages, 16) * kPage);
    std::memset(at(ring), 0xff, kPage);
    for (uint64_t page = 0; page < std::min<uint64_t>(pages, 16); page++)
        request.page(ring + page * kPage);
    return request;
}

Request Guest::sq_request(Number cqn, Number tis) {
    constexpr Field kContext = PRM(create_sq_in, ctx), kWq = inside(kContext, PRM(sqc, wq));
    Request request = REQUEST(CREATE_SQ, create_sq);
    request.set(inside(kContext, PRM(sqc, cqn)), cqn);
    request.set(inside(kContext, PRM(sqc, tis_lst_sz)), tis != 0);
    request.set(inside(kContext, PRM(sqc, tis_num_0)), tis);
    request.set(inside(kWq, PRM(wq, wq_type)), 1);
    request.set(inside(kWq, PRM(wq, pd)), pd);
    request.set(inside(kWq, PRM(wq, uar_page)), uar);
    request.set(inside(kWq, PRM(wq, dbr_addr)), alloc(kPage));
    request.set(inside(kWq, PRM(wq, log_wq_stride)), 6);
    request.set(inside(kWq, PRM(wq, log_wq_sz)), 6);
    return request.page(alloc(kPage));
}

Request Guest::rq_request(Number cqn) {
    constexpr Field kContext = PRM(create_rq_in, ctx), kWq = inside(kContext, PRM(rqc, wq));
    Request request = REQUEST(CREATE_RQ, create_rq);
    request.set(inside(kContext, PRM(rqc, cqn)), cqn);
    request.set(inside(kContext, PRM(rqc, vsd)), 1);
    request.set(inside(kWq, PRM(wq, wq_type)), 1);
    request.set(inside(kWq, PRM(wq, pd)), pd);
    request.set(inside(kWq, PRM(wq, dbr_addr)), alloc(kPage));
    request.set(inside(kWq, PRM(wq, log_wq_stride)), 4);
    request.set(inside(kWq, PRM(wq, log_wq_sz)), 6);
    return request.page(alloc(kPage));
}

Request Guest::tir_request(Number rqn) {
    constexpr Field kContext = PRM(create_tir_in, ctx);
    Request request = REQUEST(CREATE_TIR, create_tir);
    request.set(inside(kContext, PRM(tirc, inline_rqn)), rqn);
    request.set(inside(kContext, PRM(tirc, transport_domain)), domain);
    return request;
}

Request Guest::rqt_request(const std::vector<Number>& rqns) {
    constexpr Field kContext = PRM(create_rqt_in, rqt_context);
    Request request = REQUEST(CREATE_RQT, create_rqt);
    request.set(inside(kContext, PRM(rqtc, rqt_max_size)), rqns.size());
    request.set(inside(kContext, PRM(rqtc, rqt_actual_size)), rqns.size());
    for (const Number rqn : rqns) {
        request.in.resize(request.in.size() + 4);
        net::store_be<uint32_t>(request.in.data() + request.in.size() - 4, rqn);
    }
    return request;
}

Request Guest::table_request(uint8_t level, uint8_t type) {
    constexpr Field kContext = PRM(create_flow_table_in, flow_table_context);
    Request request = REQUEST(CREATE_FLOW_TABLE, create_flow_table);
    request.set(PRM(create_flow_table_in, table_type), type);
    request.set(inside(kContext, PRM(flow_table_context, level)), level);
    request.set(inside(kContext, PRM(flow_table_context, log_size)), 4);
    return request;
}

Request Guest::group_request(Number table, uint32_t first, uint32_t last) {
    Request request = REQUEST(CREATE_FLOW_GROUP, create_flow_group);
    request.set(PRM(create_flow_group_in, table_id), table);
    request.set(PRM(create_flow_group_in, start_flow_index), first);
    return request.set(PRM(create_flow_group_in, end_flow_index), last);
}

Request Guest::entry_request(Number table, Number group, uint32_t index, Number tir) {
    constexpr Field kContext = PRM(set_fte_in, flow_context);
    Request request = REQUEST(SET_FLOW_TABLE_ENTRY, set_fte);
    request.set(PRM(set_fte_in, table_id), table);
    request.set(PRM(set_fte_in, flow_index), index);
    request.set(inside(kContext, PRM(flow_context, group_id)), group);
    request.set(inside(kContext, PRM(flow_context, action)), MLX5_FLOW_CONTEXT_ACTION_FWD_DEST);
    request.set(inside(kContext, PRM(flow_context, destination_list_size)), 1);
    return request.page(uint64_t{2u << 24 | tir} << 32);
}

Request Guest::root_request(Number table, uint8_t type) {
    Request request = REQUEST(SET_FLOW_TABLE_ROOT, set_flow_table_root);
    request.set(PRM(set_flow_table_root_in, table_type), type);
    return request.set(PRM(set_flow_table_root_in, table_id), table);
}

Request Guest::modify_rq(Number rqn, uint8_t from, uint8_t to) {
    Request request = REQUEST(MODIFY_RQ, modify_rq);
    request.set(PRM(modify_rq_in, rqn), rqn).set(PRM(modify_rq_in, rq_state), from);
    return request.set(inside(PRM(modify_rq_in, ctx), PRM(rqc, state)), to);
}

Request Guest::mkey_request(uint64_t memory, uint64_t bytes) {
    constexpr Field kContext = PRM(create_mkey_in, memory_key_mkey_entry);
    Request request = REQUEST(CREATE_MKEY, create_mkey);
    request.set(inside(kContext, PRM(mkc, pd)), pd);
    request.set(inside(kContext, PRM(mkc, access_mode_1_0)), 1);
    request.set(inside(kContext, PRM(mkc, lw)), 1);
    request.set(inside(kContext, PRM(mkc, start_addr)), memory);
    request.set(inside(kContext, PRM(mkc, len)), bytes);
    request.set(inside(kContext, PRM(mkc, log_page_size)), 12);
    const uint64_t pages = (bytes + kPage - 1) / kPage;
    request.set(PRM(create_mkey_in, translations_octword_actual_size), (pages + 1) / 2);
    for (uint64_t page = 0; page < (pages + 1) / 2 * 2; page++)
        request.page(memory + page * kPage);
    return request;
}

} // namespace pci_test
