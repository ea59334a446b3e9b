// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/port_guard.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>

namespace rawqp {

namespace {

using Key = std::pair<uint64_t, netdev::LocalPort>; ///< namespace and port

/// What this process has reserved. It is never destroyed, as reservations may live until exit.
struct Registry {
    std::mutex mutex;
    std::map<Key, std::weak_ptr<const Reservation>> known;
};
Registry& registry() {
    static Registry& instance = *new Registry;
    return instance;
}

} // namespace

class Reservation {
  public:
    Reservation(const Key& key, Fd socket) : key_(key), socket_(std::move(socket)) {}
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;
    ~Reservation() {
        socket_.reset(); // at once, for whoever holds the lock and wants the port
        const std::lock_guard lock(registry().mutex);
        const auto at = registry().known.find(key_);
        // It may have been reserved again by now.
        if (at != registry().known.end() && at->second.expired()) registry().known.erase(at);
    }

  private:
    const Key key_;
    Fd socket_;
};

namespace {

/// Takes ports for one rule, in the thread's present namespace.
class Taker {
  public:
    explicit Taker(uint64_t space) : lock_(registry().mutex), space_(space) {}

    Result<void> take_any(const netdev::LocalPort& port);
    /// A refusal names who has it.
    Result<void> take_one(const netdev::LocalPort& port);
    Reservations taken; ///< outlives the lock, which the last owner of a reservation takes

  private:
    Result<void> take(const netdev::LocalPort& port);
    bool take_known(const netdev::LocalPort& port);

