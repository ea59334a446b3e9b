// SPDX-License-Identifier: BSD-3-Clause
// Random commands, registers and configuration, with fixed seeds: the function responds to all of
// it and goes on. Under ASan and UBSan this proves the bounds checks.
#include "tests/unit/pci/guest.hpp"

#include <random>

namespace pci_test {
namespace {

class FuzzTest : public Guest, public testing::WithParamInterface<uint32_t> {
  protected:
    FuzzTest() {
        opcodes = function->with_firmware([](Firmware& firmware) { return firmware.opcodes(); });
        seeds();
    }
    uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random() % limit); }

    /// Valid commands, so that random changes get deep into their handlers.
    void seeds() {
        start_driver();
        const Number cq = made(templates.emplace_back(cq_request(6, alloc(kPage))));
        const Number rq = made(templates.emplace_back(rq_request(cq)));
        const Number tir = made(templates.emplace_back(tir_request(rq)));
        const Number table = made(templates.emplace_back(table_request()));
        const Number group = made(templates.emplace_back(group_request(table, 0, 3)));
        templates.push_back(entry_request(table, group, 1, tir));
        templates.push_back(root_request(table));
        templates.push_back(sq_request(cq, 0));
        templates.push_back(rqt_request({rq, rq, rq}));
        templates.push_back(modify_rq(rq, 0, 1));
        templates.push_back(mkey_request(alloc(4 * kPage), 4 * kPage));
        Request resize = REQUEST(MODIFY_CQ, modify_cq, 1).number(cq);
        templates.push_back(resize.page(alloc(kPage)));
        for (const Request& request : templates)
            execute(request);
        numbers = {uar, eq, pd, domain, cq, rq, tir, table, group};
    }

    Request random_command() {
        if (below(2) == 0) {
            Request request = templates[below(static_cast<uint32_t>(templates.size()))];
            for (uint32_t changes = below(6); changes > 0; changes--)
                spoil(request);
            return request;
        }
        const uint16_t opcode = below(50) == 0
                                    ? static_cast<uint16_t>(random())
                                    : opcodes[below(static_cast<uint32_t>(opcodes.size()))];
        // A reset removes the objects that make other commands interesting.
        if ((opcode == MLX5_CMD_OP_TEARDOWN_HCA || opcode == MLX5_CMD_OP_INIT_HCA) && below(20))
            return REQUEST(QUERY_ISSI, query_issi);
        Request request(opcode, below(10) ? 64 + below(1200) : 8 + below(56),
                        static_cast<uint16_t>(below(4)));
        for (uint32_t changes = below(40); changes > 0; changes--)
            spoil(request);
        if (below(2)) request.number(numbers[below(static_cast<uint32_t>(numbers.size()))]);
        return request;
    }
    /// Overwrites something after the head: a byte, a number that exists, an address.
    void spoil(Request& request) {
        if (request.in.size() <= 16) return;
        const size_t at = 8 + below(static_cast<uint32_t>(request.in.size()) - 16);
        switch (below(4)) {
        case 0: request.in[at] = static_cast<uint8_t>(random()); break;
        case 1: request.in[at] = static_cast<uint8_t>(1u << below(8)); break;
        case 2:
            net::store_be(request.in.data() + at / 4 * 4,
                          numbers[below(static_cast<uint32_t>(numbers.size()))]);
            break;
        default: net::store_be(request.in.data() + at / 8 * 8, random_address());
        }
    }
    uint64_t random_address() {
        switch (below(4)) {
        case 0: return random();
        case 1: return kMemory - below(8192);
        case 2: return ~uint64_t{0} - below(8192);
        default: return below(kMemory) & ~uint64_t{4095};
        }
    }
    void random_traffic() {
        wire->incoming.push_back(frames::build({.payload = frames::Bytes(below(1400))}));
        for (uint32_t i = 0; i < 8; i++)
            net::store_be(at((1u << 20) + below(kMemory - (1u << 20) - 8)), random());
        for (uint32_t rounds = 0; rounds < 20; rounds++)
            device->poll();
        wire->incoming.clear();
        wire->sent.clear();
    }

    std::mt19937_64 random{GetParam()};
    std::vector<uint16_t> opcodes;
    std::vector<Request> templates;
    std::vector<Number> numbers;
};

TEST_P(FuzzTest, CommandsAreAnswered) {
    for (uint32_t i = 0; i < 4000; i++) {
        const Request request = random_command();
        const Answer answer = execute(request, below(8) ? 1024 : below(64));
        EXPECT_EQ(answer.delivery & 1, 0) << "no answer";
        if (answer.status() == FwStatus::ok && answer.number() != 0 && numbers.size() < 200)
            numbers.push_back(answer.number());
        if (i % 16 == 0) random_traffic();
    }
    const auto counts =
        function->with_firmware([](Firmware& firmware) { return firmware.command_counts(); });
    uint64_t done = 0;
    for (const auto& [name, count] : counts)
        done += count.done;
    EXPECT_GT(done, 400u) << "most were refused at the door";
    function->reset();
    write_register(0x10, 0);
    write_register(0x14, 0x10000);
    start_driver();
}

TEST_P(FuzzTest, RegistersAndSlotsAreHarmless) {
    for (uint32_t i = 0; i < 20000; i++) {
        // Mostly where registers are; command slots anywhere.
        const uint64_t offset = below(4) ? below(0x8000) : below(BarLayout::kBytes + 4096);
        const uint32_t bytes = 1u << below(5);
        switch (below(4)) {
        case 0: (void)function->bar_read(offset, bytes); break;
        case 1: function->bar_write(offset, random(), bytes); break;
        case 2: (void)function->config_read(below(512), bytes); break;
        default: function->config_write(below(512), static_cast<uint32_t>(random()), bytes);
        }
        if (i % 64 != 0) continue;
        for (uint32_t words = 0; words < 64; words++)
            net::store_be(at(0x10000 + below(0x10000) / 8 * 8), random());
        write_register(0x10, 0);
        write_register(0x14, 0x10000);
        write_register(0x18, static_cast<uint32_t>(random()));
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FuzzTest, testing::Range(1u, 9u));

} // namespace
} // namespace pci_test
