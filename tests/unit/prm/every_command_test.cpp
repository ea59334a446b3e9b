// SPDX-License-Identifier: BSD-3-Clause
// Each command of the table on both transports: it succeeds, and the same request returns the same
// status.
#include "tests/unit/prm/command_chains.hpp"

#include <fmt/format.h>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace prm_test {
namespace {

constexpr size_t kHeadBytes = 8, kLongest = 1024;
constexpr Number kNobodys = 0xabcde;

/// Commands with that opcode that take different paths: cut off in the header, as short as any may
/// be, long enough for all; with modifiers that exist or not; for no object, and for one that does
/// not exist.
std::vector<Request> shapes(uint16_t opcode) {
    std::vector<Request> all;
    for (const size_t bytes : {kHeadBytes, size_t{16}, kLongest})
        for (const uint16_t modifier : {0, 1, 2, 0xff}) {
            all.emplace_back(opcode, bytes, modifier);
            if (bytes > kHeadBytes) all.push_back(Request(all.back()).number(kNobodys));
        }
    return all;
}

TEST(EveryCommand, HasTheSameStatusByEitherTransport) {
    GuestTransport guest;
    ProcessTransport process;
    std::map<FwStatus, size_t> seen;
    for (const uint16_t opcode : process.opcodes())
        for (const Request& request : shapes(opcode)) {
            const FwStatus status = process.run(request).status();
            ++seen[status];
            EXPECT_EQ(guest.run(request).status(), status)
                << fmt::format("opcode {:#x}, {} bytes, modifier {}, number {:#x}", opcode,
                               request.in.size(), request.in[7], request.in[11]);
        }
    for (const FwStatus status : {FwStatus::ok, FwStatus::bad_parameter, FwStatus::bad_resource,
                                  FwStatus::bad_input_length})
        EXPECT_GT(seen[status], 50u) << static_cast<int>(status);
}

using Exchanges = std::vector<Exchange>;

/// One transport after the other, so that either one's device has the same vhca_id.
Exchanges by_guest(const CommandChain& chain, uint8_t format) {
    GuestTransport guest(format);
    Conversation talk(guest);
    chain.run(talk);
    return talk.exchanges();
}
/// Begins with what the guest's driver has sent already.
Exchanges by_process(const CommandChain& chain, uint8_t format, size_t& started) {
    ProcessTransport process(format);
    Conversation talk(process);
    start_process(talk);
    started = talk.exchanges().size();
    chain.run(talk);
    return talk.exchanges();
}

using Opcodes = std::set<uint16_t>;

/// Those that are not done, for messages.
std::string missing(const std::vector<uint16_t>& all, const Opcodes& done) {
    std::string missing;
    for (const uint16_t opcode : all)
        if (!done.contains(opcode)) missing += fmt::format(" {:#x}", opcode);
    return missing;
}

std::string name_of(const Exchange& exchange, const char* chain) {
    return fmt::format("{}: opcode {:#x}, modifier {:#x}", chain, exchange.opcode(),
                       net::load_be<uint16_t>(&exchange.request.in[6]));
}

/// The commands that succeeded; the test fails if one did not.
Opcodes done(const Exchanges& exchanges, const char* chain) {
    Opcodes done;
    for (const Exchange& one : exchanges) {
        EXPECT_EQ(one.answer.status(), FwStatus::ok) << name_of(one, chain);
        if (one.answer.status() == FwStatus::ok) done.insert(one.opcode());
    }
    return done;
}

class EachCommand : public testing::TestWithParam<uint8_t> {};

TEST_P(EachCommand, SucceedsByEitherTransport) {
    Opcodes done_by_guest{MLX5_CMD_OP_ENABLE_HCA, MLX5_CMD_OP_INIT_HCA}; // its fixture says so
    Opcodes done_by_process;
    for (const CommandChain& chain : command_chains()) {
        size_t started = 0;
        const Exchanges guest = by_guest(chain, GetParam());
        const Exchanges process = by_process(chain, GetParam(), started);
        done_by_guest.merge(done(guest, chain.name));
        done_by_process.merge(done(process, chain.name));
        ASSERT_EQ(guest.size(), process.size() - started);
        for (size_t i = 0; i < guest.size(); ++i)
            EXPECT_EQ(guest[i].answer.out, process[started + i].answer.out)
                << name_of(guest[i], chain.name);
    }
    done_by_guest.merge(done(by_guest({"guest", run_guest_chain}, GetParam()), "guest"));
    EXPECT_EQ(missing(ProcessTransport().opcodes(), done_by_process), "");
    EXPECT_EQ(missing(GuestTransport().opcodes(), done_by_guest), "");
}

/// Its pages, UARs and event queues are the kernel's: these commands are not in its firmware.
TEST_P(EachCommand, OfTheGuestsDriverIsUnknownToAProcess) {
    ProcessTransport process(GetParam());
    Conversation talk(process);
    run_guest_chain(talk);
    Opcodes refused;
    for (const Exchange& one : talk.exchanges()) {
        EXPECT_EQ(one.answer.status(), FwStatus::bad_operation) << name_of(one, "guest");
        refused.insert(one.opcode());
    }
    const std::vector<uint16_t> known = process.opcodes();
    refused.insert(known.begin(), known.end());
    EXPECT_EQ(missing(GuestTransport(GetParam()).opcodes(), refused), "");
}

INSTANTIATE_TEST_SUITE_P(SteeringFormats, EachCommand, testing::Values(0, 1));

} // namespace
} // namespace prm_test
