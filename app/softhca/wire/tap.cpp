// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/wire/tap.hpp"

#include "app/softhca/clock.hpp"
#include "app/softhca/epoll.hpp"
#include "app/softhca/own_fd.hpp"
#include "app/softhca/wire/frame.hpp"
#include "app/softhca/wire/super_frame.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace softhca::wire {
namespace {

using net::virtio::kGsoNone, net::virtio::kLegacyNetHeaderBytes;

// The kernel drops frames that it sends while this many wait for us. Its default of 1000 is soon
// full when the device thread shares a CPU with the sender.
constexpr int kTxQueueLength = 4096;

constexpr short kFlags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
/// What the interface leaves to the device: checksums, and the segmentation of TCP.
constexpr unsigned long kOffloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;

template <size_t kSize> void copy_name(char (&to)[kSize], const std::string& from) {
    std::strncpy(to, from.c_str(), kSize - 1);
}

ifreq request_for(const std::string& name) {
    ifreq request{};
    copy_name(request.ifr_name, name);
    return request;
}

tl::unexpected<Error> cannot_open_tun() {
    return fail(errno,
                "cannot open /dev/net/tun ({}): a TAP needs the kernel's tun driver (modprobe tun) "
                "and, in a container, the device node (--device /dev/net/tun)",
                std::strerror(errno));
}

tl::unexpected<Error> cannot_create(const std::string& name) {
    const char* why = "unexpected";
    if (errno == EPERM)
        why = "this needs the capability CAP_NET_ADMIN: run as root, or have an administrator make "
              "it for you with `ip tuntap add NAME mode tap user YOU`";
    else if (errno == EBUSY)
        why = "another program uses a TAP of this name";
    else if (errno == EINVAL)
        why = "an interface of this name exists and is not a TAP";
    return fail(errno, "cannot make TAP {} ({}): {}", name, std::strerror(errno), why);
}

/// Sets MTU, address, queue length and up. Settings that an unprivileged user may not change are
/// accepted unchanged, provided that frames of the requested MTU pass.
Result<void> set_up_interface(const TapRequest& request, const std::string& name) {
    const Fd control(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq ifr = request_for(name);
    const auto failed = [&](const char* what) {
        return fail(errno, "cannot set {} of TAP {} ({}); CAP_NET_ADMIN is needed for that", what,
                    name, std::strerror(errno));
    };
    if (request.mac) {
        ifr.ifr_hwaddr.sa_family = ARPHRD_ETHER;
        std::memcpy(ifr.ifr_hwaddr.sa_data, request.mac->data(), request.mac->size());
        if (ioctl(control.get(), SIOCSIFHWADDR, &ifr) < 0) return failed("the MAC address");
    }
    ifr = request_for(name);
    ifr.ifr_mtu = request.mtu;
    if (ioctl(control.get(), SIOCSIFMTU, &ifr) < 0) {
        if (errno != EPERM || ioctl(control.get(), SIOCGIFMTU, &ifr) < 0 ||
            ifr.ifr_mtu < request.mtu)
            return failed("the MTU");
    }
    ifr = request_for(name);
    ifr.ifr_qlen = kTxQueueLength;
    ioctl(control.get(), SIOCSIFTXQLEN, &ifr); // only an improvement

    ifr = request_for(name);
    if (ioctl(control.get(), SIOCGIFFLAGS, &ifr) < 0) return failed("the state");
    if (!request.up || (ifr.ifr_flags & IFF_UP)) return {};
    ifr.ifr_flags = short(ifr.ifr_flags | IFF_UP);
    if (ioctl(control.get(), SIOCSIFFLAGS, &ifr) < 0) return failed("the state");
    return {};
}

/// Each read and each write has the first bytes of a NetHeader before the frame.
class TapWire final : public Wire {
  public:
    TapWire(Fd tap, Fd lock, bool merges)
        : tap_(std::move(tap)), lock_(std::move(lock)), merges_(merges) {}

    std::span<const std::byte> peek() override {
        if (batch_.empty() && !receive()) return {};
        return batch_.front();
    }
    void pop() override { batch_.pop(); }
    size_t peek_batch(std::span<iovec> frames) override {
        if (batch_.empty() && !receive()) return 0;
        return batch_.peek(frames);
    }
    void pop_batch(size_t count) override {
        while (count-- > 0)
            batch_.pop();
    }

    SendResult send(const OutFrame& frame) override {
        if (!merges_) return write_alone(frame);
        bool held = merger_.take(frame);
        if (!held && merger_.packets() != 0) {
            write_held();
            held = merger_.take(frame);
        }
        if (!held) return write_alone(frame);
        if (merger_.complete()) write_held();
        return SendResult::sent;
    }
    void flush() override {
        if (merger_.packets() != 0) write_held();
    }
    WireReport take_report() override { return std::exchange(report_, {}); }

    /// Nothing tells that somebody has set the interface down, and to ask is a system call.
    [[nodiscard]] bool carrier() override {
        if (clock_ns(CLOCK_MONOTONIC_COARSE) >= look_at_) look_at_carrier();
        return up_;
    }
    void look_at_carrier() override {
        up_ = is_up();
        look_at_ = clock_ns(CLOCK_MONOTONIC_COARSE) + kLookEveryNs;
    }
    void set_carrier(bool up) override {
        const int carrier = up;
        ioctl(tap_.get(), TUNSETCARRIER, &carrier);
    }
    [[nodiscard]] int wait_fd() const override { return tap_.get(); }

  private:
    static constexpr uint64_t kLookEveryNs = 10'000'000;

    /// The kernel lets a TAP be written to while its interface is up, in whichever namespace that
    /// is.
    [[nodiscard]] bool is_up() const {
        pollfd writable{tap_.get(), POLLOUT, 0};
        return poll_file(writable) == 1 && (writable.revents & POLLOUT);
    }

    bool receive() {
        batch_.clear();
        while (!batch_.full()) {
            if (splitter_.done() && !read_frame()) break;
            if (splitter_.done()) continue;
            const auto bytes = static_cast<uint32_t>(splitter_.next_bytes());
            report_.split += splitter_.packets_made() != 0;
            splitter_.write_next(batch_.slot(batch_.count()));
            batch_.push(bytes);
        }
        return batch_.count() > 0;
    }

    /// Puts a frame into the batch, or prepares a super-frame for splitting. False: there is none.
    bool read_frame() {
        NetHeader offload;
        std::byte* const slot = batch_.slot(batch_.count());
        const iovec pieces[] = {{&offload, kLegacyNetHeaderBytes},
                                {slot, kMaxFrame},
                                {&received_[kMaxFrame], received_.size() - kMaxFrame}};
        const ssize_t got = readv(tap_.get(), pieces, int(std::size(pieces)));
        if (got <= ssize_t{kLegacyNetHeaderBytes}) return false;
        const size_t bytes = size_t(got) - kLegacyNetHeaderBytes;
        const size_t in_slot = std::min<size_t>(bytes, kMaxFrame);
        if (offload.gso_type != kGsoNone) {
            std::memcpy(received_.data(), slot, in_slot); // its packets need the slots
            if (splitter_.begin(offload, std::span(received_).first(bytes))) return true;
        }
        (void)complete_checksum(offload, {slot, in_slot}); // otherwise it arrives unchanged
        batch_.push(static_cast<uint32_t>(in_slot));
        return true;
    }

    SendResult write_alone(const OutFrame& frame) {
        const PaddedFrame padded(frame);
        NetHeader none;
        pieces_.assign(1, {&none, kLegacyNetHeaderBytes});
        pieces_.insert(pieces_.end(), padded.data(), padded.data() + padded.size());
        if (write_pieces(pieces_)) return SendResult::sent;
        if (errno == EFAULT) raise_fault(frame);
        // EIO: the interface is down. A TAP has no way to hold frames back.
        return SendResult::lost;
    }
    void write_held() {
        if (write_pieces(merger_.finish())) {
            report_.merged += merger_.packets() - 1;
        } else {
            report_.lost += merger_.packets();
            report_.lost_bytes += merger_.packet_bytes();
        }
        merger_.clear();
    }
    bool write_pieces(std::span<const iovec> pieces) {
        ssize_t sent;
        do
            sent = writev(tap_.get(), pieces.data(), int(pieces.size()));
        while (sent < 0 && errno == EINTR);
        return sent >= 0;
    }

    Fd tap_;
    OwnFd lock_;  // held as long as we use the TAP
    bool merges_; ///< packets to the kernel
    bool up_ = false;
    uint64_t look_at_ = 0; ///< of the coarse clock
    FrameBatch batch_;
    std::array<std::byte, kMaxSuperFrame> received_; ///< a super-frame
    Splitter splitter_;                              ///< of received_
    Merger merger_;
    WireReport report_;
    std::vector<iovec> pieces_;
};

Result<Fd> lock_tap(const std::string& name, const std::string& lock_dir) {
    const std::string path = lock_dir + "/tap-" + name + ".lock";
    Fd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock)
        return fail(errno, "{}: cannot make this lock file ({})", path, std::strerror(errno));
    if (flock(lock.get(), LOCK_EX | LOCK_NB) < 0)
        return fail(EBUSY,
                    "TAP {}: another process under the same softhca uses it; start a softhca for "
                    "each process, or give each its own port",
                    name);
    return lock;
}

} // namespace

