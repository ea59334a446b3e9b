// SPDX-License-Identifier: BSD-3-Clause
// TAP interfaces: created by the launcher, used as wires by the program that it starts.
#pragma once

#include "app/softhca/wire/wire.hpp"
#include "common/fd.hpp"
#include "common/result.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace softhca::wire {

struct TapRequest {
    std::string name; ///< "base%d": the kernel picks the number
    uint16_t mtu = 1500;
    std::optional<std::array<uint8_t, 6>> mac; ///< of the interface; none: the kernel picks one
    bool up = true;
};

struct Tap {
    Fd fd; ///< non-blocking, close-on-exec; the interface ends with its last descriptor
    std::string name;
};

/// Creates the interface, or takes over one of that name that an administrator created for this
/// user (`ip tuntap add`). Creating it needs CAP_NET_ADMIN.
[[nodiscard]] Result<Tap> create_tap(const TapRequest& request);

/// What passes through the TAP: super-frames (see super_frame.hpp) as well, or only packets with
/// their checksums.
enum class TapPassing : uint8_t { super_frames, packets };

/// A wire over an open TAP; takes a duplicate of `fd`. With a `lock_dir`, fails while another
/// process that inherited the same TAP uses it.
[[nodiscard]] Result<std::unique_ptr<Wire>>
attach_tap(int fd, const std::string& name, const std::string& lock_dir,
           TapPassing passing = TapPassing::super_frames);

} // namespace softhca::wire
