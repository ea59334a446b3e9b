// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/nldev_resources.hpp"

#include <array>

namespace softhca::uverbs {
namespace {

using Census = std::vector<ProcessEntry>;
using Rows = std::vector<ResourceRow>;

constexpr unsigned kKeyIndexShift = 8; // the low byte of a key is its variant

template <class Entry> uint32_t number_of(const Entry& entry) { return entry.number; }
uint32_t number_of(const MrEntry& mr) { return mr.key >> kKeyIndexShift; }
template <class Entry> uint8_t port_of(const Entry&) { return 0; }
uint8_t port_of(const QpEntry& qp) { return qp.port; }

/// Calls visit(pid, context) for each open context of the device.
template <class Visit>
void for_each_context(const Census& census, const std::string& device, Visit visit) {
    for (const ProcessEntry& process : census)
        for (const PortEntry& port : process.ports)
            if (port.device == device)
                for (const ContextEntry& context : port.contexts)
                    visit(static_cast<uint32_t>(process.pid), context);
}

/// A row for each entry of that list in all contexts. fill(message, entry, context's number) adds
/// what is specific to its kind.
template <class Entry, class Fill>
Rows rows_of(const Census& census, const std::string& device,
             std::vector<Entry> ContextEntry::*list, Fill fill) {
    Rows rows;
    for_each_context(census, device, [&](uint32_t pid, const ContextEntry& context) {
        for (const Entry& entry : context.*list)
            rows.push_back({number_of(entry), port_of(entry),
                            [=, owner = context.number](NldevMessage& message) {
                                fill(message, entry, owner);
                                message.u32(RDMA_NLDEV_ATTR_RES_PID, pid);
                            }});
    });
    return rows;
}

Rows pd_rows(const Census& census, const std::string& device, bool with_keys) {
    return rows_of(census, device, &ContextEntry::pds,
                   [=](NldevMessage& message, const PdEntry& pd, uint32_t context) {
                       if (with_keys) // the kernel's own PDs have one
                           message.u32(RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY, 0);
                       message.u64(RDMA_NLDEV_ATTR_RES_USECNT, pd.users);
                       message.u32(RDMA_NLDEV_ATTR_RES_PDN, pd.number);
                       message.u32(RDMA_NLDEV_ATTR_RES_CTXN, context);
                   });
}

Rows cq_rows(const Census& census, const std::string& device, bool) {
    return rows_of(census, device, &ContextEntry::cqs,
                   [](NldevMessage& message, const CqEntry& cq, uint32_t context) {
                       message.u32(RDMA_NLDEV_ATTR_RES_CQE, cq.entries);
                       message.u64(RDMA_NLDEV_ATTR_RES_USECNT, cq.users);
                       message.u8(RDMA_NLDEV_ATTR_DEV_DIM, 0); // kernel CQs have it
                       message.u32(RDMA_NLDEV_ATTR_RES_CQN, cq.number);
                       message.u32(RDMA_NLDEV_ATTR_RES_CTXN, context);
                   });
}

Rows qp_rows(const Census& census, const std::string& device, bool) {
    return rows_of(census, device, &ContextEntry::qps,
                   [](NldevMessage& message, const QpEntry& qp, uint32_t) {
                       if (qp.port) message.u32(RDMA_NLDEV_ATTR_PORT_INDEX, qp.port);
                       message.u32(RDMA_NLDEV_ATTR_RES_LQPN, qp.number);
                       message.u32(RDMA_NLDEV_ATTR_RES_PDN, qp.pd);
                       message.u32(RDMA_NLDEV_ATTR_RES_SQ_PSN, 0);
                       message.u8(RDMA_NLDEV_ATTR_RES_TYPE, qp.type);
                       message.u8(RDMA_NLDEV_ATTR_RES_STATE, qp.state);
                   });
}

Rows mr_rows(const Census& census, const std::string& device, bool with_keys) {
    return rows_of(census, device, &ContextEntry::mrs,
                   [=](NldevMessage& message, const MrEntry& mr, uint32_t) {
                       if (with_keys) {
                           message.u32(RDMA_NLDEV_ATTR_RES_RKEY, mr.key);
                           message.u32(RDMA_NLDEV_ATTR_RES_LKEY, mr.key);
                       }
                       message.u64(RDMA_NLDEV_ATTR_RES_MRLEN, mr.length);
                       message.u32(RDMA_NLDEV_ATTR_RES_MRN, number_of(mr));
                       message.u32(RDMA_NLDEV_ATTR_RES_PDN, mr.pd);
                   });
}

Rows context_rows(const Census& census, const std::string& device, bool) {
    Rows rows;
    for_each_context(census, device, [&](uint32_t pid, const ContextEntry& context) {
        rows.push_back({context.number, 0, [=, number = context.number](NldevMessage& message) {
                            message.u32(RDMA_NLDEV_ATTR_RES_CTXN, number);
                            message.u32(RDMA_NLDEV_ATTR_RES_PID, pid);
                        }});
    });
    return rows;
}

Rows no_rows(const Census&, const std::string&, bool) { return {}; }

constexpr std::array kKinds{
    ResourceKind{RDMA_NLDEV_CMD_RES_PD_GET, "pd", RDMA_NLDEV_ATTR_RES_PD,
                 RDMA_NLDEV_ATTR_RES_PD_ENTRY, RDMA_NLDEV_ATTR_RES_PDN, true, pd_rows},
    ResourceKind{RDMA_NLDEV_CMD_RES_CQ_GET, "cq", RDMA_NLDEV_ATTR_RES_CQ,
                 RDMA_NLDEV_ATTR_RES_CQ_ENTRY, RDMA_NLDEV_ATTR_RES_CQN, true, cq_rows},
    ResourceKind{RDMA_NLDEV_CMD_RES_QP_GET, "qp", RDMA_NLDEV_ATTR_RES_QP,
                 RDMA_NLDEV_ATTR_RES_QP_ENTRY, RDMA_NLDEV_ATTR_RES_LQPN, false, qp_rows},
    ResourceKind{RDMA_NLDEV_CMD_RES_CM_ID_GET, "cm_id", RDMA_NLDEV_ATTR_RES_CM_ID,
                 RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, RDMA_NLDEV_ATTR_RES_CM_IDN, false, no_rows},
    ResourceKind{RDMA_NLDEV_CMD_RES_MR_GET, "mr", RDMA_NLDEV_ATTR_RES_MR,
                 RDMA_NLDEV_ATTR_RES_MR_ENTRY, RDMA_NLDEV_ATTR_RES_MRN, true, mr_rows},
    ResourceKind{RDMA_NLDEV_CMD_RES_CTX_GET, "ctx", RDMA_NLDEV_ATTR_RES_CTX,
                 RDMA_NLDEV_ATTR_RES_CTX_ENTRY, RDMA_NLDEV_ATTR_RES_CTXN, true, context_rows},
    ResourceKind{RDMA_NLDEV_CMD_RES_SRQ_GET, "srq", RDMA_NLDEV_ATTR_RES_SRQ,
                 RDMA_NLDEV_ATTR_RES_SRQ_ENTRY, RDMA_NLDEV_ATTR_RES_SRQN, true, no_rows},
};

} // namespace

const ResourceKind* resource_kind(unsigned command) {
    for (const ResourceKind& kind : kKinds)
        if (kind.command == command) return &kind;
    return nullptr;
}

void fill_summary(NldevMessage& message, const Census& census, const std::string& device) {
    message.nest(RDMA_NLDEV_ATTR_RES_SUMMARY, [&] {
        for (const ResourceKind& kind : kKinds)
            message.nest(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY, [&] {
                message.text(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, kind.name);
                message.u64(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR,
                            kind.rows(census, device, false).size());
            });
    });
}

} // namespace softhca::uverbs