Result<Tap> create_tap(const TapRequest& request) {
    Fd fd(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!fd) return cannot_open_tun();
    ifreq ifr = request_for(request.name);
    ifr.ifr_flags = kFlags;
    if (ioctl(fd.get(), TUNSETIFF, &ifr) < 0) return cannot_create(request.name);
    Tap tap{std::move(fd), ifr.ifr_name};
    if (auto set = set_up_interface(request, tap.name); !set) return tl::unexpected(set.error());
    return tap;
}

Result<std::unique_ptr<Wire>> attach_tap(int fd, const std::string& name,
                                         const std::string& lock_dir, TapPassing passing) {
    ifreq ifr{};
    if (ioctl(fd, TUNGETIFF, &ifr) < 0 || (ifr.ifr_flags & kFlags) != kFlags)
        return fail(EBADF,
                    "TAP {}: descriptor {} from the launcher is gone; something between softhca "
                    "and this program closed it (a Python subprocess does, unless it is given "
                    "close_fds=False)",
                    name, fd);
    Fd lock;
    if (!lock_dir.empty()) {
        auto locked = lock_tap(name, lock_dir);
        if (!locked) return tl::unexpected(locked.error());
        lock = std::move(*locked);
    }
    Fd own(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!own) return fail(errno, "TAP {}: {}", name, std::strerror(errno));
    const bool merges = passing == TapPassing::super_frames;
    ioctl(own.get(), TUNSETOFFLOAD,
          merges ? kOffloads : 0); // a kernel without makes packets itself
    return std::make_unique<TapWire>(std::move(own), std::move(lock), merges);
}

} // namespace softhca::wire
