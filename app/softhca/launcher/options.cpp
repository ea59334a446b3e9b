// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/launcher/options.hpp"

#include "app/softhca/wire/spec.hpp"
#include "common/decimal.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <iostream>

namespace softhca::launcher {
namespace {

constexpr const char* kDescription =
    "softhca runs a program on a software RDMA NIC: libibverbs, DPDK and perftest find a ConnectX\n"
    "look-alike (mlx5_0 ...) without hardware, kernel modules or root rights. The devices live as "
    "long\nas the program.";

constexpr const char* kFooter = R"(
A port is written as key=value,... :
  wire=WHERE      what its cable is connected to (default: loop)
      loop                    back to the port itself
      tap:NAME[:plain]        a network interface on this machine (needs CAP_NET_ADMIN)
      link:NAME               to the port of another softhca with the same link:NAME; loses nothing
      pair:NAME               to another port of this softhca with the same pair:NAME
      socket:PATH             a SEQPACKET socket, one frame per message; loses nothing
      pcap:IN[,OUT]           plays the file IN once, records what the port sends to OUT
      gen[:size=60,flows=1,count=N,rate=PER_SECOND]
                              UDP frames, as fast as the device takes them unless rate= is given
      sink                    accepts everything, sends nothing
  netdev=NAME     name of the emulated kernel interface of the port (default: soft0, soft1 ...)
  netdev=tap[:NAME]   a real TAP interface instead: packets no flow rule takes go to the kernel
  mac=ADDRESS     of the port (default: a random local one)
  mtu=BYTES       68 to 9978 (default: 1500)
  speed=MBPS      speed that the link reports: 1000 ... 400000, or 1G ... 400G (default: 100G)
  pause=on|off    on: an empty receive queue pauses the wire (default: off, frames are dropped)
  devx=on|off     off: programs may not issue firmware commands (default: on)
  steering_format=0|1
                  format of software steering: that of ConnectX-5, or of ConnectX-6 Dx, with meters
                  and definers (default: 0; a guest has software steering only if this is given)
  carrier=peer|always
                  always: the link is up even while nothing is at the other end of link: or socket:,
                  for programs that need it up when they start (default: peer)
  device=NAME     name of the RDMA device (default: mlx5_0, mlx5_1 ...)
  fault=COMMAND:ERRNO[:TIMES[:AFTER]],...
                  commands that fail, such as create_qp:EPERM or open:EACCES; see `softhca fault`
  pci=ADDRESS     PCI address that it reports (default: 0000:ca:00.0, 0000:ca:00.1 ...)

Examples:
  softhca -- ibv_devinfo -v
      shows the device
  softhca --port wire=pair:a --port wire=pair:a -- dpdk-testpmd -l 0,1 --no-huge -m 512 \
          -a 0000:ca:00.0 -a 0000:ca:00.1 -- --interactive
      DPDK's own mlx5 driver on two ports that are cabled to each other
  sudo softhca --port wire=tap:cable0,mtu=9000 -- PROGRAM ...
      `ping`, `tcpdump` and Scapy on cable0 talk to the port
  softhca --port wire=link:x -- PROGRAM1 ...     and, in a second terminal,
  softhca --port wire=link:x -- PROGRAM2 ...
      two programs, one cable
  softhca --config nic.json -- PROGRAM ...
      with nic.json: {"threads": 1, "ports": [{"wire": "gen:size=60,flows=64", "pause": true}]}
  softhca stat
      the counters of all running programs' devices: packets, WQEs, doorbells, drops by cause
  softhca dump
      their objects: queues, what is posted in the rings, rules, flow tables, memory keys
  softhca trace mlx5_0 --count 1
      the path of the next packet in words: rules, hash, queue, WQE, CQE or why it is dropped
  softhca capture mlx5_0 - | wireshark -k -i -
      its packets, with the fate of each
  softhca link mlx5_0 down
      pulls the cable of a running program's device
  softhca fault mlx5_0 reg_mr:ENOMEM:1
      the next memory registration fails
  softhca vm -- sh -c 'modprobe mlx5_ib && ibv_devinfo'
      the device under an unmodified kernel in QEMU; see softhca vm --help

Exit status: that of the program, 128 + N if signal N ended it; 2 for a wrong command line, 125 if
softhca itself failed, 126 or 127 if the program could not be run or found.
Only programs that are dynamically linked and have no file capabilities are supported.)";

/// CLI11 does not know about the program after --.
class HelpFormatter : public CLI::Formatter {
  public:
    std::string make_usage(const CLI::App* app, std::string name) const override {
        if (app->get_parent()) return CLI::Formatter::make_usage(app, name);
        return "Usage: softhca [options] -- program [arguments]\n"
               "       softhca stat [--json] [--pid PID | --socket FILE]\n"
               "       softhca dump [--json] [--pid PID | --socket FILE]\n"
               "       softhca trace [DEVICE] [--count N] [--json] [--pid PID | --socket FILE]\n"
               "       softhca capture DEVICE FILE [--count N] [--pid PID | --socket FILE]\n"
               "       softhca link DEVICE up|down [--pid PID]\n"
               "       softhca fault DEVICE WHAT [--pid PID]\n"
               "       softhca vm [options] [-- command [arguments]]\n";
    }
};

/// Filled in by CLI11.
struct Arguments {
    std::vector<std::string> ports;
    unsigned threads = 0;
    std::vector<int> cpus;
    std::string config_file;
    int verbose = 0;
    bool enforce = false;
    ShowCommand show;
    TraceCommand trace;
    CaptureCommand capture;
    LinkCommand link;
    std::string direction;
    FaultCommand fault;
};

int usage_error(const std::string& what) {
    std::cerr << "softhca: " << what << "\n`softhca --help` shows how it is used.\n";
    return kExitUsage;
}

/// A cable has two ends, and both are here.
Result<void> check_pairs(const Config& config) {
    for (const PortConfig& port : config.ports) {
        if (!wire::is_pair(port.wire)) continue;
        const auto ends = std::ranges::count(config.ports, port.wire, &PortConfig::wire);
        if (ends != 2)
            return fail(EINVAL,
                        "wire={}: given to {} port{}; a pair connects two ports of a softhca",
                        port.wire, ends, ends == 1 ? "" : "s");
    }
    return {};
}

Result<Config> make_config(const CLI::App& app, const Arguments& arguments) {
    Config config;
    if (!arguments.config_file.empty()) {
        auto file = load_config_file(arguments.config_file);
        if (!file) return file;
        config = std::move(*file);
    }
    if (!arguments.ports.empty()) config.ports.clear();
    for (const std::string& text : arguments.ports) {
        auto port = parse_port(text);
        if (!port) return fail(EINVAL, "--port {}: {}", text, port.error().what);
        config.ports.push_back(std::move(*port));
    }
    if (app.count("--threads")) config.threads = arguments.threads;
    if (app.count("--cpus")) config.cpus = arguments.cpus;
    config.enforce |= arguments.enforce;
    config.verbose = std::max(config.verbose, arguments.verbose);
    for (PortConfig& port : config.ports) {
        port.wire_fd = port.netdev_fd = -1; // ours to open
        if (auto spec = wire::parse_wire_spec(port.wire); !spec)
            return tl::unexpected(spec.error());
        port.wire = wire::with_absolute_paths(port.wire);
    }
    if (auto done = check_pairs(config); !done) return tl::unexpected(done.error());
    if (auto done = complete(config); !done) return tl::unexpected(done.error());
    return config;
}

/// CLI11 reads numbers as strtoull() does, which turns -1, and anything too large, into the largest
/// number: so ranges have a signed type, and end below its largest number.
constexpr int64_t kMostPackets = 1'000'000'000'000'000'000;
constexpr int kLastPid = 1 << 22; // of any Linux; 0 would mean all programs

CLI::Option* declare_pid(CLI::App& command, pid_t& pid, const std::string& what) {
    return command.add_option("--pid", pid, what)
        ->type_name("PID")
        ->transform(decimal(1, kLastPid).description(""));
}

void declare_where(CLI::App& command, Where& where) {
    auto* const pid = declare_pid(command, where.pid, "of this program only");
    command
        .add_option("--socket", where.socket,
                    "of the server of this control socket, such as nic0.control in the folder of "
                    "`softhca vm --log`")
        ->type_name("FILE")
        ->excludes(pid);
}

void declare_looks(CLI::App& app, Arguments& arguments) {
    const auto add_count = [](CLI::App& command, uint64_t& count) {
        command.add_option("--count", count, "number of packets (default: until interrupted)")
            ->type_name("N")
            ->transform(decimal(int64_t{1}, kMostPackets).description(""));
    };
    CLI::App* trace =
        app.add_subcommand("trace", "describes how packets pass through a running device, and why");
    trace->add_option("DEVICE", arguments.trace.device,
                      "name, as mlx5_0 (default: all of the program)");
    add_count(*trace, arguments.trace.count);
    trace->add_flag("--json", arguments.trace.json, "a JSON object for each packet");
    declare_where(*trace, arguments.trace.where);

    CLI::App* capture = app.add_subcommand(
        "capture", "writes the packets of a running device to a capture file (pcapng)");
    capture->add_option("DEVICE", arguments.capture.device, "name, as mlx5_0")->required();
    capture->add_option("FILE", arguments.capture.file, "- is stdout")->required();
    add_count(*capture, arguments.capture.count);
    declare_where(*capture, arguments.capture.where);
}

void declare(CLI::App& app, Arguments& arguments) {
    app.formatter(std::make_shared<HelpFormatter>());
    app.set_version_flag("--version", SOFTHCA_VERSION);
    app.add_option("--port", arguments.ports, "a port, as key=value,...; repeat it for more ports")
        ->type_name("KEY=VALUE,...")
        ->allow_extra_args(false);
    app.add_option("--threads", arguments.threads,
                   "device threads (default: one for each of --cpus, or 1)")
        ->type_name("N")
        ->transform(decimal(1, 64));
    app.add_option("--cpus", arguments.cpus, "CPUs of the device threads, e.g. 0,1 (default: any)")
        ->type_name("N,...")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->transform(decimal(0, 4095));
    app.add_option("--config", arguments.config_file,
                   "JSON file: ports, threads, cpus, enforce; options override it")
        ->type_name("FILE");
    app.add_flag("--enforce", arguments.enforce,
                 "require the rights a kernel would: CAP_NET_RAW, RLIMIT_MEMLOCK");
    app.add_flag("-v,--verbose", arguments.verbose,
                 "log what is done; twice: every device command");

    const std::pair<const char*, const char*> shows[] = {
        {"stat", "shows the counters of running devices"},
        {"dump", "shows the objects of running devices: queues, rules, tables"}};
    for (const auto& [name, description] : shows) {
        CLI::App* const show = app.add_subcommand(name, description);
        show->add_flag("--json", arguments.show.json, "as JSON");
        declare_where(*show, arguments.show.where);
        show->callback([&arguments, what = name] { arguments.show.what = what; });
    }

    declare_looks(app, arguments);

    CLI::App* link = app.add_subcommand("link", "sets the link of a running device up or down");
    link->add_option("DEVICE", arguments.link.device, "name, as mlx5_0")->required();
    link->add_option("STATE", arguments.direction, "up or down")
        ->required()
        ->check(CLI::IsMember({"up", "down"}));
    const char* const of_several = "of this program, if several have such a device";
    declare_pid(*link, arguments.link.pid, of_several);

    CLI::App* fault = app.add_subcommand("fault", "injects a fault into a running device");
    fault->add_option("DEVICE", arguments.fault.device, "name, as mlx5_0")->required();
    fault
        ->add_option("WHAT", arguments.fault.fault,
                     "COMMAND:ERRNO[:TIMES[:AFTER]]   a command fails, as create_qp:EPERM,\n"
                     "                                or any, as any:EIO:1:20\n"
                     "error_cqe:QUEUE[:SYNDROME]      a queue's next WQE ends with an error CQE\n"
                     "fatal:NUMBER                    a queue or CQ breaks\n"
                     "overrun:CQ                      a CQ's next completion overruns it\n"
                     "stall:MILLISECONDS              the device does nothing for that long\n"
                     "device_fatal                    the device fails\n"
                     "none                            commands succeed again; prints those that "
                     "were still to fail\n"
                     "Numbers are those of `softhca stat`")
        ->required();
    declare_pid(*fault, arguments.fault.pid, of_several);

    app.footer(kFooter); // last: commands that are added later inherit it
}

} // namespace

