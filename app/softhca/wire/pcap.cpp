// SPDX-License-Identifier: BSD-3-Clause
// pcap:IN[,OUT]: plays a capture file once, records sent frames.
//
// libpcap is loaded on demand: this code is in a library that is preloaded into every program under
// softhca, and libpcap would bring libdbus and more into each of them.
#include "app/softhca/own_fd.hpp"
#include "app/softhca/wire/capture_stream.hpp"
#include "app/softhca/wire/frame.hpp"
#include "app/softhca/wire/wires.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <dlfcn.h>
#include <fcntl.h>
#include <pcap/pcap.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>

namespace softhca::wire {
namespace {

struct LibPcap {
    decltype(&::pcap_open_offline) open_offline;
    decltype(&::pcap_fopen_offline) fopen_offline;
    decltype(&::pcap_open_dead) open_dead;
    decltype(&::pcap_close) close;
    decltype(&::pcap_datalink) datalink;
    decltype(&::pcap_next_ex) next_ex;
    decltype(&::pcap_file) file;
    decltype(&::pcap_geterr) geterr;
    decltype(&::pcap_dump_open) dump_open;
    decltype(&::pcap_dump) dump;
    decltype(&::pcap_dump_file) dump_file;
    decltype(&::pcap_dump_flush) dump_flush;
    decltype(&::pcap_dump_close) dump_close;
};

Result<LibPcap> load_libpcap() {
    void* library = dlopen("libpcap.so.0.8", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fail(ENOENT, "wire pcap: cannot load libpcap ({}); install the package libpcap0.8",
                    dlerror());
    LibPcap lib{};
    bool complete = true;
    const auto find = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
        complete = complete && function;
    };
    find(lib.open_offline, "pcap_open_offline");
    find(lib.fopen_offline, "pcap_fopen_offline");
    find(lib.open_dead, "pcap_open_dead");
    find(lib.close, "pcap_close");
    find(lib.datalink, "pcap_datalink");
    find(lib.next_ex, "pcap_next_ex");
    find(lib.file, "pcap_file");
    find(lib.geterr, "pcap_geterr");
    find(lib.dump_open, "pcap_dump_open");
    find(lib.dump, "pcap_dump");
    find(lib.dump_file, "pcap_dump_file");
    find(lib.dump_flush, "pcap_dump_flush");
    find(lib.dump_close, "pcap_dump_close");
    if (!complete)
        return fail(ENOSYS, "wire pcap: the installed libpcap lacks functions ({})", dlerror());
    return lib; // stays loaded
}

class PcapWire final : public Wire {
  public:
    explicit PcapWire(const LibPcap& lib) : lib_(lib) {}
    ~PcapWire() override {
        out_stream_.release();
        in_stream_.release();
        if (out_) lib_.dump_close(out_);
        if (in_) lib_.close(in_);
        if (format_) lib_.close(format_);
    }
    PcapWire(const PcapWire&) = delete;
    PcapWire& operator=(const PcapWire&) = delete;

    Result<void> play(const std::string& path) {
        playing_ = path;
        struct stat status {};
        if (stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode)) {
            auto stream = CaptureStream::open(path);
            if (!stream) return tl::unexpected(stream.error());
            arriving_ = std::move(*stream);
            return {};
        }
        char error[PCAP_ERRBUF_SIZE] = "";
        if (auto usable = use(lib_.open_offline(path.c_str(), error), error); !usable)
            return usable;
        in_stream_.hold(lib_.file(in_));
        return {};
    }

    Result<void> record(const std::string& path) {
        if (auto locked = lock(path); !locked) return locked; // before the file is emptied
        format_ = lib_.open_dead(DLT_EN10MB, kMaxFrame);
        out_ = format_ ? lib_.dump_open(format_, path.c_str()) : nullptr;
        if (!out_)
            return fail(EACCES, "wire pcap: cannot record to {} ({})", path,
                        format_ ? lib_.geterr(format_) : "no memory");
        out_stream_.hold(lib_.dump_file(out_));
        if (lib_.dump_flush(out_) < 0) // a readable file from the start
            return fail(errno, "wire pcap: cannot record to {} ({})", path, std::strerror(errno));
        return {};
    }

    std::span<const std::byte> peek() override {
        if (current_.empty() && started_ && next_is_there()) read_next();
        return current_;
    }
    void pop() override { current_ = {}; }
    void start() override { started_ = true; }

