// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/nldev.hpp"

#include "app/softhca/identity.hpp"
#include "app/softhca/uverbs/commands.hpp"
#include "app/softhca/uverbs/nldev_resources.hpp"
#include "app/softhca/uverbs/small_file.hpp"
#include "app/softhca/uverbs/sysfs_tree.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <infiniband/verbs.h>
#include <linux/capability.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace softhca::uverbs {
namespace {

using Messages = std::vector<std::string>;

constexpr uint32_t kPort = 1; // each device has this one

/// One request on its way to its answers.
struct Call {
    Runtime& runtime;
    const NldevClient& client;
    NldevRequest& request;
    Messages& answers;

    [[nodiscard]] unsigned command() const { return RDMA_NL_GET_OP(request.header.nlmsg_type); }
    [[nodiscard]] bool dumps() const { return request.header.nlmsg_flags & NLM_F_DUMP; }
    /// Null: no port has that index, or none is given.
    [[nodiscard]] Port* port() const {
        if (!request.has(RDMA_NLDEV_ATTR_DEV_INDEX)) return nullptr;
        return runtime.port(request.number(RDMA_NLDEV_ATTR_DEV_INDEX));
    }
    [[nodiscard]] NldevMessage message(unsigned type) const {
        return {request.header, client.port,
                static_cast<uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, type)),
                static_cast<uint16_t>(dumps() ? NLM_F_MULTI : 0)};
    }
    void answer(const NldevMessage& message) const { answers.push_back(message.bytes()); }
    /// Calls tell(port) for the requested device, or for all in a dump.
    template <class Tell> [[nodiscard]] Refusal for_devices(Tell tell) const {
        if (!dumps() && !port()) return {EINVAL};
        for (const auto& each : runtime.ports())
            if (dumps() || each.get() == port()) tell(*each);
        return {};
    }
};

bool may_administer() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3]{};
    if (syscall(SYS_capget, &header, sets) != 0) return false;
    return sets[CAP_TO_INDEX(CAP_NET_ADMIN)].effective & CAP_TO_MASK(CAP_NET_ADMIN);
}

void put_handle(NldevMessage& message, const Port& port) {
    message.u32(RDMA_NLDEV_ATTR_DEV_INDEX, static_cast<uint32_t>(port.index));
    message.text(RDMA_NLDEV_ATTR_DEV_NAME, port.config.device);
}

// -- devices and ports ----------------------------------------------------------------------------

void put_device(NldevMessage& message, const Port& port) {
    uint64_t guid = 0;
    for (const uint8_t byte : guid_bytes(port.config.mac))
        guid = guid << 8 | byte;
    put_handle(message, port);
    message.u32(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);
    message.u64(RDMA_NLDEV_ATTR_CAP_FLAGS, device_cap_flags());
    message.text(RDMA_NLDEV_ATTR_FW_VERSION, firmware_version());
    message.u64(RDMA_NLDEV_ATTR_NODE_GUID, guid);
    message.u64(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, guid);
    message.u8(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, IBV_NODE_CA);
    message.u8(RDMA_NLDEV_ATTR_DEV_DIM, 1); // as mlx5_ib has it
    // No protocol: a port with only RAW_PACKET QPs has none of those that the kernel names.
}

Refusal get_device(const Call& call) {
    return call.for_devices([&](const Port& port) {
        NldevMessage message = call.message(RDMA_NLDEV_CMD_GET);
        put_device(message, port);
        call.answer(message);
    });
}

void put_port(NldevMessage& message, Port& port, const PortView& view) {
    constexpr uint8_t kLinkUp = 5, kDisabled = 3;
    put_handle(message, port);
    message.u32(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);
    message.u8(RDMA_NLDEV_ATTR_PORT_STATE, view.link_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN);
    message.u8(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, view.link_up ? kLinkUp : kDisabled);
    const std::string& netdev = port.config.netdev;
    const unsigned index = netdev.empty() ? 0 : if_nametoindex(netdev.c_str());
    if (index == 0) return; // in another network namespace, or gone
    message.u32(RDMA_NLDEV_ATTR_NDEV_INDEX, index);
    message.text(RDMA_NLDEV_ATTR_NDEV_NAME, netdev);
}

