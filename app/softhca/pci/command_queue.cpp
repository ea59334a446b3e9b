// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/pci/command_queue.hpp"

#include <algorithm>
#include <cstring>

namespace softhca::pci {
namespace {

constexpr size_t kMailboxBytes = 512;
constexpr uint8_t kOwnedByDevice = 1;
constexpr uint8_t kPciTransport = 7;
/// The longest commands list the pages of a key or umem, 8 bytes for each: this is good for 32 GiB
/// in pages of 4 KiB. The longest answers list pages that go back to the driver, or counters.
constexpr uint32_t kMaxInput = 64u << 20, kMaxOutput = 2u << 20;

/// mlx5_cmd_prot_block of the Linux driver.
struct Mailbox {
    uint8_t data[kMailboxBytes];
    uint8_t reserved0[48];
    net::be64 next;
    net::be32 block;
    uint8_t reserved1;
    uint8_t token;
    uint8_t ctrl_signature;
    uint8_t signature;
};
static_assert(sizeof(Mailbox) == 576 && offsetof(Mailbox, next) == 560);
static_assert(offsetof(Mailbox, token) == 573);

} // namespace

/// mlx5_cmd_layout of the Linux driver.
struct CommandQueue::Slot {
    static constexpr size_t kInline = 16;
    uint8_t type;
    uint8_t reserved0[3];
    net::be32 input_length;
    net::be64 input_mailbox;
    uint8_t input[kInline];
    uint8_t output[kInline];
    net::be64 output_mailbox;
    net::be32 output_length;
    uint8_t token;
    uint8_t signature;
    uint8_t reserved1;
    uint8_t status_own; ///< delivery status << 1 | owner
};

/// MLX5_CMD_DELIVERY_STAT_* of the Linux driver.
enum class CommandQueue::Delivery : uint8_t {
    ok = 0x0,
    token = 0x2,
    output_pointer = 0x4,
    input_pointer = 0x5,
    input_length = 0x7,
    output_length = 0x8,
    descriptor = 0x10,
};

namespace {

/// Calls `use(Mailbox&, offset, bytes)` for each mailbox of a chain that carries bytes 16.. of a
/// buffer of `length` bytes. False when the chain leaves guest memory or has the wrong token.
template <class Use>
bool for_each_mailbox(GuestMemory& memory, uint64_t address, uint32_t length, uint8_t token,
                      Use&& use) {
    constexpr uint32_t kFirst = 16;
    for (uint32_t at = kFirst; at < length; at += kMailboxBytes) {
        auto* const mailbox =
            reinterpret_cast<Mailbox*>(memory.translate(address, sizeof(Mailbox)));
        if (!mailbox || address % alignof(uint64_t) != 0 || mailbox->token != token) return false;
        use(*mailbox, at, std::min<size_t>(kMailboxBytes, length - at));
        address = mailbox->next;
    }
    return true;
}

} // namespace

void CommandQueue::ring_doorbell(uint32_t slots) {
    for (uint32_t index = 0; index < 1u << kLogSlots; index++)
        if (slots >> index & 1) run(index);
}

CommandQueue::Delivery CommandQueue::execute(Slot& slot) {
    static_assert(sizeof(Slot) == 1u << kLogStride);
    const uint32_t input_length = slot.input_length, output_length = slot.output_length;
    const uint8_t token = slot.token;
    if (slot.type != kPciTransport) return Delivery::descriptor;
    if (input_length > kMaxInput) return Delivery::input_length;
    if (output_length > kMaxOutput) return Delivery::output_length;
    prm::Command command;
    command.in.assign(slot.input, slot.input + Slot::kInline);
    // Grows with the mailboxes that there are: the length is only what the driver claims.
    const bool got = for_each_mailbox(memory_, slot.input_mailbox, input_length, token,
                                      [&](const Mailbox& mailbox, size_t, size_t bytes) {
                                          command.in.insert(command.in.end(), mailbox.data,
                                                            mailbox.data + bytes);
                                      });
    if (!got) return Delivery::input_pointer;
    command.out.resize(std::max<size_t>(output_length, Slot::kInline));
    firmware_.execute(command);
    std::memcpy(slot.output, command.out.data(), Slot::kInline);
    const bool put = for_each_mailbox(memory_, slot.output_mailbox, output_length, token,
                                      [&](Mailbox& mailbox, size_t at, size_t bytes) {
                                          std::memcpy(mailbox.data, command.out.data() + at, bytes);
                                      });
    return put ? Delivery::ok : Delivery::output_pointer;
}

void CommandQueue::run(uint32_t index) {
    auto* const slot = reinterpret_cast<Slot*>(
        memory_.translate(base_ + (uint64_t{index} << kLogStride), sizeof(Slot)));
    if (!slot || !(slot->status_own & kOwnedByDevice)) return;
    // An EQ that this very command creates must not get its event: the driver still polls.
    const bool event = events_.wanted(EventType::command);
    const Delivery delivery = execute(*slot);
    __atomic_store_n(&slot->status_own, static_cast<uint8_t>(static_cast<uint8_t>(delivery) << 1),
                     __ATOMIC_RELEASE);
    if (!event) return;
    EventData data{};
    net::store_be<uint32_t>(data.data(), 1u << index);
    events_.push_all(EventType::command, 0, data);
}

} // namespace softhca::pci
