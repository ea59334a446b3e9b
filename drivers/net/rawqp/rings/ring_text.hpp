// SPDX-License-Identifier: BSD-3-Clause
// What the texts about rings of all formats share.
#pragma once

#include "drivers/net/rawqp/rings/tx_mbufs.hpp"

#include <cstdint>
#include <fmt/format.h>
#include <string>

namespace rawqp {

/// Memory of a ring as big-endian words, eight to a line, each line after `name`.
[[nodiscard]] std::string words_text(const char* name, const void* memory, size_t bytes);

/// A segment that a receive WQE has room in. Mbufs are named by their address and not looked into:
/// they may be gone by now.
[[nodiscard]] inline std::string sge_text(const rte_mbuf* mbuf, uint64_t address, uint32_t bytes,
                                          uint32_t lkey) {
    return fmt::format("mbuf {}, {} bytes at {:#x}, lkey {:#x}\n", fmt::ptr(mbuf), bytes, address,
                       lkey);
}

/// The descriptor so many after the one that the next segment takes.
[[nodiscard]] inline bool is_free(const TxMbufs& mbufs, uint16_t offset) {
    return offset < mbufs.room();
}
[[nodiscard]] inline uint16_t position_of(const TxMbufs& mbufs, uint16_t offset) {
    return static_cast<uint16_t>(mbufs.head() + offset - mbufs.size());
}

} // namespace rawqp
