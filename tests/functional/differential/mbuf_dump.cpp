// SPDX-License-Identifier: BSD-3-Clause
// Receives on each port in turn and prints every field of every mbuf, one JSON object per line.
//
//   mbuf-dump EAL-OPTIONS -- --offloads 0x… --packets N --out FILE [--segment BYTES] [--mark-udp
//   PORT] [--tunnel-rules PORT] PORT…
//
// Prints "ready PORT" when frames may be sent. All ports get the same RSS key, so that hashes can
// be compared.
#include "app/rawqp-perf/dpdk.hpp"

#include <CLI/CLI.hpp>
#include <array>
#include <fmt/format.h>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

namespace {

struct Options {
    uint64_t offloads = 0;
    unsigned packets = 0;
    uint16_t segment = 2048;  ///< bytes of a receive buffer, without headroom
    uint16_t mark_udp = 0;    ///< destination port whose packets a rule marks; 0: no rule
    std::string tunnel_rules; ///< name of a port that needs rules to parse tunnels
    std::string out;          ///< file
    std::vector<std::string> ports;
};

constexpr uint16_t kDescriptors = 512;
constexpr uint32_t kMark = 0xabc;
// A busy host may stall for seconds.
constexpr unsigned kPatience = 15000; // ms without a packet

void check(int status, const std::string& what) {
    if (status != 0) throw std::runtime_error(fmt::format("{}: {}", what, rte_strerror(-status)));
}

void mark(uint16_t port, uint16_t udp_port) {
    const rte_flow_attr attributes{0, 0, 1, 0, 0, 0};
    rte_flow_item_udp udp{}, mask{};
    udp.hdr.dst_port = rte_cpu_to_be_16(udp_port);
    mask.hdr.dst_port = UINT16_MAX;
    const rte_flow_item pattern[] = {{RTE_FLOW_ITEM_TYPE_ETH, nullptr, nullptr, nullptr},
                                     {RTE_FLOW_ITEM_TYPE_IPV4, nullptr, nullptr, nullptr},
                                     {RTE_FLOW_ITEM_TYPE_UDP, &udp, nullptr, &mask},
                                     {RTE_FLOW_ITEM_TYPE_END, nullptr, nullptr, nullptr}};
    const rte_flow_action_mark id{kMark};
    const rte_flow_action_queue queue{0};
    const rte_flow_action actions[] = {{RTE_FLOW_ACTION_TYPE_MARK, &id},
                                       {RTE_FLOW_ACTION_TYPE_QUEUE, &queue},
                                       {RTE_FLOW_ACTION_TYPE_END, nullptr}};
    rte_flow_error error{};
    if (rte_flow_create(port, &attributes, pattern, actions, &error) == nullptr)
        throw std::runtime_error(fmt::format("mark rule: {}", error.message));
}

using Key = std::array<uint8_t, 40>;

Key hash_key() {
    Key key{};
    for (size_t i = 0; i < key.size(); ++i)
        key[i] = static_cast<uint8_t>(i * 37 + 11);
    return key;
}

/// net_mlx5 parses only tunnels that a rule names. Hashes are over the outer headers. In isolated
/// mode, as its own rules would share earlier hash QPs, which do not parse tunnels.
void add_tunnel_rules(uint16_t port, uint64_t types) {
    const Key key = hash_key();
    const uint16_t queue = 0;
    rte_flow_action_rss rss{};
    rss.level = 1;
    rss.types = types;
    rss.key = key.data();
    rss.key_len = key.size();
    rss.queue = &queue;
    rss.queue_num = 1;
    const rte_flow_action actions[] = {{RTE_FLOW_ACTION_TYPE_RSS, &rss},
                                       {RTE_FLOW_ACTION_TYPE_END, nullptr}};
    const auto item = [](rte_flow_item_type type) {
        return rte_flow_item{type, nullptr, nullptr, nullptr};
    };
    const auto create = [&](const rte_flow_item* pattern, uint32_t priority) {
        const rte_flow_attr attributes{0, priority, 1, 0, 0, 0};
        rte_flow_error error{};
        if (rte_flow_create(port, &attributes, pattern, actions, &error) == nullptr)
            throw std::runtime_error(fmt::format("tunnel rule: {}", error.message));
    };
    for (const auto outer : {RTE_FLOW_ITEM_TYPE_IPV4, RTE_FLOW_ITEM_TYPE_IPV6}) {
        const rte_flow_item vxlan[] = {item(RTE_FLOW_ITEM_TYPE_ETH), item(outer),
                                       item(RTE_FLOW_ITEM_TYPE_UDP), item(RTE_FLOW_ITEM_TYPE_VXLAN),
                                       item(RTE_FLOW_ITEM_TYPE_END)};
        const rte_flow_item gre[] = {item(RTE_FLOW_ITEM_TYPE_ETH), item(outer),
                                     item(RTE_FLOW_ITEM_TYPE_GRE), item(RTE_FLOW_ITEM_TYPE_END)};
        create(vxlan, 0);
        create(gre, 0);
    }
    const rte_flow_item rest[] = {item(RTE_FLOW_ITEM_TYPE_ETH), item(RTE_FLOW_ITEM_TYPE_END)};
    create(rest, 1);
}

void start(uint16_t port, const std::string& name, const Options& options) {
    Key key = hash_key();
    const bool told = options.tunnel_rules == name;
    rte_flow_error error{};
    if (told) check(rte_flow_isolate(port, 1, &error), "isolated mode");
    rte_eth_dev_info info{};
    check(rte_eth_dev_info_get(port, &info), "info");
    rte_eth_conf conf{};
    conf.rxmode.offloads = options.offloads & info.rx_offload_capa;
    if (conf.rxmode.offloads != options.offloads)
        throw std::runtime_error(fmt::format("port {} lacks offloads {:#x}", port,
                                             options.offloads & ~info.rx_offload_capa));
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    rte_eth_rss_conf& rss = conf.rx_adv_conf.rss_conf; // has more members from DPDK 23.11 on
    rss.rss_key = key.data();
    rss.rss_key_len = key.size();
    rss.rss_hf = info.flow_type_rss_offloads &
                 (RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV4_TCP |
                  RTE_ETH_RSS_IPV6 | RTE_ETH_RSS_NONFRAG_IPV6_UDP | RTE_ETH_RSS_NONFRAG_IPV6_TCP);
    check(rte_eth_dev_configure(port, 1, 1, &conf), "configure");
    rte_mempool* const pool = rte_pktmbuf_pool_create(
        fmt::format("pool{}", port).c_str(), 16383, 256, 0,
        static_cast<uint16_t>(options.segment + RTE_PKTMBUF_HEADROOM), SOCKET_ID_ANY);
    if (pool == nullptr) throw std::runtime_error("no pool");
    // Room for the same number of packets however they are split: a descriptor is an mbuf.
    const auto mbufs = static_cast<uint16_t>(kDescriptors * 2048u / options.segment);
    check(rte_eth_rx_queue_setup(port, 0, mbufs, SOCKET_ID_ANY, nullptr, pool), "Rx queue");
    check(rte_eth_tx_queue_setup(port, 0, kDescriptors, SOCKET_ID_ANY, nullptr), "Tx queue");
    check(rte_eth_dev_start(port), "start");
    if (!told) check(rte_eth_promiscuous_enable(port), "promiscuous mode");
    if (options.mark_udp != 0) mark(port, options.mark_udp);
    if (told) add_tunnel_rules(port, conf.rx_adv_conf.rss_conf.rss_hf);
}

std::string hex(const rte_mbuf& mbuf) {
    std::string text;
    for (const rte_mbuf* segment = &mbuf; segment != nullptr; segment = segment->next)
        for (uint16_t i = 0; i < segment->data_len; ++i)
            text += fmt::format("{:02x}", rte_pktmbuf_mtod(segment, const uint8_t*)[i]);
    return text;
}

/// A field that a flag declares valid is null without the flag.
nlohmann::json describe(const rte_mbuf& mbuf, const std::string& port) {
    const auto when = [&](uint64_t flag, uint32_t value) {
        return mbuf.ol_flags & flag ? nlohmann::json(value) : nlohmann::json();
    };
    std::vector<uint16_t> lengths;
    for (const rte_mbuf* segment = &mbuf; segment != nullptr; segment = segment->next)
        lengths.push_back(segment->data_len);
    std::array<char, 256> flags{}, type{};
    rte_get_rx_ol_flag_list(mbuf.ol_flags, flags.data(), flags.size());
    rte_get_ptype_name(mbuf.packet_type, type.data(), type.size());
    return {{"port", port},
            {"packet_type", type.data()},
            {"flags", flags.data()},
            {"hash", when(RTE_MBUF_F_RX_RSS_HASH, mbuf.hash.rss)},
            {"mark", when(RTE_MBUF_F_RX_FDIR_ID, mbuf.hash.fdir.hi)},
            {"vlan", when(RTE_MBUF_F_RX_VLAN, mbuf.vlan_tci)},
            {"vlan_outer", when(RTE_MBUF_F_RX_QINQ, mbuf.vlan_tci_outer)},
            {"packet_length", mbuf.pkt_len},
            {"segments", mbuf.nb_segs},
            {"segment_lengths", lengths},
            {"headroom", rte_pktmbuf_headroom(&mbuf)},
            {"references", rte_mbuf_refcnt_read(&mbuf)},
            {"data", hex(mbuf)}};
}

void dump(uint16_t port, const Options& options, std::ofstream& out) {
    std::array<char, RTE_ETH_NAME_MAX_LEN> name{};
    rte_eth_dev_get_name_by_port(port, name.data());
    std::array<rte_mbuf*, 32> mbufs;
    // Described at the end, as that takes time: an empty queue holds the wire for a second only.
    std::vector<rte_mbuf*> seen;
    for (unsigned idle = 0; seen.size() < options.packets && idle < kPatience;) {
        const uint16_t got = rte_eth_rx_burst(port, 0, mbufs.data(), mbufs.size());
        seen.insert(seen.end(), mbufs.begin(), mbufs.begin() + got);
        idle = got == 0 ? idle + 1 : 0;
        if (got == 0) rte_delay_us_sleep(1000);
    }
    for (rte_mbuf* const mbuf : seen) {
        if (mbuf->port != port) throw std::runtime_error("mbuf of another port");
        out << describe(*mbuf, name.data()).dump() << '\n';
        rte_pktmbuf_free(mbuf);
    }
    rte_eth_burst_mode mode{};
    const bool named = rte_eth_rx_burst_mode_get(port, 0, &mode) == 0;
    out << nlohmann::json{{"port", name.data()}, {"mode", named ? mode.info : ""}}.dump() << '\n';
}

void run(const Options& options) {
    std::ofstream out(options.out);
    for (const std::string& name : options.ports) {
        uint16_t port;
        check(rte_eth_dev_get_port_by_name(name.c_str(), &port), "port " + name);
        start(port, name, options);
        std::cout << "ready " << name << std::endl;
        dump(port, options, out);
        rte_eth_dev_stop(port);
    }
    if (!out.flush()) throw std::runtime_error("cannot write " + options.out);
}

} // namespace

int main(int argc, char** argv) try {
    const int used = rte_eal_init(argc, argv);
    if (used < 0) return 1;
    Options options;
    CLI::App app("mbuf-dump");
    app.add_option("--offloads", options.offloads)->required();
    app.add_option("--packets", options.packets)->required();
    app.add_option("--out", options.out)->required();
    app.add_option("--segment", options.segment);
    app.add_option("--mark-udp", options.mark_udp);
    app.add_option("--tunnel-rules", options.tunnel_rules);
    app.add_option("ports", options.ports)->required();
    CLI11_PARSE(app, argc - used, argv + used);
    run(options);
    rte_eal_cleanup();
    return 0;
} catch (const std::exception& error) {
    std::cerr << "mbuf-dump: " << error.what() << '\n';
    return 1;
}