Refusal get_port(const Call& call) {
    Port* port = call.port();
    if (!port) return {EINVAL};
    if (!call.dumps() && !call.request.has_number(RDMA_NLDEV_ATTR_PORT_INDEX, kPort))
        return {EINVAL};
    // The kernel gives the single answer the name of the other command.
    NldevMessage message =
        call.message(call.dumps() ? RDMA_NLDEV_CMD_PORT_GET : RDMA_NLDEV_CMD_GET);
    put_port(message, *port, view_port(take_census(call.runtime), *port));
    call.answer(message);
    return {};
}

/// The number by which the kernel knows the device node, in its 64-bit encoding (huge_encode_dev),
/// from the file where libibverbs would otherwise find it.
uint64_t chardev_number(const Call& call, const Port& port) {
    const std::string file = fmt::format("{}{}/infiniband_verbs/uverbs{}/dev",
                                         tree_root(call.runtime.config().runtime_dir),
                                         pci_folder(port.config), port.index);
    unsigned major = 0, minor = 0;
    std::sscanf(read_line(file).c_str(), "%u:%u", &major, &minor);
    return (minor & 0xff) | major << 8 | (minor & ~0xffu) << 12;
}

Refusal get_chardev(const Call& call) {
    const NldevRequest& request = call.request;
    if (!request.has(RDMA_NLDEV_ATTR_CHARDEV_TYPE)) return {EINVAL};
    const bool of_device = request.has(RDMA_NLDEV_ATTR_DEV_INDEX);
    const bool of_port = request.has(RDMA_NLDEV_ATTR_PORT_INDEX);
    const Port* port = call.port();
    if (of_device != (port != nullptr) || (of_port && !of_device)) return {EINVAL};
    if (of_port && !request.has_number(RDMA_NLDEV_ATTR_PORT_INDEX, kPort)) return {EINVAL};
    // No umad, issm, rdma_cm or ucm here.
    if (!port || request.text(RDMA_NLDEV_ATTR_CHARDEV_TYPE) != "uverbs") return {ENOENT};
    if (of_port) return {EINVAL};
    NldevMessage message = call.message(RDMA_NLDEV_CMD_GET_CHARDEV);
    message.u32(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, RDMA_DRIVER_MLX5);
    message.u64(RDMA_NLDEV_ATTR_CHARDEV, chardev_number(call, *port));
    message.u64(RDMA_NLDEV_ATTR_CHARDEV_ABI, MLX5_IB_UVERBS_ABI_VERSION);
    message.text(RDMA_NLDEV_ATTR_CHARDEV_NAME, fmt::format("uverbs{}", port->index));
    call.answer(message);
    return {};
}

Refusal get_system(const Call& call) {
    NldevMessage message = call.message(RDMA_NLDEV_CMD_SYS_GET);
    message.u8(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1); // shared
    message.u8(kAttrPrivilegedQkeyMode, 0);
    // A child of fork(2) takes nothing from the device, which is in its parent.
    message.u8(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1);
    call.answer(message);
    return {};
}

// -- resources ------------------------------------------------------------------------------------

Refusal get_summary(const Call& call) {
    const auto census = take_census(call.runtime);
    return call.for_devices([&](const Port& port) {
        NldevMessage message = call.message(RDMA_NLDEV_CMD_RES_GET);
        put_handle(message, port);
        fill_summary(message, census, port.config.device);
        call.answer(message);
    });
}

/// All rows, in as many messages as they need; none for no rows.
void dump_rows(const Call& call, const ResourceKind& kind, const Port& port,
               const std::vector<ResourceRow>& rows) {
    for (auto row = rows.begin(); row != rows.end();) {
        NldevMessage message = call.message(call.command());
        put_handle(message, port);
        message.nest(kind.table, [&] {
            for (; row != rows.end() && !message.is_full(); ++row)
                message.nest(kind.entry, [&] { row->fill(message); });
        });
        call.answer(message);
    }
}

