// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/port/telemetry.hpp"

#include "drivers/net/rawqp/ethdev/flow/table.hpp"
#include "drivers/net/rawqp/ethdev/memory/memory.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/ethdev/port/async_events.hpp"
#include "drivers/net/rawqp/ethdev/queues/counters.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rawqp {
namespace {

/// An answer has room for 16 KiB of text: this many regions are listed, all are counted.
constexpr size_t kMaxListed = 128;
/// States of queues of each direction in an answer, where all of them fit: a list's most entries.
constexpr size_t kMaxStates = RTE_TEL_MAX_ARRAY_ENTRIES;

/// Ports that commands find, and the lock that keeps them while one is answered.
constinit std::mutex ports_mutex;
constinit std::array<Port*, RTE_MAX_ETHPORTS> ports{};

/// An answer that is a dictionary, or a part of one.
class Dict {
  public:
    explicit Dict(rte_tel_data* data) : data_(data) { rte_tel_data_start_dict(data_); }
    void number(const char* name, uint64_t value) const { compat::add_to_dict(data_, name, value); }
    void text(const char* name, const std::string& value) const {
        rte_tel_data_add_dict_string(data_, name, value.c_str());
    }
    void flag(const char* name, bool value) const { text(name, value ? "yes" : "no"); }
    void figures(const Figures& all) const {
        for (const Figure& figure : all)
            number(figure.name, figure.value);
    }
    void figures(const char* name, const Figures& all) const {
        add(name, [&](rte_tel_data* part) { Dict(part).figures(all); });
    }
    void texts(const char* name, const std::vector<std::string>& all) const {
        add(name, [&](rte_tel_data* part) {
            rte_tel_data_start_array(part, RTE_TEL_STRING_VAL);
            for (const std::string& text : all)
                rte_tel_data_add_array_string(part, text.c_str());
        });
    }

  private:
    /// If there is no memory for it, the answer lacks that part.
    template <class Fill> void add(const char* name, Fill fill) const {
        rte_tel_data* const part = rte_tel_data_alloc();
        if (part == nullptr) return;
        fill(part);
        // Telemetry frees it with the answer.
        if (rte_tel_data_add_dict_container(data_, name, part, 0) != 0) rte_tel_data_free(part);
    }