    SendResult send(const OutFrame& frame) override {
        if (!out_) return SendResult::sent;
        if (frame.length > kMaxFrame) return SendResult::lost;
        pcap_pkthdr header{};
        gettimeofday(&header.ts, nullptr);
        header.caplen = header.len = std::max(frame.length, kMinFrame);
        if (frame.length < kMinFrame) std::fill_n(sent_.begin(), kMinFrame, std::byte{0});
        gather(frame, sent_.data());
        lib_.dump(reinterpret_cast<u_char*>(out_), &header,
                  reinterpret_cast<const u_char*>(sent_.data()));
        // The disk is full: after half a record, no later one can be read.
        return std::ferror(lib_.dump_file(out_)) ? SendResult::lost : SendResult::sent;
    }
    void flush() override {
        if (out_) lib_.dump_flush(out_);
    }
    [[nodiscard]] int wait_fd() const override { return arriving_ ? arriving_->wait_fd() : -1; }

  private:
    /// Plays that from now on; null, of which libpcap has told the error, is not playable.
    Result<void> use(pcap_t* capture, const char* error) {
        in_ = capture;
        if (!in_) return fail(EINVAL, "wire pcap: cannot play {} ({})", playing_, error);
        if (lib_.datalink(in_) != DLT_EN10MB)
            return fail(EINVAL, "wire pcap: {} holds no Ethernet frames (its link type is {})",
                        playing_, lib_.datalink(in_));
        return {};
    }

    [[nodiscard]] bool next_is_there() {
        if (!arriving_ || finished_) return in_;
        if (!in_ && arriving_->ready()) begin();
        return in_ && arriving_->ready();
    }

    /// With a capture that arrives over time, whose head is there.
    void begin() {
        char error[PCAP_ERRBUF_SIZE] = "";
        std::FILE* const stream = arriving_->stream();
        pcap_t* const capture = stream ? lib_.fopen_offline(stream, error) : nullptr;
        if (stream && !capture) std::fclose(stream);
        arriving_->taken();
        if (const auto usable = use(capture, error); !usable) {
            std::fputs(fmt::format("softhca: {}\n", usable.error().what).c_str(), stderr);
            finish();
        }
    }

    void finish() {
        in_stream_.release();
        if (in_) lib_.close(std::exchange(in_, nullptr));
        if (arriving_) arriving_->close();
        finished_ = true;
    }

    Result<void> lock(const std::string& path) {
        Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
        struct stat status {};
        const bool regular = file && fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode);
        if (regular && flock(file.get(), LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
            return fail(EBUSY,
                        "wire pcap: another port or process records to {}; give each port its own "
                        "file, and start a softhca for each process",
                        path);
        lock_ = std::move(file); // a FIFO's reader sees no end before the file is opened again
        return {};
    }

    void complain(long position) const {
        const std::string where = position < 0 ? "" : fmt::format(", at byte {}", position);
        const std::string line = fmt::format(
            "softhca: wire pcap: {} is damaged from frame {} on{} ({}); the frames before were "
            "played\n",
            playing_, played_ + 1, where, lib_.geterr(in_));
        std::fputs(line.c_str(), stderr);
    }

    void read_next() {
        pcap_pkthdr* header = nullptr;
        const u_char* data = nullptr;
        const long position = std::ftell(lib_.file(in_)); // -1: a pipe
        if (const int status = lib_.next_ex(in_, &header, &data); status != 1) {
            if (status != PCAP_ERROR_BREAK) complain(position); // that is the end
            finish();
            return;
        }
        if (arriving_) arriving_->taken();
        played_++;
        auto length = std::min<uint32_t>(header->caplen, kMaxFrame);
        std::memcpy(received_.data(), data, length);
        // No bytes would mean that there is no frame. One byte is too short as well, and is
        // counted.
        if (length == 0) received_[length++] = {};
        current_ = {received_.data(), pad_received(received_.data(), length)};
    }

    LibPcap lib_;
    std::unique_ptr<CaptureStream> arriving_; ///< what in_ reads, if that arrives over time
    pcap_t* in_ = nullptr;
    pcap_t* format_ = nullptr; ///< says what the records of out_ are
    pcap_dumper_t* out_ = nullptr;
    OwnStream in_stream_, out_stream_; ///< of in_ and out_
    OwnFd lock_;                       ///< held as long as out_ is written to
    bool started_ = false, finished_ = false;
    std::string playing_; ///< the file that in_ reads
    uint64_t played_ = 0; ///< frames of it
    std::span<const std::byte> current_;
    std::array<std::byte, kMaxFrame> received_;
    std::array<std::byte, kMaxFrame> sent_;
};

} // namespace

OpenedWire open_pcap(const PcapSpec& spec) {
    const auto lib = load_libpcap();
    if (!lib) return tl::unexpected(lib.error());
    auto wire = std::make_unique<PcapWire>(*lib);
    if (!spec.in.empty())
        if (auto opened = wire->play(spec.in); !opened) return tl::unexpected(opened.error());
    if (!spec.out.empty())
        if (auto opened = wire->record(spec.out); !opened) return tl::unexpected(opened.error());
    return wire;
}

} // namespace softhca::wire
