// SPDX-License-Identifier: BSD-3-Clause
// Writes capture files in the pcapng format (IETF draft-ietf-opsawg-pcapng), which Wireshark,
// tcpdump and Scapy read: one section, one Ethernet interface, nanoseconds.
#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

namespace softhca::launcher {

struct CapturedPacket {
    uint64_t time = 0;  ///< ns since 1970
    bool sent = false;  ///< else: received
    uint32_t queue = 0; ///< 0: none
    std::span<const uint8_t> frame;
    std::string_view comment;
};

class PcapngWriter {
  public:
    /// Writes the beginning of the file. `out` must outlive this; its state shows failures.
    PcapngWriter(std::ostream& out, const std::string& interface, const std::string& application);

    void write(const CapturedPacket& packet);
    /// How many packets the interface saw and how many the file lacks, at the file's end.
    void write_statistics(uint64_t time, uint64_t seen, uint64_t lost);

  private:
    std::ostream& out_;
};

} // namespace softhca::launcher
