// SPDX-License-Identifier: BSD-3-Clause
// Where the driver API of DPDK differs between 22.11, 23.11, 24.11 and 25.11: one named helper per
// difference, so that no other file checks the version. Included by dpdk.hpp, never alone.
//
// Differences that need no helper when written so that both forms compile:
//  - rte_eth_link became a union: write `rte_eth_link link{}` and assign the members.
//  - eth_dev_ops and rte_eth_dev were reordered: fill them in a constexpr function, by name.
//  - rte_flow's own address fields went away: use the `hdr` member of each rte_flow_item_*.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rawqp::compat {

// Adapts `const uint32_t* Get(rte_eth_dev*)`, whose table ends with RTE_PTYPE_UNKNOWN, to the
// dev_supported_ptypes_get operation. Since 24.03 the operation returns a count and no terminator.
// Use: ops.dev_supported_ptypes_get = compat::supported_ptypes<my_get>;
#if RTE_VERSION >= RTE_VERSION_NUM(24, 3, 0, 0)
template <const uint32_t* (*Get)(rte_eth_dev*)>
const uint32_t* supported_ptypes(rte_eth_dev* dev, size_t* count) noexcept {
    const uint32_t* table = Get(dev);
    size_t n = 0;
    while (table != nullptr && table[n] != RTE_PTYPE_UNKNOWN)
        ++n;
    *count = n;
    return table;
}
#else
template <const uint32_t* (*Get)(rte_eth_dev*)>
const uint32_t* supported_ptypes(rte_eth_dev* dev) noexcept {
    return Get(dev);
}
#endif

// Where the counters of queues go: up to 25.07 into the port's own struct, since then into a
// separate one, which is optional (null). Use: ops.stats_get = compat::stats<my_get>;
#if RTE_VERSION >= RTE_VERSION_NUM(25, 11, 0, 0)
using QueueStats = eth_queue_stats;
template <int (*Get)(rte_eth_dev*, rte_eth_stats&, QueueStats*)>
int stats(rte_eth_dev* dev, rte_eth_stats* port, QueueStats* queues) noexcept {
    return Get(dev, *port, queues);
}
#else
using QueueStats = rte_eth_stats;
template <int (*Get)(rte_eth_dev*, rte_eth_stats&, QueueStats*)>
int stats(rte_eth_dev* dev, rte_eth_stats* port) noexcept {
    return Get(dev, *port, port);
}
#endif

// The operation behind rte_eth_timesync_adjust_freq, which exists since 24.11. Use:
// compat::set_adjust_freq(ops, my_adjust);
template <class Ops>
constexpr void set_adjust_freq(Ops& ops, int (*adjust)(rte_eth_dev*, int64_t) noexcept) {
    if constexpr (requires { ops.timesync_adjust_freq; }) ops.timesync_adjust_freq = adjust;
}

// The count of packets waiting in a receive queue: uint32_t up to 25.07, int since. Use:
// format.rx_queue_count = compat::queue_count<my_count>;
using QueueCount = std::invoke_result_t<eth_rx_queue_count_t, void*>;
template <uint32_t (*Count)(void*)> QueueCount queue_count(void* queue) {
    return static_cast<QueueCount>(Count(queue));
}

// Parses the ethdev devargs (representor=...) of one port into `out`. Returns < 0 on error.
// Since 24.03 the parser takes an array and returns how many of its entries it filled.
inline int parse_eth_devargs(const char* devargs, rte_eth_devargs& out) noexcept {
#if RTE_VERSION >= RTE_VERSION_NUM(24, 3, 0, 0)
    return rte_eth_devargs_parse(devargs, &out, 1);
#else
    return rte_eth_devargs_parse(devargs, &out);
#endif
}

// Calls `handler` for each `key` in `args`, with a null value for a key without "=value".
// Returns 0, or -1 when a handler failed. From 24.11 on the plain call refuses a bare key itself,
// so that the driver could not say which one it was.
inline int process_kvargs(const rte_kvargs* args, const char* key, arg_handler_t handler,
                          void* opaque) noexcept {
#if RTE_VERSION >= RTE_VERSION_NUM(24, 11, 0, 0)
    return rte_kvargs_process_opt(args, key, handler, opaque);
#else
    return rte_kvargs_process(args, key, handler, opaque);
#endif
}

