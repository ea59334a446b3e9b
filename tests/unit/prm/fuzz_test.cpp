// SPDX-License-Identifier: BSD-3-Clause
// Firmware commands with arbitrary bytes.
#include "tests/fuzz/corpus_test.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/unit/prm/command_chains.hpp"

#include <algorithm>
#include <cstdlib>

namespace {

using namespace prm_test;

/// What makes the fuzzer's player send these requests; see fuzz::play_commands().
class InputWriter {
  public:
    InputWriter(uint8_t steering_format, uint64_t memory)
        : bytes_{steering_format}, memory_(memory) {}

    void add(const Exchange& exchange) {
        constexpr size_t kShortest = 16;
        const std::vector<uint8_t>& in = exchange.request.in;
        EXPECT_LE(in.size(), kShortest + 4 * 255);
        EXPECT_TRUE(in.size() % 4 == 0 && in[6] == 0) << exchange.opcode();
        bytes_.insert(bytes_.end(), {in[1], in[0], kSomePlaces, in[7],
                                     static_cast<uint8_t>((in.size() - kShortest) / 4)});
        const size_t body_at = bytes_.size();
        bytes_.insert(bytes_.end(), in.begin() + kHead, in.end());
        add_addresses(in, body_at - kHead);
        constexpr size_t kPerWork = 8, kWorkBytes = 1 + 64;
        if (++commands_ % kPerWork == 0) bytes_.resize(bytes_.size() + kWorkBytes);
    }
    [[nodiscard]] const std::vector<uint8_t>& bytes() const { return bytes_; }

  private:
    static constexpr uint8_t kSomePlaces = 3 << 6; ///< their count follows the bytes
    static constexpr size_t kHead = 8;             ///< of a request

    /// They are others each time, so the bytes at `in_at`, where the request would begin, have
    /// zeros for them; the low bits are rights.
    void add_addresses(const std::vector<uint8_t>& in, size_t in_at) {
        const size_t count_at = bytes_.size();
        bytes_.push_back(0);
        for (size_t at = kHead; at + 8 <= in.size(); at += 8) {
            const uint64_t offset = net::load_be<uint64_t>(&in[at]) - memory_;
            if (offset >= kPages * kPage) continue;
            const auto what = static_cast<uint8_t>(1 | (offset & 3) << 1 | offset / kPage << 4);
            bytes_.insert(bytes_.end(), {static_cast<uint8_t>(at / 8), 0, what});
            bytes_[count_at]++;
            std::fill_n(bytes_.begin() + static_cast<std::ptrdiff_t>(in_at + at), 8, uint8_t{0});
        }
    }

    std::vector<uint8_t> bytes_;
    uint64_t memory_;
    size_t commands_ = 0;
};

TEST(CommandFuzz, Commands) { fuzz::play_some({"commands", fuzz::play_commands}, 300, 2000); }
TEST(CommandFuzz, Mailboxes) { fuzz::play_some({"mailboxes", fuzz::play_mailboxes}, 300, 4000); }

TEST(CommandFuzz, EachCommandSucceedsInTheCorpus) {
    std::set<uint16_t> done;
    for (const auto& [name, input] : fuzz::corpus_of("commands")) {
        std::set<uint16_t> in_file = fuzz::commands_done(input);
        EXPECT_GT(in_file.size(), 5u) << name;
        done.merge(in_file);
    }
    const std::vector<uint16_t> all = ProcessTransport().opcodes();
    EXPECT_EQ(done, std::set<uint16_t>(all.begin(), all.end()))
        << "see CommandFuzz.SeedsAreTheChains";
}

/// With RAWQP_WRITE_SEEDS it writes those that are not.
TEST(CommandFuzz, SeedsAreTheChains) {
    constexpr uint8_t kFormat = 1;
    const bool may_write = std::getenv("RAWQP_WRITE_SEEDS") != nullptr;
    fuzz::Inputs seeds = fuzz::corpus_of("commands");
    for (const CommandChain& chain : command_chains()) {
        ProcessTransport process(kFormat);
        Conversation talk(process);
        start_process(talk);
        chain.run(talk);
        InputWriter input(kFormat, process.memory);
        for (const Exchange& exchange : talk.exchanges())
            input.add(exchange);
        const std::string name = std::string("chain-") + chain.name + ".bin";
        if (seeds[name] == input.bytes()) continue;
        if (!may_write) {
            ADD_FAILURE() << name << " is of other chains: RAWQP_WRITE_SEEDS=1 writes it anew";
            continue;
        }
        std::ofstream file(fuzz::corpus_folder() / "commands" / name, std::ios::binary);
        file.write(reinterpret_cast<const char*>(input.bytes().data()),
                   static_cast<std::streamsize>(input.bytes().size()));
    }
}

} // namespace
