// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/unit/prm/transports.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <set>

namespace fuzz {
namespace {

using namespace prm_test;

constexpr size_t kMostCommands = 64, kCommandsPerWork = 8;
constexpr size_t kHeadBytes = 8; ///< opcode, user, modifier

/// A user whose objects are named by later commands, and a device that works in between.
class Player {
  public:
    Player(Transport& transport, Input& input)
        : transport_(transport), input_(input), opcodes_(transport.opcodes()) {}

    /// Arbitrary bytes, often with the number of an existing object or an address in memory.
    [[nodiscard]] Answer command() {
        const Request request = any();
        const Answer answer = transport_.run(request);
        if (answer.status() != FwStatus::ok) return answer;
        done_.insert(net::load_be<uint16_t>(request.in.data()));
        if (answer.number() != 0) numbers_.push_back(answer.number());
        return answer;
    }
    /// Puts whatever the input says into rings and doorbell records.
    void work() {
        const auto page = input_.byte() % kPages;
        input_.fill({reinterpret_cast<uint8_t*>(transport_.pages()) + page * kPage, 64});
        for (int rounds = 0; rounds < 20; ++rounds)
            transport_.device().poll();
    }
    /// The opcodes of the commands that succeeded.
    [[nodiscard]] const std::set<uint16_t>& done() const { return done_; }

  private:
    /// By its number, so that inputs mean the same when there are more commands. Numbers that are
    /// none stand for one of them: few fuzzers would find any.
    uint16_t opcode() {
        const uint16_t number = input_.two_bytes();
        return std::ranges::find(opcodes_, number) != opcodes_.end()
                   ? number
                   : opcodes_[number % opcodes_.size()];
    }
    Request any() {
        const uint16_t number = opcode();
        const uint8_t how = input_.byte();
        const uint16_t modifier = input_.byte(); // or a type
        Request request(number, kHeadBytes + 8 + 4u * input_.byte(), modifier);
        input_.fill(std::span(request.in).subspan(kHeadBytes));
        if ((how & 2) != 0 && !numbers_.empty())
            request.number(numbers_[input_.byte() % numbers_.size()]);
        constexpr uint8_t kMany = 3;
        const uint8_t some = how >> 6;
        for (uint8_t more = some == kMany ? input_.byte() & 15 : some; more > 0; --more) {
            const size_t at = input_.two_bytes() % (request.in.size() / 8) * 8;
            if (at < kHeadBytes) continue;
            const uint8_t what = input_.byte();
            if ((what & 1) != 0)
                // The low bits are those of a umem's page: its access rights.
                net::store_be(&request.in[at],
                              transport_.memory + (what >> 4) * kPage + (what >> 1 & 3));
            else if (!numbers_.empty())
                net::store_be(&request.in[at], uint32_t{numbers_[(what >> 1) % numbers_.size()]});
        }
        return request;
    }

    Transport& transport_;
    Input& input_;
    std::vector<uint16_t> opcodes_;
    std::set<uint16_t> done_;
    std::vector<Number> numbers_;
};

/// A slot of the command queue that the device owns, and the mailboxes that it leads to. They are
/// in the guest's pages, with whatever the input says: types, lengths, tokens, links to the next.
class MailboxWriter {
  public:
    MailboxWriter(GuestTransport& guest, Input& input) : guest_(guest), input_(input) {}

    /// Returns false if the slot was not given back.
    [[nodiscard]] bool post() {
        const uint8_t how = input_.byte();
        Slot slot{};
        input_.fill(slot);
        if ((how & 1) != 0) slot[0] = kPciTransport;
        if ((how & 2) != 0) short_length(slot, kInputLength);
        if ((how & 4) != 0) short_length(slot, kOutputLength);
        if ((how & 8) != 0) net::store_be(&slot[kInputMailbox], address());
        if ((how & 16) != 0) net::store_be(&slot[kOutputMailbox], address());
        slot[kOwner] |= 1;
        for (uint8_t mailboxes = how >> 5; mailboxes > 0; --mailboxes)
            write_mailbox(slot[kToken]);
        return (guest_.post(slot) & 1) == 0;
    }

  private:
    using Slot = std::array<uint8_t, GuestTransport::kSlotBytes>;
    static constexpr uint8_t kPciTransport = 7;
    static constexpr size_t kInputLength = 4, kInputMailbox = 8, kOutputMailbox = 48,
                            kOutputLength = 56, kToken = 60, kOwner = 63;
    static constexpr size_t kMailboxBytes = 576, kNext = 560, kMailboxToken = 573;
    static constexpr size_t kPerPage = 4; ///< mailboxes, as in Linux

    static void short_length(Slot& slot, size_t at) {
        net::store_be(&slot[at], net::load_be<uint32_t>(&slot[at]) & 0xfff);
    }
    /// Mostly a valid place for a mailbox; else unaligned, across the end of memory, or nowhere.
    uint64_t address() {
        const uint8_t where = input_.byte();
        switch (where & 15) {
        case 0: return guest_.memory + where;
        case 1: return GuestTransport::kMemory - (where & 0xf0) * 4u;
        case 2: return ~uint64_t{where};
        default: return guest_.memory + (where >> 3) * (kPage / kPerPage);
        }
    }
    void write_mailbox(uint8_t token) {
        const uint8_t where = input_.byte();
        auto* const mailbox =
            reinterpret_cast<uint8_t*>(guest_.pages()) + (where >> 3) * (kPage / kPerPage);
        input_.fill({mailbox, kMailboxBytes});
        if ((where & 1) != 0) net::store_be(mailbox + kNext, address());
        if ((where & 6) != 0) mailbox[kMailboxToken] = token;
    }

    GuestTransport& guest_;
    Input& input_;
};

/// The first byte.
uint8_t steering_format(Input& input) { return input.byte() & 1; }

} // namespace

std::set<uint16_t> commands_done(std::span<const uint8_t> bytes) {
    Input input(bytes);
    ProcessTransport process(steering_format(input));
    Player player(process, input);
    for (size_t i = 0; i < kMostCommands && !input.empty(); ++i) {
        (void)player.command();
        if (i % kCommandsPerWork == kCommandsPerWork - 1) player.work();
    }
    player.work();
    return player.done();
}

std::string play_commands(std::span<const uint8_t> bytes) {
    (void)commands_done(bytes);
    return "";
}

std::string play_mailboxes(std::span<const uint8_t> bytes) {
    Input input(bytes);
    GuestTransport guest(steering_format(input));
    Player player(guest, input);
    MailboxWriter writer(guest, input);
    for (size_t i = 0; i < kMostCommands && !input.empty(); ++i) {
        const uint8_t what = input.byte() & 3;
        if (what == 0)
            player.work();
        else if (what == 1 && (player.command().delivery & 1) != 0)
            return fmt::format("command {} has no answer", i);
        else if (what > 1 && !writer.post())
            return fmt::format("slot {} was not given back", i);
    }
    player.work();
    return "";
}

} // namespace fuzz
