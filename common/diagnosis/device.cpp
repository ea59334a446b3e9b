// SPDX-License-Identifier: BSD-3-Clause
// Tries the device: each kind of object that a port is made of is created once and released again.
// No packet is sent, and none is taken from anyone.
#include "common/diagnosis/links.hpp"
#include "common/diagnosis/refusals.hpp"
#include "common/verbs/device_list.hpp"
#include "common/verbs/errno_text.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <sys/mman.h>
#include <sys/resource.h>

namespace diagnosis::links {
namespace {

using verbs::Attempt;
using verbs::errno_text;

Result<void> make_basics(Case& subject) {
    const verbs::Api& api = *subject.api;
    Trial& trial = subject.trial;
    if (!trial.pd) {
        trial.pd = verbs::Pd(api.alloc_pd(trial.context.get()), {api.dealloc_pd, "PD"});
        if (!trial.pd) return fail(errno, "protection domain");
    }
    if (!trial.cq) {
        trial.cq = verbs::Cq(api.create_cq(trial.context.get(), 1, nullptr, nullptr, 0),
                             {api.destroy_cq, "CQ"});
        if (!trial.cq) return fail(errno, "completion queue");
    }
    return {};
}

Verdict no_basics(const Error& error) {
    return refused(error.what, error.code, Attempt::create_queue,
                   fmt::format("the device gives no {}", error.what));
}

/// A rule for an address that nobody has, below all others: it takes no packet.
struct TrialRule {
    ibv_flow_attr attributes{};
    ibv_flow_spec_eth ethernet{};
};
static_assert(offsetof(TrialRule, ethernet) == sizeof(ibv_flow_attr));

TrialRule trial_rule(uint8_t port) {
    TrialRule rule;
    rule.attributes.type = IBV_FLOW_ATTR_NORMAL;
    rule.attributes.size = sizeof rule;
    rule.attributes.num_of_specs = 1;
    rule.attributes.port = port;
    rule.ethernet.type = IBV_FLOW_SPEC_ETH;
    rule.ethernet.size = sizeof rule.ethernet;
    constexpr std::array<uint8_t, 6> kNobody = {0x02, 0xd0, 0xc7, 0x02, 0xa1, 0x00};
    std::memcpy(rule.ethernet.val.dst_mac, kNobody.data(), kNobody.size());
    std::memset(rule.ethernet.mask.dst_mac, 0xff, kNobody.size());
    return rule;
}

std::string offload_names(const ibv_device_attr_ex& attributes) {
    std::string missing;
    const auto want = [&](bool there, const char* name) {
        if (!there) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name);
    };
    want((attributes.raw_packet_caps & IBV_RAW_PACKET_CAP_IP_CSUM) != 0 ||
             (attributes.orig_attr.device_cap_flags & IBV_DEVICE_RAW_IP_CSUM) != 0,
         "checksums");
    want(attributes.tso_caps.max_tso != 0 &&
             ibv_is_qpt_supported(attributes.tso_caps.supported_qpts, IBV_QPT_RAW_PACKET),
         "segmentation (TSO)");
    want((attributes.raw_packet_caps & IBV_RAW_PACKET_CAP_CVLAN_STRIPPING) != 0, "VLAN stripping");
    want((attributes.raw_packet_caps & IBV_RAW_PACKET_CAP_SCATTER_FCS) != 0, "FCS");
    return missing;
}

} // namespace

Verdict device(Case& subject) {
    const verbs::Api& api = *subject.api;
    const verbs::DeviceList list(api);
    ibv_device* const found = list.find(subject.device);
    ibv_context* const context = found != nullptr ? api.open_device(found) : nullptr;
    const int error = context == nullptr ? errno : 0;
    if (context == nullptr)
        return refused("ibv_open_device", error != 0 ? error : EIO, Attempt::open_device,
                       fmt::format("the kernel does not open {}", subject.device));
    Trial& trial = subject.trial;
    trial.context = verbs::Context(context, {api.close_device, "device context"});
    if (const int failed = verbs::query_device(api, context, trial.attributes))
        return refused("ibv_query_device_ex", failed, Attempt::open_device,
                       fmt::format("{} does not say what it can", subject.device));
    const ibv_device_attr& basic = trial.attributes.orig_attr;
    const uint64_t own = trial.attributes.max_dm_size; // ibv_alloc_dm
    return Verdict::ok(fmt::format("firmware {}, {} port(s), {} QPs, {} CQs, {}", basic.fw_ver,
                                   basic.phys_port_cnt, basic.max_qp, basic.max_cq,
                                   own == 0 ? "no memory of its own"
                                            : fmt::format("{} bytes of its own, not used", own)));
}

Verdict raw_packet(Case& subject) {
    if (const Result<void> done = make_basics(subject); !done) return no_basics(done.error());
    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RAW_PACKET;
    attributes.send_cq = attributes.recv_cq = subject.trial.cq.get();
    attributes.cap.max_send_wr = attributes.cap.max_send_sge = 1;
    const verbs::Qp qp(subject.api->create_qp(subject.trial.pd.get(), &attributes),
                       {subject.api->destroy_qp, "QP"});
    if (!qp) return no_raw_packets(subject.device, errno);
    return Verdict::ok("created and released");
}

Verdict work_queue(Case& subject) {
    Trial& trial = subject.trial;
    const uint32_t most = trial.attributes.max_wq_type_rq;
    if (most == 0) return no_work_queues(subject.device);
    if (const Result<void> done = make_basics(subject); !done) return no_basics(done.error());
    ibv_wq_init_attr attributes{};
    attributes.wq_type = IBV_WQT_RQ;
    attributes.max_wr = attributes.max_sge = 1;
    attributes.pd = trial.pd.get();
    attributes.cq = trial.cq.get();
    trial.wq = verbs::Wq(ibv_create_wq(trial.context.get(), &attributes), {ibv_destroy_wq, "WQ"});
    if (!trial.wq)
        return refused("ibv_create_wq", errno, Attempt::create_queue,
                       fmt::format("{} gives no receive WQ", subject.device));
    return Verdict::ok(fmt::format("created; the device has {}", most));
}