// Whether mbufs carry buf_iova. Without it the next pointer lives in the first cache line.
#if defined(RTE_IOVA_IN_MBUF)
inline constexpr bool kMbufHasIova = RTE_IOVA_IN_MBUF != 0;
#else
inline constexpr bool kMbufHasIova = RTE_IOVA_AS_PA != 0; // its name up to 22.11
#endif

// The 8 bytes data_off, refcnt, nb_segs, port of an mbuf, written as one word on receive.
// A zero-length marker up to 24.03, an array in a union since.
inline uint64_t* mbuf_rearm_word(rte_mbuf* mbuf) noexcept {
    return reinterpret_cast<uint64_t*>(&mbuf->rearm_data);
}

// The mbuf's receive fields from packet_type on, for vector stores.
inline void* mbuf_rx_fields(rte_mbuf* mbuf) noexcept {
    return reinterpret_cast<void*>(&mbuf->rx_descriptor_fields1);
}

// The 16 bytes of an IPv6 address: an array up to 24.07, a struct since.
template <class Address> const uint8_t* ipv6_bytes(const Address& address) noexcept {
    static_assert(sizeof(Address) == 16, "an IPv6 address has 16 bytes");
    return reinterpret_cast<const uint8_t*>(&address);
}

// The fields that rte_eth_dev_info gained in 23.11: Toeplitz, and the largest Rx buffer (bytes of
// one mbuf) that the device can use.
inline void set_newer_info([[maybe_unused]] rte_eth_dev_info& info,
                           [[maybe_unused]] uint32_t max_rx_bufsize) noexcept {
#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
    info.max_rx_bufsize = max_rx_bufsize;
    info.rss_algo_capa = RTE_ETH_HASH_ALGO_CAPA_MASK(DEFAULT) |
                         RTE_ETH_HASH_ALGO_CAPA_MASK(TOEPLITZ) |
                         RTE_ETH_HASH_ALGO_CAPA_MASK(SYMMETRIC_TOEPLITZ);
#endif
}

// rte_flow_actions_update came with 23.07, its own argument being the array of actions.
template <auto Update, class Ops> constexpr void set_actions_update([[maybe_unused]] Ops& ops) {
    if constexpr (requires { ops.actions_update; }) ops.actions_update = Update;
}

// The item for packet types, which came with 23.11; before, END, which no driver is asked about.
template <class Type = rte_flow_item_type> constexpr Type item_ptype() noexcept {
    if constexpr (requires { Type::RTE_FLOW_ITEM_TYPE_PTYPE; })
        return Type::RTE_FLOW_ITEM_TYPE_PTYPE;
    else
        return Type::RTE_FLOW_ITEM_TYPE_END;
}

// The hash function that an RSS configuration asks for; before 23.11 it could not ask for one.
inline rte_eth_hash_function rss_function([[maybe_unused]] const rte_eth_rss_conf& conf) noexcept {
#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
    return conf.algorithm;
#else
    return RTE_ETH_HASH_FUNCTION_DEFAULT;
#endif
}

// Reports the hash function in an RSS configuration, which has a member for it since 23.11.
template <class Conf>
void set_rss_function([[maybe_unused]] Conf& conf,
                      [[maybe_unused]] rte_eth_hash_function function) noexcept {
    if constexpr (requires { conf.algorithm; }) conf.algorithm = function;
}

