// SPDX-License-Identifier: BSD-3-Clause
// socket:PATH: a SEQPACKET connection, one frame a message. Lossless: a full socket is busy.
#include "app/softhca/epoll.hpp"
#include "app/softhca/own_fd.hpp"
#include "app/softhca/wire/frame.hpp"
#include "app/softhca/wire/wires.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace softhca::wire {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kConnectPeriod = std::chrono::milliseconds(1); // between looks for a peer
constexpr auto kPathPeriod = std::chrono::milliseconds(100); // between looks at our own socket file
constexpr int kBufferBytes = 4 << 20;                        // wanted; the kernel may give less

sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
    return address;
}

/// The file that a path names: a socket file that another end has replaced is no longer ours.
struct FileId {
    dev_t device = 0;
    ino_t inode = 0;
    bool operator==(const FileId&) const = default;
};

FileId file_at(const std::string& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) < 0) return {};
    return {status.st_dev, status.st_ino};
}

/// Listens at the path unless another end already does: then it connects there. Whenever the peer
/// goes, the same rule is applied again, so either side may come and go.
class SocketWire final : public Wire {
  public:
    SocketWire(std::string path, Fd epoll)
        : path_(std::move(path)), epoll_(std::move(epoll)), owner_(getpid()) {
        prepare_messages();
    }

    ~SocketWire() override {
        // A forked child that exits must not remove its parent's socket.
        if (owner_ == getpid()) stop_listening();
    }

    /// Connects or listens for the first time, so that an invalid path is an error.
    Result<void> plug_in() {
        if (plug() || errno == EAGAIN) return {};
        return fail(errno,
                    "wire socket:{}: can neither connect nor listen there ({}); the folder must "
                    "exist and be writable, and nothing but a SEQPACKET socket may be at the path",
                    path_, std::strerror(errno));
    }

    std::span<const std::byte> peek() override {
        if (!batch_.empty()) return batch_.front();
        if (!peer_ && !find_peer()) return {};
        receive();
        return batch_.empty() ? std::span<const std::byte>{} : batch_.front();
    }
    void pop() override { batch_.pop(); }

    SendResult send(const OutFrame& frame) override {
        if (!peer_) return SendResult::lost;
        const PaddedFrame padded(frame);
        msghdr message{};
        message.msg_iov = padded.data();
        message.msg_iovlen = padded.size();
        while (sendmsg(peer_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
            if (errno == EINTR) continue;
            if (errno == EFAULT) raise_fault(frame);
            if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM) return SendResult::busy;
            // The peer has gone. What it sent before can still be read: peek() will see the end.
            return SendResult::lost;
        }
        return SendResult::sent;
    }

    [[nodiscard]] bool carrier() override { return bool(peer_); }
    [[nodiscard]] int wait_fd() const override { return epoll_.get(); }

  private:
    void prepare_messages() {
        for (size_t i = 0; i < slots_.size(); ++i) {
            slots_[i] = {batch_.slot(i), kMaxFrame};
            messages_[i].msg_hdr.msg_iov = &slots_[i];
            messages_[i].msg_hdr.msg_iovlen = 1;
        }
    }

    void receive() {
        batch_.clear();
        const int got =
            recvmmsg(peer_.get(), messages_.data(), unsigned(slots_.size()), MSG_DONTWAIT, nullptr);
        if (got < 0) {
            // ECONNRESET: the peer closed with frames of ours unread; its own are still delivered.
            if (errno != EAGAIN && errno != EINTR && errno != ECONNRESET) drop_peer();
            return;
        }
        // An empty message holds no frame. At the end there are only such, and the peer has gone.
        size_t used = size_t(got);
        while (used > 0 && messages_[used - 1].msg_len == 0)
            --used;
        for (size_t i = 0; i < used; ++i) {
            const uint32_t length = messages_[i].msg_len;
            if (length == 0) continue;
            if (i != batch_.count())
                std::memcpy(batch_.slot(batch_.count()), batch_.slot(i), length);
            batch_.push(length);
        }
        if (used < size_t(got) && at_end()) drop_peer();
    }