Refusal get_resources(const Call& call, const ResourceKind& kind) {
    const NldevRequest& request = call.request;
    const Port* port = call.port();
    if (!port || (!call.dumps() && !request.has(kind.number))) return {EINVAL};
    const bool of_port = request.has(RDMA_NLDEV_ATTR_PORT_INDEX);
    if (of_port && !request.has_number(RDMA_NLDEV_ATTR_PORT_INDEX, kPort)) return {EINVAL};
    if (!call.dumps() && of_port == kind.per_device) return {EINVAL};

    auto rows = kind.rows(take_census(call.runtime), port->config.device, may_administer());
    if (of_port && !kind.per_device)
        std::erase_if(rows, [](const ResourceRow& row) { return row.port != kPort; });
    if (call.dumps()) {
        dump_rows(call, kind, *port, rows);
        return {};
    }
    const uint32_t wanted = request.number(kind.number);
    for (const ResourceRow& row : rows) {
        if (row.number != wanted) continue;
        NldevMessage message = call.message(call.command());
        put_handle(message, *port);
        row.fill(message);
        call.answer(message);
        return {};
    }
    return {ENOENT};
}

Refusal get_resources(const Call& call) {
    return get_resources(call, *resource_kind(call.command()));
}

// -- counters -------------------------------------------------------------------------------------

constexpr const char* kHwCounters[] = {"rx_write_requests", "rx_read_requests",
                                       "rx_atomic_requests", "out_of_buffer"};

Refusal get_port_counters(const Call& call) {
    Port* port = call.port();
    if (!port || !call.request.has_number(RDMA_NLDEV_ATTR_PORT_INDEX, kPort)) return {EINVAL};
    PortView view = view_port(take_census(call.runtime), *port);
    NldevMessage message = call.message(RDMA_NLDEV_CMD_STAT_GET);
    put_handle(message, *port);
    message.u32(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);
    nlattr* table = message.open(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, true);
    for (const char* name : kHwCounters) {
        nlattr* entry = message.open(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, true);
        message.text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name);
        message.u64(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE,
                    view.counters[std::string("hw_counters/") + name]);
        message.close(entry);
    }
    message.close(table);
    call.answer(message);
    return {};
}

/// The names of the counters. None of them is optional.
Refusal get_counter_names(const Call& call) {
    const Port* port = call.port();
    if (!port || !call.request.has_number(RDMA_NLDEV_ATTR_PORT_INDEX, kPort)) return {EINVAL};
    NldevMessage message = call.message(RDMA_NLDEV_CMD_STAT_GET_STATUS);
    put_handle(message, *port);
    message.u32(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);
    nlattr* table = message.open(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, true);
    uint32_t index = 0;
    for (const char* name : kHwCounters) {
        nlattr* entry = message.open(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, true);
        message.text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name);
        message.u32(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, index++);
        message.close(entry);
    }
    message.close(table);
    call.answer(message);
    return {};
}

/// How QPs are bound to counters of their own: not at all, there are none.
Refusal get_counter_mode(const Call& call) {
    const NldevRequest& request = call.request;
    const Port* port = call.port();
    if (request.has(RDMA_NLDEV_ATTR_STAT_COUNTER_ID)) return {port ? ENOENT : EINVAL};
    if (!port || !request.has(RDMA_NLDEV_ATTR_STAT_MODE) ||
        !request.has_number(RDMA_NLDEV_ATTR_PORT_INDEX, kPort))
        return {EINVAL};
    NldevMessage message = call.message(RDMA_NLDEV_CMD_STAT_GET);
    put_handle(message, *port);
    message.u32(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);
    message.u32(RDMA_NLDEV_ATTR_STAT_MODE, RDMA_COUNTER_MODE_NONE);
    call.answer(message);
    return {};
}

Refusal get_counters(const Call& call) {
    const bool of_qps = call.request.has_number(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP);
    if (call.dumps()) return {of_qps && call.port() ? 0 : EINVAL};
    if (of_qps) return get_counter_mode(call);
    if (call.request.has(RDMA_NLDEV_ATTR_STAT_RES)) return {EINVAL};
    return get_port_counters(call);
}

// -- all together ---------------------------------------------------------------------------------

Refusal refuse_change(const Call&) {
    return {EOPNOTSUPP, "softhca: devices are what the command line made them"};
}