Options parse_options(int argc, const char* const* argv) {
    const auto* const end = argv + argc;
    const auto* const separator =
        std::find_if(argv, end, [](const char* argument) { return !std::strcmp(argument, "--"); });

    Arguments arguments;
    CLI::App app(kDescription, "softhca");
    declare(app, arguments);
    try {
        app.parse(int(separator - argv), argv);
    } catch (const CLI::Success& help) {
        return app.exit(help);
    } catch (const CLI::ExtrasError& error) {
        return usage_error(std::string(error.what()) +
                           (separator == end && app.get_subcommands().empty()
                                ? " (put -- in front of the program)"
                                : ""));
    } catch (const CLI::ParseError& error) {
        return usage_error(error.what());
    }
    if (!arguments.show.what.empty()) return arguments.show;
    if (app.got_subcommand("trace")) return arguments.trace;
    if (app.got_subcommand("capture")) return arguments.capture;
    if (app.got_subcommand("link")) {
        arguments.link.up = arguments.direction == "up";
        return arguments.link;
    }
    if (app.got_subcommand("fault")) {
        if (const auto fault = parse_fault(arguments.fault.fault); !fault)
            return usage_error(fault.error().what);
        return arguments.fault;
    }
    if (separator == end || separator + 1 == end)
        return usage_error("which program? Put it after --, as in `softhca -- ibv_devinfo`");
    auto config = make_config(app, arguments);
    if (!config) return usage_error(config.error().what);
    return RunCommand{std::move(*config), {separator + 1, end}};
}

} // namespace softhca::launcher
