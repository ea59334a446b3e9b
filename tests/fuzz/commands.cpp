// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/unit/prm/transports.hpp"

#include <fmt/format.h>

namespace fuzz {
namespace {

using namespace prm_test;

constexpr size_t kMostCommands = 64;
constexpr size_t kHeadBytes = 8; ///< opcode, user, modifier

/// A process whose objects later commands name, and a device that works in between.
class Player {
  public:
    explicit Player(Input input) : input_(input) {}

    std::string run() {
        for (size_t i = 0; i < kMostCommands && !input_.empty(); ++i) {
            Request request = command();
            const Answer answer = transport_.run(request);
            if (answer.status() == FwStatus::ok && answer.number() != 0)
                numbers_.push_back(answer.number());
            if (i % 8 == 7) work();
        }
        work();
        return "";
    }

  private:
    [[nodiscard]] const std::vector<uint16_t>& opcodes() {
        static const std::vector<uint16_t> all = transport_.firmware().with_firmware(
            [](Firmware& firmware) { return firmware.opcodes(); });
        return all;
    }

    /// Any bytes; often with the number of an object that there is, or the address of memory.
    Request command() {
        const uint16_t opcode = opcodes()[input_.byte() % opcodes().size()];
        const uint8_t how = input_.byte();
        const auto modifier = static_cast<uint16_t>((how & 1) | (how & 0x3c) >> 1); // or a type
        Request request(opcode, kHeadBytes + 8 + 4u * input_.byte(), modifier);
        input_.fill(std::span(request.in).subspan(kHeadBytes));
        if ((how & 2) != 0 && !numbers_.empty())
            request.number(numbers_[input_.byte() % numbers_.size()]);
        for (uint8_t more = how >> 6; more > 0; --more) {
            const size_t at = input_.two_bytes() % (request.in.size() / 8) * 8;
            if (at < kHeadBytes) continue;
            const uint8_t what = input_.byte();
            if ((what & 1) != 0)
                // The low bits are those of a umem's page: what is allowed there.
                net::store_be(&request.in[at],
                              transport_.memory + (what >> 4) * kPage + (what >> 1 & 3));
            else if (!numbers_.empty())
                net::store_be(&request.in[at], uint32_t{numbers_[(what >> 1) % numbers_.size()]});
        }
        return request;
    }
    /// Rings and doorbell records have whatever the input says.
    void work() {
        const auto page = input_.byte() % kPages;
        input_.fill({reinterpret_cast<uint8_t*>(transport_.pages()) + page * kPage, 64});
        for (int rounds = 0; rounds < 20; ++rounds)
            transport_.device().poll();
    }

    Input input_;
    ProcessTransport transport_;
    std::vector<Number> numbers_;
};

} // namespace

std::string play_commands(std::span<const uint8_t> bytes) { return Player(Input(bytes)).run(); }

} // namespace fuzz
