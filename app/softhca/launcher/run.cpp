// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/launcher/run.hpp"

#include "app/softhca/launcher/process.hpp"
#include "app/softhca/launcher/runtime_dir.hpp"
#include "app/softhca/uverbs/sysfs_tree.hpp"
#include "app/softhca/wire/open.hpp"
#include "app/softhca/wire/spec.hpp"
#include "app/softhca/wire/tap.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sched.h>

namespace softhca::launcher {
namespace {

namespace fs = std::filesystem;

void say(const std::string& what) { fmt::print(stderr, "softhca: {}\n", what); }

/// Whether device threads may run on the given CPUs: otherwise the kernel would let them run
/// anywhere.
Result<void> check_cpus(const std::vector<int>& cpus) {
    cpu_set_t before;
    if (sched_getaffinity(0, sizeof before, &before) < 0) return {}; // of more CPUs than this has
    for (const int cpu : cpus) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(static_cast<size_t>(cpu), &one);
        if (sched_setaffinity(0, sizeof one, &one) == 0) continue;
        return fail(
            errno,
            "--cpus {}: softhca may not run there ({}): the machine or the container has no "
            "such CPU; Cpus_allowed_list in /proc/self/status has those that it has",
            cpu, std::strerror(errno));
    }
    sched_setaffinity(0, sizeof before, &before);
    return {};
}

/// A TAP that the program inherits; our descriptor stays open until the program has ended.
Result<wire::Tap> open_tap(const wire::TapRequest& request) {
    auto tap = wire::create_tap(request);
    if (tap) fcntl(tap->fd.get(), F_SETFD, 0);
    return tap;
}

/// Opens the TAPs of all ports and puts their descriptors (and names) into the configuration.
Result<std::vector<wire::Tap>> open_taps(Config& config) {
    std::vector<wire::Tap> taps;
    for (PortConfig& port : config.ports) {
        const auto spec = wire::parse_wire_spec(port.wire);
        if (!spec) return tl::unexpected(spec.error());
        if (const auto* wanted = std::get_if<wire::TapSpec>(&*spec)) {
            auto tap = open_tap({.name = wanted->name, .mtu = port.mtu, .mac = {}, .up = true});
            if (!tap) return tl::unexpected(tap.error());
            port.wire_fd = tap->fd.get();
            taps.push_back(std::move(*tap));
        }
        if (port.netdev_tap) {
            const std::string name = port.netdev.empty() ? "softtap%d" : port.netdev;
            auto tap = open_tap({.name = name, .mtu = port.mtu, .mac = port.mac, .up = true});
            if (!tap) return tl::unexpected(tap.error());
            port.netdev = tap->name;
            port.netdev_fd = tap->fd.get();
            taps.push_back(std::move(*tap));
        }
    }
    return taps;
}

/// libsofthca.so in the build tree or where it was installed, relative to this executable.
Result<std::string> find_library() {
    const auto here = own_folder();
    if (!here) return tl::unexpected(here.error());
    const std::array<fs::path, 3> candidates = {*here / "uverbs/libsofthca.so",
                                                *here / "libsofthca.so",
                                                *here / ".." / SOFTHCA_LIBDIR / "libsofthca.so"};
    for (const fs::path& candidate : candidates) {
        if (access(candidate.c_str(), R_OK) < 0) continue;
        const std::string path = fs::weakly_canonical(candidate).string();
        if (path.find_first_of(" :") != path.npos)
            return fail(EINVAL,
                        "{}: the dynamic loader cannot preload from a path with spaces or "
                        "colons; build or install softhca elsewhere",
                        path);
        return path;
    }
    return fail(ENOENT, "libsofthca.so is not beside {} nor installed ({}); build it with ninja",
                here->string(), candidates.back().string());
}

/// Libraries that are already preloaded stay in front.
void preload(const std::string& library) {
    const char* others = std::getenv("LD_PRELOAD");
    const std::string before = others ? others : "";
    if (before.find(library) != before.npos) return;
    setenv("LD_PRELOAD", (before.empty() ? library : before + ":" + library).c_str(), 1);
}

/// Prepends options to the user's own, which take precedence.
void add_options(const char* variable, const std::string& options) {
    const char* own = std::getenv(variable);
    setenv(variable, (own && *own ? options + ":" + own : options).c_str(), 1);
}

/// For programs built with sanitizers: ASan's runtime, a library of the program, insists on being
/// loaded before ours, and need not be. TSan must not treat the device's accesses to rings and
/// packets, which are a NIC's, as a thread's: it only sees the program's own.
void make_sanitizers_agree() {
    add_options("ASAN_OPTIONS", "verify_asan_link_order=0");
    add_options("TSAN_OPTIONS", "ignore_noninstrumented_modules=1");
}

/// Writes what the front reads and sets the environment that the program inherits.
Result<void> hand_over(const Config& config) {
    const auto library = find_library();
    if (!library) return tl::unexpected(library.error());
    if (auto built = uverbs::build_tree(config); !built) return built;
    const std::string path = config.runtime_dir + "/config.json";
    std::ofstream file(path);
    if (!(file << to_json(config) << std::flush))
        return fail(EIO, "cannot write {} ({}); is there room left?", path, std::strerror(errno));
    setenv(kConfigVariable, path.c_str(), 1);
    preload(*library);
    make_sanitizers_agree();
    return {};
}

void describe(const Config& config) {
    for (const PortConfig& port : config.ports)
        say(fmt::format("{} ({}): wire {}, netdev {}{}, mtu {}", port.device, port.pci, port.wire,
                        port.netdev, port.netdev_tap ? " (TAP)" : "", port.mtu));
    say("runtime folder " + config.runtime_dir);
}

} // namespace

int run(RunCommand command) {
    const SignalForwarding signals; // from here on a signal waits for the program
    Config& config = command.config;
    if (const auto done = check_cpus(config.cpus); !done) return say(done.error().what), kExitUsage;

    auto runtime_dir = RuntimeDir::create();
    if (!runtime_dir) return say(runtime_dir.error().what), kExitNoSetup;
    config.runtime_dir = runtime_dir->path();

    const auto taps = open_taps(config);
    if (!taps) return say(taps.error().what), kExitNoSetup;
    if (auto done = hand_over(config); !done) return say(done.error().what), kExitNoSetup;
    if (config.verbose) describe(config);

    const auto child = spawn(command.program, signals);
    if (!child) {
        say(child.error().what);
        return child.error().code == ENOENT ? kExitNotFound : kExitNotExecutable;
    }
    const int status = signals.wait_for_all(*child);
    wire::remove_dead_links(); // if it was killed
    return status;
}

} // namespace softhca::launcher
