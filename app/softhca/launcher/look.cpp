// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/launcher/look.hpp"

#include "app/softhca/clock.hpp"
#include "app/softhca/control/client.hpp"
#include "app/softhca/launcher/output.hpp"
#include "app/softhca/launcher/pcapng.hpp"
#include "app/softhca/launcher/remote.hpp"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

namespace softhca::launcher {
namespace {

using control::Session;
using nlohmann::json;

void say(const std::string& what) { fmt::print(stderr, "softhca: {}\n", what); }

/// Signals that end the observation; they are blocked until polled.
class Interruption {
  public:
    Interruption() {
        sigemptyset(&signals_);
        for (const int number : {SIGINT, SIGTERM, SIGHUP})
            sigaddset(&signals_, number);
        sigprocmask(SIG_BLOCK, &signals_, nullptr);
    }
    /// Whether one has arrived; waits that long for it.
    [[nodiscard]] bool within(long ns) const {
        const timespec time{0, ns};
        return sigtimedwait(&signals_, nullptr, &time) > 0;
    }

  private:
    sigset_t signals_;
};

struct Looked {
    uint64_t seen = 0, lost = 0;
};

/// Passes packets on as they come, until there are no more. False: the session failed.
template <class Use>
bool for_each_packet(Session& session, const Interruption& interruption, Looked& looked,
                     Use&& use) {
    constexpr long kPauseNs = 20'000'000;
    constexpr int kRest = 16; // answers that hold all that was kept when the interrupt came
    bool interrupted = false;
    for (int rest = kRest; rest != 0;) {
        if (interrupted) rest--;
        const auto answer = session.ask({{"cmd", "next"}});
        if (!answer) {
            say(answer.error().what);
            return answer.error().code == EPIPE;
        }
        const json packets = answer->value("packets", json::array());
        for (const json& packet : packets)
            if (!use(packet)) return false;
        looked.seen += packets.size();
        looked.lost += answer->value("lost", uint64_t{0});
        if (answer->value("done", false) || (interrupted && packets.empty())) return true;
        interrupted = interrupted || interruption.within(packets.empty() ? kPauseNs : 0);
    }
    return true;
}

std::vector<uint8_t> bytes_of(const std::string& hex) {
    std::vector<uint8_t> bytes(hex.size() / 2);
    for (size_t i = 0; i < bytes.size(); i++)
        std::from_chars(&hex[2 * i], &hex[2 * i] + 2, bytes[i], 16);
    return bytes;
}

int report(const Looked& looked, bool well, const char* what) {
    say(fmt::format("{} {}, {} lost for want of room", looked.seen, what, looked.lost));
    return well ? 0 : kExitFailed;
}

} // namespace

std::string format_passage(const json& packet, uint64_t number) {
    const uint64_t time = packet.value("time", uint64_t{0});
    std::string text =
        fmt::format("#{} {} {} at {}.{:09} s\n", number, packet.value("device", "?"),
                    packet.value("direction", "?"), time / 1'000'000'000, time % 1'000'000'000);
    for (const json& step : packet.value("steps", json::array()))
        text += fmt::format("  {:<9} {}\n", step.value("where", "?"), step.value("text", ""));
    return text + fmt::format("  {:<9} {}\n", "verdict", packet.value("verdict", ""));
}

int trace(const TraceCommand& command) {
    const Interruption interruption;
    json request = {{"cmd", "watch"}, {"steps", true}, {"count", command.count}};
    if (!command.device.empty()) request["device"] = command.device;
    auto session = find_owner(command.device, command.where);
    if (!session) return kExitFailed;
    if (const auto begun = session->ask(request); !begun)
        return say(begun.error().what), kExitFailed;
    say(fmt::format("tracing {}", command.device.empty() ? "all devices" : command.device));
    Looked looked;
    uint64_t number = 0;
    const bool well = for_each_packet(*session, interruption, looked, [&](const json& packet) {
        number++;
        return put_out(command.json ? packet.dump() + "\n" : format_passage(packet, number));
    });
    return report(looked, well, "packets traced");
}

int capture(const CaptureCommand& command) {
    const Interruption interruption;
    auto session = find_owner(command.device, command.where);
    if (!session) return kExitFailed;
    std::ofstream file;
    const bool to_stdout = command.file == "-";
    if (!to_stdout) file.open(command.file, std::ios::binary | std::ios::trunc);
    std::ostream& out = to_stdout ? std::cout : file;
    const auto written = [&] {
        const bool good = static_cast<bool>(out.flush());
        if (good || to_stdout) return good; // main() says what is wrong with stdout
        say(fmt::format("cannot write {} ({}); is there room left, and may you?", command.file,
                        std::strerror(errno)));
        return false;
    };
    PcapngWriter writer(out, command.device, "softhca");
    if (!written()) return kExitFailed;
    const auto begun =
        session->ask({{"cmd", "watch"}, {"device", command.device}, {"count", command.count}});
    if (!begun) return say(begun.error().what), kExitFailed;
    say(fmt::format("capturing {}", command.device));
    Looked looked;
    const bool well = for_each_packet(*session, interruption, looked, [&](const json& packet) {
        const auto frame = bytes_of(packet.value("frame", ""));
        const std::string verdict = packet.value("verdict", "");
        if (frame.empty()) return true; // of a request that failed before there was a packet
        writer.write({.time = packet.value("time", uint64_t{0}),
                      .sent = packet.value("direction", "") == "sent",
                      .queue = packet.value("queue", uint32_t{0}),
                      .frame = frame,
                      .comment = verdict});
        return written();
    });
    writer.write_statistics(clock_ns(CLOCK_REALTIME), looked.seen + looked.lost, looked.lost);
    return report(looked, written() && well, "packets captured");
}

} // namespace softhca::launcher
