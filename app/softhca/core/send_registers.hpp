// SPDX-License-Identifier: BSD-3-Clause
// The registers by which owners of send queues announce that they have written a doorbell record.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace softhca::core {

/// The registers of one doorbell page (mlx5: a UAR), which many send queues may share. A register
/// is a word in memory that the program, or the code that plays the bus, stores to. The device
/// clears a value when it sees it, so that the same one can ring again; it never sees a value that
/// was overwritten before it looked.
class SendRegisters {
  public:
    static constexpr size_t kCount = 8;
    using Words = std::array<uint64_t*, kCount>;
    /// The SQ number that a value rings, whether there is such an SQ or not.
    using NumberOf = uint32_t (*)(uint64_t value);

    /// `memory` owns the words.
    SendRegisters(const Words& words, NumberOf number_of, std::shared_ptr<void> memory)
        : words_(words), number_of_(number_of), memory_(std::move(memory)) {}
    SendRegisters(const SendRegisters&) = delete;
    SendRegisters& operator=(const SendRegisters&) = delete;

    /// What was written to a register since the last call; 0: nothing, as far as can be told.
    [[nodiscard]] uint64_t take(size_t index) {
        uint64_t* const word = words_[index];
        // Read first: a line that is only read stays with the device until the program writes it.
        if (__atomic_load_n(word, __ATOMIC_RELAXED) == 0) return 0;
        return __atomic_exchange_n(word, 0, __ATOMIC_ACQ_REL);
    }
    /// For the code that plays the bus: half of a register, 0 or 1, as the owner has it in memory.
    void write(size_t index, size_t half, uint32_t value) {
        auto* const halves = reinterpret_cast<unsigned char*>(words_[index]);
        __atomic_store_n(reinterpret_cast<uint32_t*>(halves + half * sizeof value), value,
                         __ATOMIC_RELEASE);
    }
    void clear() {
        for (uint64_t* const word : words_)
            __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    }
    [[nodiscard]] uint32_t number_of(uint64_t value) const { return number_of_(value); }

  private:
    const Words words_;
    const NumberOf number_of_;
    const std::shared_ptr<void> memory_;
};

} // namespace softhca::core
