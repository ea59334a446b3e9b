// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/live.hpp"

#include "app/rawqp-perf/floor.hpp"
#include "app/rawqp-perf/rate_floor.hpp"
#include "app/rawqp-perf/verbs_loop.hpp"

#include <array>
#include <fmt/format.h>
#include <stdexcept>

namespace perf {
namespace {

double seconds_since(uint64_t start) {
    return static_cast<double>(rte_rdtsc() - start) / static_cast<double>(rte_get_tsc_hz());
}
double microseconds_since(uint64_t start) { return seconds_since(start) * 1e6; }

constexpr uint16_t kMaxBurst = 512;
constexpr double kTail = 0.2; // seconds that frames may be in flight after the last was sent

} // namespace

void await_path(Port& from, Port& to, const FrameWriter& writer) {
    constexpr double kPatience = 5; // seconds
    Peer sender(from), receiver(to);
    for (const uint64_t start = rte_rdtsc(); seconds_since(start) < kPatience;) {
        rte_mbuf* mbuf = nullptr;
        if (!writer.make(from.pool(), {&mbuf, 1})) fail_call("rate: mbufs", ENOMEM);
        sender.send({&mbuf, 1});
        if (receiver.take(1) != 0) return;
    }
    throw std::runtime_error(
        fmt::format("rate: nothing gets from port {} to port {}", from.id(), to.id()));
}

rte_ether_addr destination(const Port& port, const std::string& text) {
    if (text.empty()) return port.mac();
    rte_ether_addr address{};
    if (rte_ether_unformat_addr(text.c_str(), &address) != 0)
        throw std::runtime_error("--to " + text + ": not a MAC address");
    return address;
}

template <class End>
Figure measure_rate(End& from, End& to, const FrameWriter& writer, uint16_t burst, double seconds) {
    std::array<rte_mbuf*, kMaxBurst> mbufs;
    uint64_t sent = 0, received = 0;
    const auto drain = [&] {
        size_t came = 0;
        for (uint16_t queue = 0; queue < to.queues(); ++queue) {
            const uint16_t got = to.rx(queue, mbufs.data(), burst);
            for (uint16_t i = 0; i < got; ++i)
                came += FrameWriter::is_ours(mbufs[i]);
            rte_pktmbuf_free_bulk(mbufs.data(), got);
        }
        received += came;
        return came;
    };
    const uint64_t start = rte_rdtsc();
    for (unsigned turn = 0; turn % 64 != 0 || seconds_since(start) < seconds; ++turn) {
        if (!writer.make(from.pool(), {mbufs.data(), burst}, sent))
            fail_call("rate: mbufs", ENOMEM);
        const uint16_t out = from.tx(0, mbufs.data(), burst);
        sent += out;
        rte_pktmbuf_free_bulk(mbufs.data() + out, burst - out);
        const size_t came = drain();
        // With fewer CPUs than threads, the device needs this CPU.
        if (out == 0 && came == 0) settle(10);
    }
    const double elapsed = seconds_since(start);
    const auto in_time = static_cast<double>(received);
    for (uint64_t last = rte_rdtsc(); seconds_since(last) < kTail && received < sent;)
        if (drain() != 0)
            last = rte_rdtsc();
        else
            settle(100);
    Figure figure{
        .measure = "rate", .burst = burst, .unit = "packets/s", .value = in_time / elapsed};
    figure.more = {{"sent", static_cast<double>(sent)},
                   {"received", static_cast<double>(received)},
                   {"lost", static_cast<double>(sent - std::min(sent, received))}};
    return figure;
}

template Figure measure_rate(Port&, Port&, const FrameWriter&, uint16_t, double);
template Figure measure_rate(RateFloor&, RateFloor&, const FrameWriter&, uint16_t, double);

namespace {

/// Sends one burst and adds the time that each of its packets took. Returns how many were lost.
template <class End>
size_t time_burst(End& from, End& to, std::span<rte_mbuf*> mbufs, std::vector<double>& times) {
    std::array<rte_mbuf*, kMaxBurst> got;
    const uint64_t start = rte_rdtsc();
    const uint16_t sent = from.tx(0, mbufs.data(), static_cast<uint16_t>(mbufs.size()));
    rte_pktmbuf_free_bulk(mbufs.data() + sent, static_cast<unsigned>(mbufs.size() - sent));
    size_t missing = sent;
    while (missing > 0 && seconds_since(start) < kTail)
        for (uint16_t queue = 0; queue < to.queues() && missing > 0; ++queue) {
            const uint16_t count = to.rx(queue, got.data(), kMaxBurst);
            const double now = count != 0 ? microseconds_since(start) : 0;
            for (uint16_t k = 0; k < count; ++k)
                if (FrameWriter::is_ours(got[k]) && missing > 0) {
                    times.push_back(now);
                    --missing;
                }
            rte_pktmbuf_free_bulk(got.data(), count);
        }
    if (sent == 0) settle(20);
    return missing;
}

} // namespace

template <class End>
Figure measure_latency(End& from, End& to, const FrameWriter& writer, uint16_t burst,
                       unsigned packets) {
    from.ready();
    std::vector<double> times;
    size_t lost = 0;
    std::array<rte_mbuf*, kMaxBurst> mbufs;
    const std::span<rte_mbuf*> all(mbufs.data(), burst);
    for (unsigned i = 0; i < packets; i += burst) {
        if (!writer.make(from.pool(), all)) fail_call("latency: mbufs", ENOMEM);
        lost += time_burst(from, to, all, times);
    }
    if (times.empty()) throw std::runtime_error("latency: no packet came back");
    Figure figure{
        .measure = "latency", .burst = burst, .unit = "us", .value = percentile(times, 0.5)};
    figure.more = {{"p90", percentile(times, 0.9)},
                   {"p99", percentile(times, 0.99)},
                   {"p999", percentile(times, 0.999)},
                   {"max", times.back()},
                   {"lost", static_cast<double>(lost)}};
    return figure;
}

template Figure measure_latency(Port&, Port&, const FrameWriter&, uint16_t, unsigned);
template Figure measure_latency(Floor&, Floor&, const FrameWriter&, uint16_t, unsigned);
template Figure measure_latency(RateFloor&, RateFloor&, const FrameWriter&, uint16_t, unsigned);
template Figure measure_latency(VerbsLoop&, VerbsLoop&, const FrameWriter&, uint16_t, unsigned);

Figure measure_first_packet(const std::string& devargs, const PortSetup& setup) {
    // The application's pool, as it already contains packets of other ports; registering it counts.
    const Pool pool = make_pool("first_packet", Port::mbufs(setup));
    const uint64_t start = rte_rdtsc();
    if (const int status = rte_dev_probe(devargs.c_str()))
        fail_call("first packet: probe of " + devargs, status);
    const double probed = microseconds_since(start);
    uint16_t id = RTE_MAX_ETHPORTS;
    rte_device* handle = nullptr;
    const std::string device = devargs.substr(0, devargs.find(','));
    uint16_t candidate;
    RTE_ETH_FOREACH_DEV(candidate) {
        rte_eth_dev_info info{};
        if (rte_eth_dev_info_get(candidate, &info) == 0 && info.device != nullptr &&
            device == rte_dev_name(info.device)) {
            id = candidate;
            handle = const_cast<rte_device*>(info.device);
        }
    }
    if (handle == nullptr) throw std::runtime_error("first packet: no port of " + device);
    const auto remove = [&] {
        rte_eth_dev_close(id);
        return rte_dev_remove(handle);
    };
    Figure figure{.measure = "first_packet", .burst = 1, .queues = setup.queues, .unit = "us"};
    try {
        Port port(id, setup, pool.get());
        port.wait_for_link();
        Peer peer(port);
        const double started = microseconds_since(start);
        const FrameWriter writer(FrameSizes::parse("64"), port.mac(), port.mac(), {1024});
        rte_mbuf* mbuf = nullptr;
        if (!writer.make(port.pool(), {&mbuf, 1})) fail_call("first packet: mbufs", ENOMEM);
        peer.send({&mbuf, 1});
        if (peer.take(1) != 1) throw std::runtime_error("first packet: never came: no loop wire?");
        figure.value = microseconds_since(start);
        figure.more = {
            {"probe", probed}, {"set_up", started - probed}, {"packet", figure.value - started}};
    } catch (...) {
        remove(); // another probe may have the same name
        throw;
    }
    if (const int status = remove()) fail_call("remove " + device, status);
    return figure;
}

} // namespace perf
