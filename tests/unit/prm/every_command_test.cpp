// SPDX-License-Identifier: BSD-3-Clause
// Each command of the table on both transports: the same request returns the same status.
#include "tests/unit/prm/transports.hpp"

#include <fmt/format.h>
#include <map>
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

} // namespace
} // namespace prm_test