    std::lock_guard<std::mutex> lock_;
    uint64_t space_;
};

bool Taker::take_known(const netdev::LocalPort& port) {
    auto& known = registry().known;
    const auto at = known.find({space_, port});
    if (at == known.end()) return false;
    auto reservation = at->second.lock();
    if (!reservation) return false; // it is about to go
    taken.push_back(std::move(reservation));
    return true;
}

Result<void> Taker::take(const netdev::LocalPort& port) {
    netdev::LocalPort any = port;
    any.address.bytes = {};
    any.address.scope = 0;
    if (take_known(port) || take_known(any)) return {};
    auto socket = netdev::reserve(port);
    if (!socket) return tl::unexpected(socket.error());
    const Key key{space_, port};
    auto reservation = std::make_shared<const Reservation>(key, std::move(*socket));
    registry().known[key] = reservation;
    taken.push_back(std::move(reservation));
    return {};
}

Result<void> Taker::take_one(const netdev::LocalPort& port) {
    auto done = take(port);
    if (done || done.error().code != EADDRINUSE) return done;
    return fail(EADDRINUSE,
                "{} is in use by {}: a rule that takes it would leave that without "
                "packets",
                port.text(), netdev::holder_of(port));
}

/// Takes all addresses at once, including future ones; or, where a socket on one of them is in the
/// way, each address that packets from outside can have: that socket may be loopback's.
Result<void> Taker::take_any(const netdev::LocalPort& port) {
    auto done = take(port);
    if (done || done.error().code != EADDRINUSE) return done;
    const auto addresses = netdev::local_addresses(port.address.v6);
    if (!addresses) return tl::unexpected(addresses.error());
    for (const netdev::IpAddress& address : *addresses)
        if (auto one = take_one({port.tcp, address, port.number}); !one) return one;
    return {};
}

bool matches(const netdev::IpAddress& address, const TakenPorts& wanted) {
    for (size_t i = 0; i < address.size(); ++i)
        if (((address.bytes[i] ^ wanted.address.bytes[i]) & wanted.address_mask.bytes[i]) != 0)
            return false;
    return true;
}

/// Number 0 is no socket's: to bind it is to get any free port.
Result<void> take_number(Taker& taker, const TakenPorts& wanted, uint16_t number) {
    if (number == 0) return {};
    netdev::LocalPort port{wanted.tcp, {}, number};
    port.address.v6 = wanted.address.v6;
    if (wanted.address_mask.any()) return taker.take_any(port);
    const auto addresses = netdev::local_addresses(port.address.v6);
    if (!addresses) return tl::unexpected(addresses.error());
    for (const netdev::IpAddress& address : *addresses) {
        if (!matches(address, wanted)) continue;
        port.address = address;
        if (auto done = taker.take_one(port); !done) return done;
    }
    return {};
}

} // namespace

std::optional<TakenPorts> taken_ports(const Pattern& pattern) {
    const Layer* ip = nullptr;
    for (const Layer& layer : pattern.layers()) {
        if (layer.depth != 0) break;
        if (layer.protocol == Protocol::ipv4 || layer.protocol == Protocol::ipv6) ip = &layer;
        const bool tcp = layer.protocol == Protocol::tcp;
        if (ip == nullptr || (!tcp && layer.protocol != Protocol::udp)) continue;
        constexpr uint16_t kPort = 16, kPortBits = 16;
        TakenPorts taken{.tcp = tcp,
                         .address = {},
                         .address_mask = {},
                         .port = static_cast<uint16_t>(layer.get(kPort, kPortBits)),
                         .port_mask = static_cast<uint16_t>(get_bits(layer.mask, kPort, kPortBits)),
                         .item = layer.item};
        if (taken.port_mask == 0) return std::nullopt;
        taken.address.v6 = taken.address_mask.v6 = ip->protocol == Protocol::ipv6;
        const size_t at = taken.address.v6 ? 24 : 16; // of the destination in its header
        std::copy_n(&ip->value[at], taken.address.size(), taken.address.bytes.begin());
        std::copy_n(&ip->mask[at], taken.address.size(), taken.address_mask.bytes.begin());
        return taken;
    }
    return std::nullopt;
}

Result<std::unique_ptr<PortGuard>> PortGuard::make() {
    auto space = netdev::Namespace::of_this_thread();
    if (!space) return tl::unexpected(space.error());
    return std::unique_ptr<PortGuard>(new PortGuard(std::move(*space)));
}

size_t PortGuard::reserved() {
    const std::lock_guard lock(registry().mutex);
    return registry().known.size();
}

FlowResult<ReservationsRef> PortGuard::reserve(std::span<const Pattern> patterns,
                                               const rte_flow_item* items) const {
    std::optional<netdev::Namespace::Visit> visit;
    std::optional<Taker> taker;
    for (const Pattern& pattern : patterns) {
        const auto wanted = taken_ports(pattern);
        if (!wanted) continue;
        const rte_flow_item* const item =
            items != nullptr && wanted->item != Layer::kNone ? items + wanted->item : items;
        const char* const name = wanted->tcp ? "tcp" : "udp";
        const auto refused = [&](const Error& error) {
            return refuse(error.code, RTE_FLOW_ERROR_TYPE_ITEM, item, "item {}: port_guard=1: {}",
                          name, error.what);
        };
        const auto free = static_cast<uint16_t>(~wanted->port_mask);
        if (size_t{1} << std::popcount(free) > kMostPorts)
            return refused({ENOTSUP, fmt::format("its mask leaves {} ports, of which at most {} "
                                                 "can be reserved for a rule: use several rules",
                                                 size_t{1} << std::popcount(free), kMostPorts)});
        if (!taker) {
            auto entered = space_.enter();
            if (!entered) return refused(entered.error());
            visit.emplace(std::move(*entered));
            taker.emplace(space_.id());
        }
        // All numbers whose masked bits are those of the value.
        for (unsigned bits = free;; bits = (bits - 1) & free) {
            const auto number = static_cast<uint16_t>(wanted->port | bits);
            if (auto done = take_number(*taker, *wanted, number); !done)
                return refused(done.error());
            if (bits == 0) break;
        }
    }
    if (!taker || taker->taken.empty()) return ReservationsRef();
    return make_ref<const Reservations>(std::move(taker->taken));
}

} // namespace rawqp