    /// The peer has gone, and at most empty messages are left from it.
    [[nodiscard]] bool at_end() const {
        pollfd state{peer_.get(), POLLRDHUP, 0};
        int waiting = 0;
        return poll_file(state) > 0 && ioctl(peer_.get(), FIONREAD, &waiting) == 0 && waiting == 0;
    }

    bool find_peer() {
        const auto now = Clock::now();
        if (now - last_look_ < kConnectPeriod) return false;
        last_look_ = now;
        if (!listener_) {
            plug();
            return bool(peer_);
        }
        const int accepted =
            accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (accepted >= 0) {
            take_peer(Fd(accepted));
            return true;
        }
        if (now - last_path_look_ < kPathPeriod) return false;
        last_path_look_ = now;
        // Two ends that started at the same moment both listen; the later one owns the path.
        if (file_at(path_) != listener_file_) stop_listening();
        return false;
    }

    /// Connects, or listens when no other end does; on failure errno is EAGAIN if the listener is
    /// busy.
    bool plug() {
        if (connect_to_listener()) return true;
        return (errno == ENOENT || errno == ECONNREFUSED) && listen_at_path();
    }

    bool connect_to_listener() {
        Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        const sockaddr_un address = address_of(path_);
        if (!socket ||
            connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0)
            return false;
        take_peer(std::move(socket));
        return true;
    }

    /// Binds to its own name and renames, which replaces a dead socket file atomically.
    bool listen_at_path() {
        struct stat status {};
        if (stat(path_.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) {
            errno = ENOTSOCK;
            return false;
        }
        const std::string own = fmt::format("{}.{:x}", path_, owner_); // up to 7 bytes longer
        const sockaddr_un address = address_of(own);
        Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        unlink(own.c_str());
        if (!socket ||
            bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0 ||
            listen(socket.get(), 1) < 0)
            return false;
        listener_file_ = file_at(own);
        if (rename(own.c_str(), path_.c_str()) < 0) {
            unlink(own.c_str());
            return false;
        }
        listener_ = std::move(socket);
        watch(listener_.get(), true);
        return true;
    }

    void stop_listening() {
        if (!listener_) return;
        if (file_at(path_) == listener_file_) unlink(path_.c_str());
        watch(listener_.get(), false);
        listener_.reset();
    }

    void take_peer(Fd peer) {
        peer_ = std::move(peer);
        setsockopt(peer_.get(), SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof kBufferBytes);
        if (listener_) watch(listener_.get(), false); // a second peer has to wait
        watch(peer_.get(), true);
    }

    void drop_peer() {
        peer_.reset();
        if (listener_) watch(listener_.get(), true);
    }

    void watch(int fd, bool on) {
        epoll_event event{};
        event.events = EPOLLIN;
        control_epoll(epoll_.get(), on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, event);
    }

    OwnFd peer_;
    FrameBatch batch_;
    std::array<mmsghdr, FrameBatch::kFrames> messages_{}; // receive into the slots of batch_
    std::array<iovec, FrameBatch::kFrames> slots_{};
    OwnFd listener_;
    FileId listener_file_;
    std::string path_;
    Fd epoll_; // one descriptor to wait on, whichever socket is in use
    pid_t owner_;
    Clock::time_point last_look_{}, last_path_look_{};
};

} // namespace

OpenedWire open_socket(const SocketSpec& spec) {
    Fd epoll(create_epoll());
    if (!epoll) return fail(errno, "wire socket:{}: {}", spec.path, std::strerror(errno));
    auto wire = std::make_unique<SocketWire>(spec.path, std::move(epoll));
    if (auto plugged = wire->plug_in(); !plugged) return tl::unexpected(plugged.error());
    return wire;
}

} // namespace softhca::wire