struct Handler {
    unsigned command;
    Refusal (*run)(const Call&);
    bool gets = true, dumps = true;
    bool strict = false;
    bool administrative = false;
};
constexpr bool kGetOnly = false, kStrict = true;
constexpr Handler changes(unsigned command) {
    return {.command = command, .run = refuse_change, .dumps = false, .administrative = true};
}
constexpr std::array kHandlers{
    Handler{RDMA_NLDEV_CMD_GET, get_device},
    Handler{RDMA_NLDEV_CMD_PORT_GET, get_port},
    Handler{RDMA_NLDEV_CMD_GET_CHARDEV, get_chardev, true, kGetOnly, kStrict},
    Handler{RDMA_NLDEV_CMD_SYS_GET, get_system, true, kGetOnly, kStrict},
    Handler{RDMA_NLDEV_CMD_RES_GET, get_summary},
    Handler{RDMA_NLDEV_CMD_RES_PD_GET, get_resources},
    Handler{RDMA_NLDEV_CMD_RES_CQ_GET, get_resources},
    Handler{RDMA_NLDEV_CMD_RES_QP_GET, get_resources},
    Handler{RDMA_NLDEV_CMD_RES_CM_ID_GET, get_resources},
    Handler{RDMA_NLDEV_CMD_RES_MR_GET, get_resources},
    Handler{RDMA_NLDEV_CMD_RES_CTX_GET, get_resources},
    Handler{RDMA_NLDEV_CMD_RES_SRQ_GET, get_resources},
    Handler{RDMA_NLDEV_CMD_STAT_GET, get_counters, true, true, kStrict},
    Handler{RDMA_NLDEV_CMD_STAT_GET_STATUS, get_counter_names, true, kGetOnly, kStrict},
    changes(RDMA_NLDEV_CMD_SET),
    changes(RDMA_NLDEV_CMD_NEWLINK),
    changes(RDMA_NLDEV_CMD_DELLINK),
    changes(RDMA_NLDEV_CMD_SYS_SET),
    changes(RDMA_NLDEV_CMD_STAT_SET),
    changes(RDMA_NLDEV_CMD_STAT_DEL),
};

const Handler* find_handler(uint16_t type) {
    if (RDMA_NL_GET_CLIENT(type) != RDMA_NL_NLDEV) return nullptr;
    for (const Handler& handler : kHandlers)
        if (handler.command == RDMA_NL_GET_OP(type)) return &handler;
    return nullptr;
}

/// The end of a dump, which also reports its result.
void put_done(const Call& call, int error) {
    NldevMessage message(call.request.header, call.client.port, NLMSG_DONE, NLM_F_MULTI);
    const int status = -error;
    message.append(&status, sizeof status);
    call.answer(message);
}

void answer_one(Runtime& runtime, const nlmsghdr& header, const NldevClient& client,
                Messages& answers) {
    NldevRequest request(header);
    const Call call{runtime, client, request, answers};
    Refusal refusal;
    if (header.nlmsg_flags & NLM_F_REQUEST && header.nlmsg_type >= NLMSG_MIN_TYPE) {
        const Handler* handler = find_handler(header.nlmsg_type);
        if (!handler || !(call.dumps() ? handler->dumps : handler->gets))
            refusal = {EINVAL};
        else if (handler->administrative && !may_administer())
            refusal = {EPERM};
        else {
            refusal = request.parse(handler->strict);
            // Most commands return the same error for all faults.
            if (refusal.error && handler->run != get_system) refusal.error = EINVAL;
            if (!refusal.error) refusal = handler->run(call);
            if (call.dumps()) return put_done(call, refusal.error);
        }
    }
    if (refusal.error || header.nlmsg_flags & NLM_F_ACK)
        answers.push_back(
            acknowledgement(header, client.port, refusal, client.cap_ack, client.ext_ack));
}

} // namespace

Messages answer_nldev(Runtime& runtime, std::string_view requests, const NldevClient& client) {
    // Copied one by one, as a program's messages need not be aligned.
    Messages answers;
    while (requests.size() >= sizeof(nlmsghdr)) {
        nlmsghdr header;
        std::memcpy(&header, requests.data(), sizeof header);
        if (header.nlmsg_len < sizeof header || header.nlmsg_len > requests.size()) break;
        std::vector<nlmsghdr> aligned(header.nlmsg_len / sizeof header + 1);
        std::memcpy(aligned.data(), requests.data(), header.nlmsg_len);
        answer_one(runtime, aligned.front(), client, answers);
        requests.remove_prefix(std::min<size_t>(requests.size(), MNL_ALIGN(header.nlmsg_len)));
    }
    return answers;
}

} // namespace softhca::uverbs