    rte_tel_data* data_;
};

/// Numbers of a command: "PORT" or "PORT,QUEUE".
std::optional<std::vector<uint16_t>> numbers_of(const char* text) {
    std::vector<uint16_t> numbers;
    if (text == nullptr) return numbers;
    const char* const end = text + strlen(text);
    for (const char* at = text;; ++at) {
        const auto [stop, error] = std::from_chars(at, end, numbers.emplace_back());
        if (error != std::errc{}) return std::nullopt;
        if (stop == end) return numbers;
        at = stop;
        if (*at != ',') return std::nullopt;
    }
}

void tell_device(const Port& port, const Dict& answer) {
    const SharedPort& shared = port.shared;
    const bool running = shared.is_running();
    answer.text("name", port.name);
    answer.text("rdma_device", port.device);
    answer.number("rdma_port", port.ib_port);
    answer.text("firmware", shared.firmware.data());
    answer.text("interface", port.netdev.present() ? port.netdev.name() : "");
    answer.text("datapath", port.format->name);
    answer.flag("striding", shared.striding);
    answer.flag("running", running);
    if (running) {
        answer.text("rx_burst", port.rx_burst_name());
        answer.text("tx_burst", port.tx_burst_name());
    }
    answer.number("rx_queues", port.rx_queues.size());
    answer.number("tx_queues", port.tx_queues.size());
    answer.flag("marks", port.marks);
    answer.flag("isolated", port.isolated);
    answer.flag("shared_with_processes", shared.shared);
}

template <class Shared>
std::vector<std::string> states(const Shared& queues, size_t first, size_t count) {
    std::vector<std::string> some;
    for (size_t i = first; i < count && some.size() < kMaxStates; ++i)
        some.emplace_back(name_of(load_state(queues[i].state)));
    return some;
}
void tell_queues(const Port& port, size_t first, const Dict& answer) {
    answer.texts("rx", states(port.shared.rx, first, port.rx_queues.size()));
    answer.texts("tx", states(port.shared.tx, first, port.tx_queues.size()));
}

template <class Shared> void tell_settings(const Shared& queue, const Dict& answer) {
    answer.text("state", name_of(load_state(queue.state)));
    answer.flag("deferred", queue.deferred);
    answer.number("descriptors", queue.descriptors);
    answer.text("offloads", fmt::format("{:#x}", queue.offloads));
}
void tell_rx_queue(const Port& port, uint16_t id, const Dict& answer) {
    const SharedRxQueue& queue = port.shared.rx[id];
    tell_settings(queue, answer);
    const auto* const ring = static_cast<const RxRing*>(port.dev->data->rx_queues[id]);
    if (ring == nullptr) return;
    const RxCounters count = since_reset(*ring, queue.base);
    answer.number("segments", queue.segments);
    if (queue.pool != nullptr) answer.text("pool", queue.pool->name);
    answer.figures({{"packets", count.packets},
                    {"bytes", count.bytes},
                    {"errors", count.errors},
                    {"nombuf", count.nombuf},
                    {"recoveries", count.recoveries}});
    answer.figures("ring", port.format->rx_figures(*ring));
}
void tell_tx_queue(const Port& port, uint16_t id, const Dict& answer) {
    SharedTxQueue& queue = port.shared.tx[id];
    tell_settings(queue, answer);
    const auto* const ring = static_cast<const TxRing*>(port.dev->data->tx_queues[id]);
    if (ring == nullptr) return;
    const TxCounters count = since_reset(*ring, queue.base);
    answer.figures({{"packets", count.packets},
                    {"bytes", count.bytes},
                    {"errors", count.errors},
                    {"recoveries", count.recoveries}});
    answer.figures("ring", port.format->tx_figures(*ring));
}

void tell_regions(const Port& port, const Dict& answer) {
    const std::vector<MrEntry> regions = port.memory->regions();
    uint64_t bytes = 0;
    std::vector<std::string> texts;
    for (const MrEntry& region : regions) {
        bytes += region.end - region.start;
        if (texts.size() < kMaxListed)
            texts.push_back(
                fmt::format("{:#x} to {:#x} lkey {:#x}", region.start, region.end, region.lkey));
    }
    answer.number("regions", regions.size());
    answer.number("bytes", bytes);
    answer.number("retired", port.memory->retired());
    answer.texts("list", texts);
}

void tell_flows(const Port& port, const Dict& answer) { answer.figures(port.flows->figures()); }
void tell_events(const Port& port, const Dict& answer) { answer.figures(port.events->figures()); }

/// Answers for the port that the command names, if there is one, with `least` to `most` numbers.
int answer_of_port(const char* parameters, size_t least, size_t most, rte_tel_data* data,
                   int (*tell)(const Port& port, std::span<const uint16_t> numbers,
                               rte_tel_data* data)) {
    const auto numbers = numbers_of(parameters);
    if (!numbers || numbers->size() < least || numbers->size() > most ||
        (*numbers)[0] >= ports.size())
        return -EINVAL;
    const std::lock_guard keep(ports_mutex);
    Port* const port = ports[(*numbers)[0]];
    if (port == nullptr) return -ENODEV;
    const std::lock_guard lock(port->control);
    return tell(*port, *numbers, data);
}

template <void (*Tell)(const Port&, const Dict&)>
int of_port(const char*, const char* parameters, rte_tel_data* data) noexcept {
    return answer_of_port(parameters, 1, 1, data,
                          [](const Port& port, std::span<const uint16_t>, rte_tel_data* to) {
                              Tell(port, Dict(to));
                              return 0;
                          });
}
template <void (*Tell)(const Port&, uint16_t, const Dict&), uint16_t rte_eth_dev_data::*Count>
int of_queue(const char*, const char* parameters, rte_tel_data* data) noexcept {
    return answer_of_port(
        parameters, 2, 2, data,
        [](const Port& port, std::span<const uint16_t> numbers, rte_tel_data* to) {
            if (numbers[1] >= port.dev->data->*Count) return -EINVAL;
            Tell(port, numbers[1], Dict(to));
            return 0;
        });
}

int of_queues(const char*, const char* parameters, rte_tel_data* data) noexcept {
    return answer_of_port(
        parameters, 1, 2, data,
        [](const Port& port, std::span<const uint16_t> numbers, rte_tel_data* to) {
            tell_queues(port, numbers.size() == 2 ? numbers[1] : 0, Dict(to));
            return 0;
        });
}

int list(const char*, const char*, rte_tel_data* data) noexcept {
    rte_tel_data_start_array(data, RTE_TEL_INT_VAL);
    const std::lock_guard keep(ports_mutex);
    for (size_t i = 0; i < ports.size(); ++i)
        if (ports[i] != nullptr) rte_tel_data_add_array_int(data, static_cast<int>(i));
    return 0;
}

struct Command {
    const char* name;
    telemetry_cb answer;
    const char* help;
};
constexpr Command kCommands[] = {
    {"/rawqp/list", list, "Numbers of the ports that net_rawqp drives. No parameters."},
    {"/rawqp/device", of_port<tell_device>,
     "RDMA device, interface and data path of a port. Parameters: int port_id"},
    {"/rawqp/queues", of_queues,
     "States of a port's queues, at most 512 Rx and 512 Tx, from queue_id on (default 0). "
     "Parameters: int port_id[,int queue_id]"},
    {"/rawqp/rxq", of_queue<tell_rx_queue, &rte_eth_dev_data::nb_rx_queues>,
     "Settings, counters and ring of an Rx queue. Parameters: int port_id,int queue_id"},
    {"/rawqp/txq", of_queue<tell_tx_queue, &rte_eth_dev_data::nb_tx_queues>,
     "Settings, counters and ring of a Tx queue. Parameters: int port_id,int queue_id"},
    {"/rawqp/mrs", of_port<tell_regions>,
     "Memory that is registered with the device of a port. Parameters: int port_id"},
    {"/rawqp/flows", of_port<tell_flows>,
     "How many rte_flow rules and what belongs to them. Parameters: int port_id"},
    {"/rawqp/events", of_port<tell_events>,
     "Events of the device since the port was attached. Parameters: int port_id"},
};

constexpr size_t kMaxHelpLength = 127; // MAX_HELP_LEN of lib/telemetry, without the null byte
static_assert(std::ranges::all_of(kCommands,
                                  [](const Command& command) {
                                      return std::string_view(command.help).size() <=
                                             kMaxHelpLength;
                                  }),
              "rte_telemetry_register_cmd() refuses the command");

} // namespace

TelemetryEntry::TelemetryEntry(Port& port) : port_(port) {
    const std::lock_guard keep(ports_mutex);
    ports[port_.dev->data->port_id] = &port_;
}

TelemetryEntry::~TelemetryEntry() {
    const std::lock_guard keep(ports_mutex);
    ports[port_.dev->data->port_id] = nullptr;
}

} // namespace rawqp

/// Commands are registered from the start, whether there are ports or not, as ethdev's are.
RTE_INIT(rawqp_register_telemetry) {
    for (const rawqp::Command& command : rawqp::kCommands)
        rte_telemetry_register_cmd(command.name, command.answer, command.help);
}
