// SPDX-License-Identifier: BSD-3-Clause
// TCP and UDP ports of this host's addresses, which its kernel assigns to sockets.
#pragma once

#include "common/fd.hpp"
#include "common/result.hpp"

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace netdev {

struct IpAddress {
    bool v6 = false;
    std::array<uint8_t, 16> bytes{}; ///< as on the wire; all zeros: any
    uint32_t scope = 0;              ///< index of a link-local address's interface

    [[nodiscard]] bool any() const { return bytes == std::array<uint8_t, 16>{}; }
    [[nodiscard]] size_t size() const { return v6 ? 16 : 4; }
    [[nodiscard]] std::string text() const;
    auto operator<=>(const IpAddress&) const = default;
};

struct LocalPort {
    bool tcp = false; ///< else UDP
    IpAddress address;
    uint16_t number = 0;

    /// "UDP port 53 of 10.0.0.1", "TCP port 80 of all IPv4 addresses".
    [[nodiscard]] std::string text() const;
    auto operator<=>(const LocalPort&) const = default;
};

/// The addresses of all interfaces but loopback, in the calling thread's network namespace.
[[nodiscard]] Result<std::vector<IpAddress>> local_addresses(bool v6);

/// Keeps the port from all other sockets as long as the descriptor lives, in the calling thread's
/// network namespace. Nothing listens there, and nothing is received. EADDRINUSE: some socket has
/// it.
[[nodiscard]] Result<Fd> reserve(const LocalPort& port);

/// Who has a port that cannot be reserved: "dnsmasq (pid 12)", or what /proc tells about it.
[[nodiscard]] std::string holder_of(const LocalPort& port);

/// A network namespace that threads can enter for a while.
class Namespace {
  public:
    [[nodiscard]] static Result<Namespace> of_this_thread();
    [[nodiscard]] uint64_t id() const { return id_; } ///< the same for the same namespace

    /// Returns the thread to where it was. Ends the process if that is impossible: no code of the
    /// application may run in the wrong namespace.
    class Visit {
      public:
        Visit() = default;
        explicit Visit(Fd home) : home_(std::move(home)) {}
        Visit(Visit&&) = default;
        Visit& operator=(Visit&&) = delete;
        ~Visit();

      private:
        Fd home_; ///< none: the thread was there already
    };
    /// Needs CAP_SYS_ADMIN where the thread is in another one.
    [[nodiscard]] Result<Visit> enter() const;

  private:
    Fd fd_;
    uint64_t id_ = 0;
};

} // namespace netdev
