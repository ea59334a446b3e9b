// SPDX-License-Identifier: BSD-3-Clause
// TCP segmentation offload: how the headers of the segments differ from those of the message.
#pragma once

#include "common/net/parse.hpp"

namespace net {

/// The headers of a TCP message, with which each of its segments begins.
class TsoHeader {
  public:
    TsoHeader() = default;
    /// `header` is all of them and must outlive this object; `outer` tells where they are, `tcp`
    /// the same for what the tunnel in `outer` carries or, without a tunnel, for the same frame.
    TsoHeader(std::span<const std::byte> header, const Headers& outer, const Headers& tcp)
        : header_(header), outer_(outer), tcp_(tcp) {}

    [[nodiscard]] uint32_t bytes() const { return static_cast<uint32_t>(header_.size()); }
    /// The headers of the frame that holds the TCP header.
    [[nodiscard]] const Headers& tcp() const { return tcp_; }

    /// Writes the header of one segment: `index` of the segment, `offset` of its payload in the
    /// whole payload, `bytes` of payload, `last` of the message. Checksums are left to the caller.
    void write(std::byte* to, uint32_t index, uint32_t offset, uint32_t bytes, bool last) const;

  private:
    std::span<const std::byte> header_;
    Headers outer_;
    Headers tcp_;
};

} // namespace net
