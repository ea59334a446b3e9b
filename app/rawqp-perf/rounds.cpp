// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/rounds.hpp"

#include <array>
#include <fmt/format.h>
#include <stdexcept>

namespace perf {
namespace {

constexpr uint16_t kBurst = 32;
constexpr uint32_t kNap = 20;                    // microseconds
constexpr unsigned kPatience = 1'000'000 / kNap; // naps without progress

} // namespace

void settle(uint32_t microseconds) { rte_delay_us_sleep(microseconds); }

void Peer::send(std::span<rte_mbuf*> mbufs) {
    unsigned idle = 0;
    while (!mbufs.empty()) {
        const auto count = static_cast<uint16_t>(std::min<size_t>(mbufs.size(), kBurst));
        const uint16_t sent = port_.tx(0, mbufs.data(), count);
        mbufs = mbufs.subspan(sent);
        idle = sent == 0 ? idle + 1 : 0;
        if (idle > kPatience) {
            rte_pktmbuf_free_bulk(mbufs.data(), static_cast<unsigned>(mbufs.size()));
            throw std::runtime_error(fmt::format("port {}: sends nothing any more", port_.id()));
        }
        if (sent == 0) settle(kNap);
    }
}

size_t Peer::take(size_t count) {
    std::array<rte_mbuf*, kBurst> mbufs;
    size_t taken = 0;
    for (unsigned idle = 0; taken < count && idle < kPatience / 10; ++idle) {
        for (uint16_t queue = 0; queue < port_.queues(); ++queue) {
            const uint16_t got = port_.rx(queue, mbufs.data(), kBurst);
            for (uint16_t i = 0; i < got; ++i)
                taken += FrameWriter::is_ours(mbufs[i]); // kernels like to talk, too
            rte_pktmbuf_free_bulk(mbufs.data(), got);
            if (got != 0) idle = 0;
        }
        if (idle != 0) settle(kNap);
    }
    return taken;
}

std::vector<uint16_t> find_queue_ports(Port& port, Peer& peer) {
    constexpr uint16_t kFirst = 1024, kTried = 4096;
    if (port.queues() == 1) return {kFirst};
    std::vector<uint16_t> found(port.queues(), 0);
    size_t missing = found.size();
    std::array<rte_mbuf*, kBurst> mbufs;
    for (uint16_t at = 0; missing > 0 && at < kTried; at = static_cast<uint16_t>(at + kBurst)) {
        std::vector<uint16_t> tried;
        for (uint16_t i = 0; i < kBurst; ++i)
            tried.push_back(static_cast<uint16_t>(kFirst + at + i));
        const FrameWriter writer(FrameSizes::parse("64"), port.mac(), peer.port().mac(), tried);
        if (!writer.make(peer.port().pool(), mbufs)) fail_call("queue search: mbufs", ENOMEM);
        peer.send(mbufs);
        size_t came = 0;
        for (unsigned naps = 0; came < kBurst && naps < kPatience / 10; ++naps) {
            settle(kNap);
            for (uint16_t queue = 0; queue < port.queues(); ++queue) {
                const uint16_t got = port.rx(queue, mbufs.data(), kBurst);
                for (uint16_t i = 0; i < got; ++i) {
                    if (!FrameWriter::is_ours(mbufs[i])) continue;
                    ++came;
                    if (found[queue] == 0) --missing;
                    found[queue] = FrameWriter::source_port(mbufs[i]);
                }
                rte_pktmbuf_free_bulk(mbufs.data(), got);
            }
        }
    }
    if (missing > 0)
        throw std::runtime_error(fmt::format("port {}: {} of its {} queues cannot be reached by "
                                             "RSS over UDP source ports",
                                             port.id(), missing, port.queues()));
    return found;
}

} // namespace perf
