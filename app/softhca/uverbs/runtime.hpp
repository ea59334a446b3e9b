// SPDX-License-Identifier: BSD-3-Clause
// The devices of this process: configuration, engine, control socket.
#pragma once

#include "app/softhca/config.hpp"
#include "app/softhca/control/server.hpp"
#include "app/softhca/core/engine.hpp"
#include "app/softhca/uverbs/clock_page.hpp"
#include "app/softhca/uverbs/loopback.hpp"
#include "app/softhca/uverbs/netdev.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace softhca::uverbs {

class Context;
class PortFirmware;

/// The open contexts of a port by number. Thread-safe.
class ContextList {
  public:
    void add(Context& context);
    void remove(const Context& context);
    /// None of them is closed meanwhile.
    template <class Visit> void for_each(Visit visit) {
        const std::lock_guard lock(mutex_);
        for (const auto& [number, context] : contexts_)
            visit(number, *context);
    }

  private:
    std::mutex mutex_;
    std::map<uint32_t, Context*> contexts_;
    uint32_t next_ = 0;
};

/// One configured port as this process sees it.
struct Port {
    Port(const PortConfig& port_config, size_t port_index, const std::string& tree,
         ClockPage& clock_page)
        : config(port_config), index(port_index), netdev(*this, tree), faults(port_config.faults),
          clock(clock_page) {}

    const PortConfig& config;
    size_t index;
    /// Null until the process opens this device; never changes afterwards.
    std::atomic<core::Device*> device{nullptr};
    std::string why_not; ///< why the last attempt failed, as reported; guarded as attempts are
    Netdev netdev;
    CommandFaults faults; ///< commands that are to fail
    ClockPage& clock;     ///< perhaps that of other ports, too
    ContextList contexts;
    LocalLoopback loopback;
    std::mutex firmware_mutex;
    std::shared_ptr<PortFirmware> firmware; ///< of DevX contexts; null until there is one

    /// The link as programs see it; a port whose device does not run yet counts as up.
    [[nodiscard]] bool link_up() const {
        const core::Device* running = device.load(std::memory_order_acquire);
        return !running || running->link_up();
    }
};

/// Thread-safe. Never destroyed: device threads and other libraries outlive static destructors. A
/// forked child gets its own runtime when it first needs one.
class Runtime {
  public:
    /// Null when the process does not run under softhca, or its configuration cannot be read
    /// (reported once on stderr).
    [[nodiscard]] static Runtime* get();
    /// Null unless a device of this process is already running.
    [[nodiscard]] static Runtime* running();
    /// Records which CPUs the program may use. Called from the library's constructor, before the
    /// program binds its threads.
    static void note_cpus();

    [[nodiscard]] const Config& config() const { return config_; }
    [[nodiscard]] std::vector<std::unique_ptr<Port>>& ports() { return ports_; }
    /// Null when there is no such port.
    [[nodiscard]] Port* port(size_t index);
    [[nodiscard]] Port* port_of_netdev(std::string_view name);

    /// Opens a port's wire, unless it is open, and makes a device thread serve it. From now on no
    /// other process can have that wire. The reason for a failure also goes to stderr, as
    /// libibverbs shows only the errno.
    [[nodiscard]] Result<core::Device*> start(Port& port);

  private:
    explicit Runtime(Config config);
    [[nodiscard]] std::vector<Port*> opened_together(Port& port);
    [[nodiscard]] Result<void> open_devices(const std::vector<Port*>& ports);
    void start_control();

    [[nodiscard]] ClockPage& clock_for_port();

    Config config_;
    std::vector<std::unique_ptr<ClockPage>> clocks_;
    std::vector<std::unique_ptr<Port>> ports_;
    std::mutex start_mutex_;
    std::unique_ptr<core::Engine> engine_;
    std::unique_ptr<control::ControlServer> control_;
};

} // namespace softhca::uverbs
