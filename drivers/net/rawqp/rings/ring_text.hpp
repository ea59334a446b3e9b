// SPDX-License-Identifier: BSD-3-Clause
// What the text dumps of all formats' rings share.
#pragma once

#include "drivers/net/rawqp/rings/tx_mbufs.hpp"

#include <cstdint>
#include <fmt/format.h>
#include <string>

namespace rawqp {

/// Memory of a ring as big-endian words, eight to a line, each line after `name`.
[[nodiscard]] std::string words_text(const char* name, const void* memory, size_t bytes);

/// A segment in which a receive WQE has room. Mbufs are named by address and not read: they may be
/// gone by now.
[[nodiscard]] inline std::string sge_text(const rte_mbuf* mbuf, uint64_t address, uint32_t bytes,
                                          uint32_t lkey) {
    return fmt::format("mbuf {}, {} bytes at {:#x}, lkey {:#x}\n", fmt::ptr(mbuf), bytes, address,
                       lkey);
}

/// The descriptor `offset` after the one that the next segment takes.
[[nodiscard]] inline bool is_free(const TxMbufs& mbufs, uint16_t offset) {
    return offset < mbufs.room();
}
[[nodiscard]] inline uint16_t position_of(const TxMbufs& mbufs, uint16_t offset) {
    return static_cast<uint16_t>(mbufs.head() + offset - mbufs.size());
}
/// Whether the segment at `position`, which is held, lies before `done`.
[[nodiscard]] inline bool is_done(const TxMbufs& mbufs, uint16_t position, uint16_t done) {
    const auto age = static_cast<uint16_t>(position - mbufs.tail());
    return age < static_cast<uint16_t>(done - mbufs.tail());
}
[[nodiscard]] inline std::string done_text(uint16_t offset, const rte_mbuf* mbuf) {
    return fmt::format("descriptor {}: completed, mbuf {} is to be freed\n", offset,
                       fmt::ptr(mbuf));
}

} // namespace rawqp