// The functions of flow queues, which Fill(table) sets: in rte_flow_ops up to 23.11, in a separate
// table of the port since 24.11.
template <auto Fill, class Ops> constexpr void add_async_ops([[maybe_unused]] Ops& ops) {
    if constexpr (requires { ops.async_create; }) Fill(ops);
}
// Those that came later: rte_flow_async_create_by_index with 23.03, rte_flow_async_actions_update
// with 23.07. Up to 23.11 ethdev calls them without checking whether a driver has them, so each has
// to be set: these callables set the member.
template <class Ops, class ByIndex, class Update>
constexpr void add_later_async_ops([[maybe_unused]] Ops& ops, [[maybe_unused]] ByIndex by_index,
                                   [[maybe_unused]] Update update) {
    if constexpr (requires { ops.async_create_by_index; }) by_index(ops.async_create_by_index);
    if constexpr (requires { ops.async_actions_update; }) update(ops.async_actions_update);
}
// Why a template table cannot be what its attributes may ask for since 23.03 (insertion by index, a
// hash function) and since 24.03 (resizing later on); null: they ask for none of that. The
// enumerations came with the members and begin with what all tables were before. Other bits of
// `specialize` are hints.
template <class Attributes>
const char* unserved_table_kind([[maybe_unused]] const Attributes& of) noexcept {
    if constexpr (requires { of.insertion_type; })
        if (of.insertion_type != decltype(of.insertion_type){})
            return "rules of a template table have no index: use "
                   "RTE_FLOW_TABLE_INSERTION_TYPE_PATTERN";
    if constexpr (requires { of.hash_func; })
        if (of.hash_func != decltype(of.hash_func){})
            return "the hash of a template table is the device's own: use "
                   "RTE_FLOW_TABLE_HASH_FUNC_DEFAULT";
    constexpr uint32_t kResizable = RTE_BIT32(2);
#if defined(RTE_FLOW_TABLE_SPECIALIZE_RESIZABLE)
    static_assert(kResizable == RTE_FLOW_TABLE_SPECIALIZE_RESIZABLE);
#endif
    if constexpr (requires { of.specialize; })
        if ((of.specialize & kResizable) != 0)
            return "a template table is not resizable: make it for as many rules as may come";
    return nullptr;
}

// The table that a port has before its driver sets another, and again when it no longer serves
// flows: ethdev's own, which refuses everything. It is taken from the first port, which comes with
// it.
template <class Dev> auto* refusing_async_ops(const Dev& first) noexcept {
    static auto* const table = first.flow_fp_ops;
    return table;
}
template <auto Fill, class Dev> void set_async_ops([[maybe_unused]] Dev& dev) noexcept {
    if constexpr (requires { dev.flow_fp_ops; }) {
        static const auto table = [&] {
            auto filled = *refusing_async_ops(dev);
            Fill(filled);
            return filled;
        }();
        dev.flow_fp_ops = &table;
    }
}
template <class Dev> void unset_async_ops([[maybe_unused]] Dev& dev) noexcept {
    if constexpr (requires { dev.flow_fp_ops; }) dev.flow_fp_ops = refusing_async_ops(dev);
}

// Adds a number to a telemetry dictionary: rte_tel_data_add_dict_u64 has another name since 23.03.
inline int add_to_dict(rte_tel_data* dict, const char* name, uint64_t value) noexcept {
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
    return rte_tel_data_add_dict_uint(dict, name, value);
#else
    return rte_tel_data_add_dict_u64(dict, name, value);
#endif
}

/// Which tag modify_field means: 23.11 has a member for it, besides the older way to say it.
template <class Field> uint8_t tag_index(const Field& field) noexcept {
    if constexpr (requires { field.tag_index; })
        if (field.tag_index != 0) return field.tag_index;
    return static_cast<uint8_t>(field.level);
}

// Starts Run(arg) on a control thread: off the lcores' CPUs, named `name` (15 characters at most).
// Returns 0 or an errno value (positive). The caller joins it with rte_thread_join.
template <uint32_t (*Run)(void*)>
int create_control_thread(rte_thread_t& thread, const char* name, void* arg) noexcept {
#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
    return -rte_thread_create_control(&thread, name, Run, arg);
#else
    pthread_t id{};
    const int error = -rte_ctrl_thread_create(
        &id, name, nullptr,
        [](void* opaque) -> void* {
            Run(opaque);
            return nullptr;
        },
        arg);
    static_assert(sizeof(id) <= sizeof(thread.opaque_id));
    if (error == 0) thread.opaque_id = static_cast<uintptr_t>(id);
    return error;
#endif
}

/// Quotas that rte_flow_configure is to make in advance; DPDK has them from 23.03 on.
template <class PortAttributes> uint32_t quotas(const PortAttributes& port) {
    if constexpr (requires { port.nb_quotas; }) return port.nb_quotas;
    return 0;
}

} // namespace rawqp::compat