Verdict rss(Case& subject) {
    Trial& trial = subject.trial;
    ibv_wq* wq = trial.wq.get();
    ibv_rwq_ind_table_init_attr table{};
    table.ind_tbl = &wq;
    trial.table = verbs::RwqIndTable(ibv_create_rwq_ind_table(trial.context.get(), &table),
                                     {ibv_destroy_rwq_ind_table, "RSS indirection table"});
    if (!trial.table)
        return refused("ibv_create_rwq_ind_table", errno, Attempt::steer,
                       fmt::format("{} gives no RSS table", subject.device));
    std::array<uint8_t, 40> key{};
    ibv_qp_init_attr_ex qp{};
    qp.qp_type = IBV_QPT_RAW_PACKET;
    qp.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    qp.pd = trial.pd.get();
    qp.rwq_ind_tbl = trial.table.get();
    qp.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, key.size(), key.data(),
                       IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4};
    trial.hash_qp = verbs::Qp(verbs::create_qp_ex(trial.context.get(), qp),
                              {subject.api->destroy_qp, "hash QP"});
    if (!trial.hash_qp)
        return refused("ibv_create_qp_ex", errno, Attempt::steer,
                       fmt::format("{} gives no hash QP", subject.device));
    return Verdict::ok(fmt::format("created; tables of up to {} entries",
                                   trial.attributes.rss_caps.max_rwq_indirection_table_size));
}

Verdict flow(Case& subject) {
    TrialRule rule = trial_rule(subject.port);
    const verbs::Flow flow(ibv_create_flow(subject.trial.hash_qp.get(), &rule.attributes),
                           {ibv_destroy_flow, "flow rule"});
    if (flow) return Verdict::ok("created and released");
    const int error = errno;
    Verdict verdict = refused("ibv_create_flow", error, Attempt::steer,
                              fmt::format("{} refuses flow rules", subject.device));
    if (error == EINVAL || error == EOPNOTSUPP)
        verdict.remedy =
            "ethtool -K IFACE ntuple on; devlink dev eswitch show: rules are for mode legacy, or "
            "for the representor's function; devlink health and dmesg tell what the device says";
    return verdict;
}

Verdict registration(Case& subject) {
    if (const Result<void> done = make_basics(subject); !done) return no_basics(done.error());
    constexpr size_t kBytes = size_t{16} << 20;
    void* const memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return Verdict::unknown(fmt::format("no {} KiB of memory for the trial", kBytes >> 10));
    const auto unmap = [](void* bytes) { munmap(bytes, kBytes); };
    const std::unique_ptr<void, decltype(unmap)> owner(memory, unmap);
    const verbs::Mr mr(subject.api->reg_mr_iova2(subject.trial.pd.get(), memory, kBytes,
                                                 reinterpret_cast<uint64_t>(memory),
                                                 IBV_ACCESS_LOCAL_WRITE),
                       {subject.api->dereg_mr, "MR"});
    if (mr) return Verdict::ok(fmt::format("{} KiB registered and released", kBytes >> 10));
    return not_registered(
        subject.host, kBytes, errno,
        fmt::format("the kernel does not pin {} KiB for {}", kBytes >> 10, subject.device));
}

Verdict interrupts(Case& subject) {
    const int vectors = subject.trial.context->num_comp_vectors;
    rlimit open_files{};
    getrlimit(RLIMIT_NOFILE, &open_files);
    const verbs::CompChannel channel(subject.api->create_comp_channel(subject.trial.context.get()),
                                     {subject.api->destroy_comp_channel, "completion channel"});
    if (!channel) {
        const int error = errno;
        return Verdict::broken(
            fmt::format("ibv_create_comp_channel: {}; RLIMIT_NOFILE is {}", errno_text(error),
                        open_files.rlim_cur),
            "queues with Rx interrupts get no channel to wake the program by",
            error == EMFILE ? "each such queue takes a file descriptor: ulimit -n 4096"
                            : "dmesg tells more; without intr_conf.rxq a port needs no channels");
    }
    const verbs::Cq cq(
        subject.api->create_cq(subject.trial.context.get(), 1, nullptr, channel.get(), 0),
        {subject.api->destroy_cq, "CQ"});
    if (!cq || ibv_req_notify_cq(cq.get(), 0) != 0)
        return refused("a CQ on a completion channel", errno != 0 ? errno : EIO,
                       Attempt::create_queue, "a queue with Rx interrupts cannot be armed");
    if (vectors < 1)
        return Verdict::broken("num_comp_vectors is 0",
                               "the device has no interrupt for completions: no queue wakes the "
                               "program",
                               "devlink resource show; more MSI-X vectors for a VF or SF: devlink "
                               "port function set PORT ... ; mlxconfig NUM_VF_MSIX");
    return Verdict::ok(fmt::format("a CQ was armed; {} interrupt vector(s)", vectors));
}

Verdict offloads(Case& subject) {
    const std::string missing = offload_names(subject.trial.attributes);
    if (missing.empty()) return Verdict::ok("checksums, segmentation, VLAN stripping, FCS");
    return Verdict::warning(fmt::format("not offered: {}", missing),
                            "applications must do without these offloads, or compute in software",
                            "a newer firmware may have them: mlxfwmanager, ethtool -i");
}

} // namespace diagnosis::links
