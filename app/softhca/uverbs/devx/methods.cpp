// SPDX-License-Identifier: BSD-3-Clause
// The methods behind mlx5dv_devx_*: general commands, objects, umems.
#include "app/softhca/uverbs/devx/methods.hpp"
#include "app/softhca/uverbs/commands.hpp"
#include "app/softhca/uverbs/devx/rules.hpp"
#include "app/softhca/uverbs/devx/user.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

namespace softhca::uverbs::devx {
namespace {

constexpr size_t kHeadBytes = 16; // of a command, and of its answer

std::vector<uint8_t> copy_of(const InBuffer& buffer) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(buffer.bytes().data());
    return {bytes, bytes + buffer.size()};
}

void put(const OutBuffer& buffer, const std::vector<uint8_t>& bytes) {
    if (!bytes.empty()) std::memcpy(buffer.bytes().data(), bytes.data(), bytes.size());
}

/// A command of the program and the room for its answer.
struct Exchange {
    std::vector<uint8_t> in, out;
    OutBuffer answer;
};

Errno read_exchange(const IoctlAttributes& attributes, uint16_t in, uint16_t out, Exchange& read) {
    const std::array ins = {in}, outs = {out};
    if (!attributes.pointers_are_good(ins, false) || !attributes.pointers_are_good(outs, true))
        return EFAULT;
    read.in = copy_of(attributes.in(in));
    read.answer = attributes.out(out);
    read.out.resize(read.answer.size());
    return read.in.size() < kHeadBytes || read.out.size() < kHeadBytes ? EINVAL : 0;
}

/// Runs the command; if it is refused, the program also gets the firmware's status.
Errno run(User& user, Exchange& exchange) {
    const Errno error = user.execute(exchange.in, exchange.out);
    put(exchange.answer, exchange.out);
    return error;
}

bool is_tunnelled(const Exchange& exchange) {
    constexpr prm::Field kTunnel{32, 16};
    return get(exchange.in, kTunnel) != 0;
}

Errno general_command(Context& context, const IoctlAttributes& attributes) {
    Exchange exchange;
    if (const Errno error = read_exchange(attributes, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN,
                                          MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, exchange))
        return error;
    User* const user = user_of(context);
    if (user) return is_general(exchange.in) ? run(*user, exchange) : EINVAL;
    if (!is_for_everyone(exchange.in)) return EINVAL;
    const Errno error = PortFirmware::of(context.port)->execute(exchange.in, exchange.out, 0);
    put(exchange.answer, exchange.out);
    return error;
}

Errno query_eqn(Context&, const IoctlAttributes& attributes) {
    const auto vector = attributes.number(MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC);
    if (!vector) return EINVAL;
    if (*vector >= kCompletionVectors) return ENOENT;
    attributes.out(MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN)
        .put(PortFirmware::eq_of(static_cast<uint32_t>(*vector)));
    return 0;
}

/// For doorbell pages that come with a context, of which there are none here.
Errno query_uar(Context&, const IoctlAttributes&) { return EINVAL; }

DevxObject::Role role_of(uint16_t create) {
    switch (create) {
    case MLX5_CMD_OP_CREATE_TIR: return DevxObject::Role::tir;
    case MLX5_CMD_OP_CREATE_FLOW_TABLE: return DevxObject::Role::flow_table;
    case MLX5_CMD_OP_ALLOC_FLOW_COUNTER: return DevxObject::Role::flow_counters;
    default: return DevxObject::Role::other;
    }
}

Errno create_object(Context& context, const IoctlAttributes& attributes) {
    Exchange exchange;
    if (const Errno error = read_exchange(attributes, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN,
                                          MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, exchange))
        return error;
    User* const user = user_of(context);
    const ObjectRule* const rule = create_rule(exchange.in);
    if (!user || !rule || is_tunnelled(exchange)) return EINVAL;
    force_umems(exchange.in);
    if (const Errno error = run(*user, exchange)) return error;
    const auto number =
        static_cast<uint32_t>(get(rule->by_input ? exchange.in : exchange.out, rule->id));
    auto object = std::make_unique<CommandObject>(*user, object_id(maker_of(exchange.in), number),
                                                  destroy_command(*rule, exchange.in, number));
    object->number = number;
    object->role = role_of(rule->create);
    if (object->role == DevxObject::Role::flow_counters)
        object->count =
            prm::kCounterBulk *
            static_cast<uint32_t>(get(exchange.in, PRM(alloc_flow_counter_in, flow_counter_bulk)));
    attributes.set_handle(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE,
                          context.objects.add(std::move(object)));
    return 0;
}

/// Whether commands know a verbs or DevX object by this id.
bool stands_for(const Object& object, uint64_t id) {
    if (const auto* made = dynamic_cast<const CommandObject*>(&object)) return made->id == id;
    const auto maker = [](prm::Kind kind) -> uint32_t {
        switch (kind) {
        case prm::Kind::cq: return MLX5_CMD_OP_CREATE_CQ;
        case prm::Kind::rq: return MLX5_CMD_OP_CREATE_RQ;
        case prm::Kind::sq: return MLX5_CMD_OP_CREATE_SQ;
        case prm::Kind::tir: return MLX5_CMD_OP_CREATE_TIR;
        case prm::Kind::rqt: return MLX5_CMD_OP_CREATE_RQT;
        case prm::Kind::tis: return MLX5_CMD_OP_CREATE_TIS;
        default: return 0;
        }
    };
    for (const prm::Ref& ref : object.numbers())
        if (const uint32_t create = maker(ref.kind); create && object_id(create, ref.number) == id)
            return true;
    return false;
}

/// For a command about an object that the program names by its handle, and to which the command
/// must refer.
Errno check_access(Context& context, const IoctlAttributes& attributes, uint16_t handle,
                   const Exchange& exchange) {
    const auto* const object = context.objects.find<Object>(attributes.number(handle).value_or(0));
    if (!object) return ENOENT;
    const uint64_t id = object_of(exchange.in);
    return id != 0 && stands_for(*object, id) ? 0 : EINVAL;
}

Errno modify_object(Context& context, const IoctlAttributes& attributes) {
    Exchange exchange;
    if (const Errno error = read_exchange(attributes, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN,
                                          MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT, exchange))
        return error;
    User* const user = user_of(context);
    if (!user || is_tunnelled(exchange) || !is_modify(exchange.in)) return EINVAL;
    if (const Errno error =
            check_access(context, attributes, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, exchange))
        return error;
    force_umems(exchange.in);
    return run(*user, exchange);
}

Errno query_object(Context& context, const IoctlAttributes& attributes) {
    Exchange exchange;
    if (const Errno error = read_exchange(attributes, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN,
                                          MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, exchange))
        return error;
    User* const user = user_of(context);
    if (!user || is_tunnelled(exchange) || !is_query(exchange.in)) return EINVAL;
    if (const Errno error =
            check_access(context, attributes, MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE, exchange))
        return error;
    return run(*user, exchange);
}

/// Executed at once; the answer still comes through the file.
Errno query_object_async(Context& context, const IoctlAttributes& attributes) {
    constexpr std::array<uint16_t, 1> kIn = {MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_CMD_IN};
    if (!attributes.pointers_are_good(kIn, false)) return EFAULT;
    Exchange exchange;
    exchange.in = copy_of(attributes.in(kIn[0]));
    const auto room = attributes.number(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_OUT_LEN);
    const auto id = attributes.number(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_WR_ID);
    User* const user = user_of(context);
    if (!user || exchange.in.size() < kHeadBytes || !room || *room > UINT16_MAX || !id ||
        is_tunnelled(exchange) || !is_query(exchange.in))
        return EINVAL;
    if (const Errno error =
            check_access(context, attributes, MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_HANDLE, exchange))
        return error;
    const auto file = fd_table::find_of<RecordFile>(
        context.serial,
        static_cast<int>(
            attributes.number(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_FD).value_or(UINT32_MAX)));
    if (!file || file->kind() != RecordFile::Kind::answers) return EBADF;
    exchange.out.resize(std::max<size_t>(*room, kHeadBytes));
    (void)user->execute(exchange.in, exchange.out);
    std::vector<std::byte> record(sizeof(mlx5_ib_uapi_devx_async_cmd_hdr) + *room);
    std::memcpy(record.data(), &*id, sizeof *id);
    std::memcpy(record.data() + sizeof(mlx5_ib_uapi_devx_async_cmd_hdr), exchange.out.data(),
                *room);
    return file->post(record) ? 0 : EAGAIN;
}

// ---------------------------------------------------------------- umems

/// Whether some page size that the program allows is possible: from 4 KB to its own size.
bool allows_some_page(uint64_t sizes, uint64_t length) {
    constexpr uint64_t kPage = 4096, kHighest = uint64_t{1} << 63;
    const uint64_t largest = std::bit_ceil(std::clamp(length, kPage, kHighest));
    return (sizes & (largest | (largest - 1)) & ~(kPage - 1)) != 0;
}

/// CREATE_UMEM for the pages that hold the range.
std::vector<uint8_t> umem_command(uint64_t address, uint64_t length, bool writable) {
    constexpr prm::Field kUmem = PRM(create_umem_in, umem);
    constexpr uint64_t kPage = 4096, kReadable = 1, kWritable = 2;
    constexpr size_t kPagesAt = (kUmem.offset + PRM(umem, mtt[0]).offset) / 8;
    const uint64_t first = address & ~(kPage - 1);
    const uint64_t count = (address - first + length + kPage - 1) / kPage;
    std::vector<uint8_t> command(kPagesAt + count * sizeof(uint64_t));
    set(command, {0, 16}, MLX5_CMD_OP_CREATE_UMEM);
    const prm::Fields umem = prm::Fields(command.data(), command.size()).at(kUmem);
    prm::Fields(umem).set(PRM(umem, page_offset), address - first);
    prm::Fields(umem).set(PRM(umem, num_of_mtt), count);
    for (uint64_t page = 0; page < count; page++)
        net::store_be(command.data() + kPagesAt + page * sizeof(uint64_t),
                      (first + page * kPage) | kReadable | (writable ? kWritable : 0));
    return command;
}

Errno register_umem(Context& context, const IoctlAttributes& attributes) {
    constexpr uint64_t kAccess = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
                                 IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_RELAXED_ORDERING;
    User* const user = user_of(context);
    const auto address = attributes.number(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR);
    const auto length = attributes.number(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN);
    const uint64_t access = attributes.number(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS).value_or(0);
    const auto pages = attributes.number(MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP);
    if (!user || !address || !length) return EINVAL;
    if (attributes.has(MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD)) return EOPNOTSUPP;
    const bool writable = access & IB_UVERBS_ACCESS_LOCAL_WRITE;
    if (access & ~kAccess || (access & IB_UVERBS_ACCESS_REMOTE_WRITE && !writable)) return EINVAL;
    if (*length == 0 || *address + *length < *address) return EINVAL;
    if (!allows_some_page(pages.value_or(~uint64_t{0}), *length)) return EINVAL;
    PinnedPages pinned;
    if (const Errno error = pinned.pin(*address, *length)) return error;
    if (!is_accessible(*address, *length, writable)) return EFAULT;

    auto command = umem_command(*address, *length, writable);
    std::vector<uint8_t> out(PRM_BYTES(create_umem_out));
    if (const Errno error = user->execute(command, out)) return error;
    const auto number = static_cast<core::Number>(get(out, PRM(create_umem_out, umem_id)));
    auto object = std::make_unique<UmemObject>(*user, number);
    object->pages = std::move(pinned);
    attributes.set_handle(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE,
                          context.objects.add(std::move(object)));
    attributes.out(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID).put(number);
    return 0;
}

using namespace attribute;

constexpr std::array kMethods{
    Method{MLX5_IB_OBJECT_DEVX,
           MLX5_IB_METHOD_DEVX_OTHER,
           "DEVX_OTHER",
           general_command,
           {in_bytes(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, kHeadBytes),
            out_bytes(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, kHeadBytes)}},
    Method{MLX5_IB_OBJECT_DEVX,
           MLX5_IB_METHOD_DEVX_QUERY_EQN,
           "DEVX_QUERY_EQN",
           query_eqn,
           {in<uint32_t>(MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC),
            out<uint32_t>(MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN)}},
    Method{MLX5_IB_OBJECT_DEVX,
           MLX5_IB_METHOD_DEVX_QUERY_UAR,
           "DEVX_QUERY_UAR",
           query_uar,
           {in<uint32_t>(MLX5_IB_ATTR_DEVX_QUERY_UAR_USER_IDX),
            out<uint32_t>(MLX5_IB_ATTR_DEVX_QUERY_UAR_DEV_IDX)}},
    Method{MLX5_IB_OBJECT_DEVX,
           MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT,
           "DEVX_SUBSCRIBE_EVENT",
           subscribe_events,
           {handle(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE),
            optional(handle(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE)),
            in_bytes(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST, sizeof(uint16_t)),
            optional(in<uint32_t>(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM)),
            optional(in<uint64_t>(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE))}},
    Method{MLX5_IB_OBJECT_DEVX_OBJ,
           MLX5_IB_METHOD_DEVX_OBJ_CREATE,
           "DEVX_OBJ_CREATE",
           create_object,
           {handle(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE),
            in_bytes(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, kHeadBytes),
            out_bytes(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, kHeadBytes)}},
    Method{MLX5_IB_OBJECT_DEVX_OBJ,
           MLX5_IB_METHOD_DEVX_OBJ_DESTROY,
           "DEVX_OBJ_DESTROY",
           destroy_method<CommandObject, MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE>,
           {handle(MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE)}},
    Method{MLX5_IB_OBJECT_DEVX_OBJ,
           MLX5_IB_METHOD_DEVX_OBJ_MODIFY,
           "DEVX_OBJ_MODIFY",
           modify_object,
           {handle(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE),
            in_bytes(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN, kHeadBytes),
            out_bytes(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT, kHeadBytes)}},
    Method{MLX5_IB_OBJECT_DEVX_OBJ,
           MLX5_IB_METHOD_DEVX_OBJ_QUERY,
           "DEVX_OBJ_QUERY",
           query_object,
           {handle(MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE),
            in_bytes(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN, kHeadBytes),
            out_bytes(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, kHeadBytes)}},
    Method{MLX5_IB_OBJECT_DEVX_OBJ,
           MLX5_IB_METHOD_DEVX_OBJ_ASYNC_QUERY,
           "DEVX_OBJ_ASYNC_QUERY",
           query_object_async,
           {handle(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_HANDLE),
            handle(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_FD),
            in_bytes(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_CMD_IN, kHeadBytes),
            in<uint64_t>(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_WR_ID),
            constant(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_OUT_LEN)}},
    Method{MLX5_IB_OBJECT_DEVX_UMEM,
           MLX5_IB_METHOD_DEVX_UMEM_REG,
           "DEVX_UMEM_REG",
           register_umem,
           {handle(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE),
            in<uint64_t>(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR),
            in<uint64_t>(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN),
            optional(flags(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS)),
            out<uint32_t>(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID),
            optional(constant(MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP)),
            optional(handle(MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD))}},
    Method{MLX5_IB_OBJECT_DEVX_UMEM,
           MLX5_IB_METHOD_DEVX_UMEM_DEREG,
           "DEVX_UMEM_DEREG",
           destroy_method<UmemObject, MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE>,
           {handle(MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE)}},
    Method{MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD,
           MLX5_IB_METHOD_DEVX_ASYNC_CMD_FD_ALLOC,
           "DEVX_ASYNC_CMD_FD_ALLOC",
           open_answers,
           {handle(MLX5_IB_ATTR_DEVX_ASYNC_CMD_FD_ALLOC_HANDLE)}},
    Method{MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD,
           MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC,
           "DEVX_ASYNC_EVENT_FD_ALLOC",
           open_events,
           {handle(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE),
            flags(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS)}},
    Method{MLX5_IB_OBJECT_PP,
           MLX5_IB_METHOD_PP_OBJ_ALLOC,
           "PP_OBJ_ALLOC",
           alloc_pacing,
           {handle(MLX5_IB_ATTR_PP_OBJ_ALLOC_HANDLE),
            in_bytes(MLX5_IB_ATTR_PP_OBJ_ALLOC_CTX, 1, PRM_BYTES(set_pp_rate_limit_context)),
            flags(MLX5_IB_ATTR_PP_OBJ_ALLOC_FLAGS),
            out<uint16_t>(MLX5_IB_ATTR_PP_OBJ_ALLOC_INDEX)}},
    Method{MLX5_IB_OBJECT_PP,
           MLX5_IB_METHOD_PP_OBJ_DESTROY,
           "PP_OBJ_DESTROY",
           free_pacing,
           {handle(MLX5_IB_ATTR_PP_OBJ_DESTROY_HANDLE)}},
    Method{MLX5_IB_OBJECT_VAR,
           MLX5_IB_METHOD_VAR_OBJ_ALLOC,
           "VAR_OBJ_ALLOC",
           alloc_var,
           {handle(MLX5_IB_ATTR_VAR_OBJ_ALLOC_HANDLE),
            out<uint64_t>(MLX5_IB_ATTR_VAR_OBJ_ALLOC_MMAP_OFFSET),
            out<uint32_t>(MLX5_IB_ATTR_VAR_OBJ_ALLOC_MMAP_LENGTH),
            out<uint32_t>(MLX5_IB_ATTR_VAR_OBJ_ALLOC_PAGE_ID)}},
    Method{MLX5_IB_OBJECT_VAR,
           MLX5_IB_METHOD_VAR_OBJ_DESTROY,
           "VAR_OBJ_DESTROY",
           free_var,
           {handle(MLX5_IB_ATTR_VAR_OBJ_DESTROY_HANDLE)}},
};

static_assert(std::all_of(kMethods.begin(), kMethods.end(),
                          [](const Method& method) { return can_fail(method.name); }));

} // namespace
} // namespace softhca::uverbs::devx

namespace softhca::uverbs {

std::span<const Method> devx_methods() { return devx::kMethods; }

} // namespace softhca::uverbs
