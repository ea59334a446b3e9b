// SPDX-License-Identifier: BSD-3-Clause
// Files from which programs read events and answers, and the events that go there.
#include "app/softhca/uverbs/commands.hpp"
#include "app/softhca/uverbs/devx/methods.hpp"
#include "app/softhca/uverbs/devx/rules.hpp"
#include "app/softhca/uverbs/devx/user.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <string_view>
#include <unistd.h>

namespace softhca::uverbs::devx {
namespace {

constexpr size_t kMostEvents = 16;

bool may_hear(uint16_t type, bool of_object) {
    const uint64_t types = of_object ? prm::kUserObjectEvents : prm::kUserEvents;
    return type < 64 && (types >> type & 1) != 0;
}

Errno open_file(const Context& context, const IoctlAttributes& attributes, uint16_t handle,
                RecordFile::Kind kind, bool without_data) {
    if (!attributes.has(handle)) return EINVAL;
    Fd user_fd;
    auto file = RecordFile::create(kind, context.serial, without_data, user_fd);
    if (!file) return file.error().code;
    if (!fd_table::insert(user_fd.get(), std::move(*file))) return EMFILE;
    attributes.set_handle(handle, static_cast<uint64_t>(user_fd.release()));
    return 0;
}

/// The kind of queue, or the type of general object, in events of what that command creates.
uint16_t queue_type_of(uint32_t maker) {
    constexpr uint32_t kOpcode = 0xffff;
    if ((maker & kOpcode) == MLX5_CMD_OP_CREATE_GENERAL_OBJECT)
        return static_cast<uint16_t>(maker >> 16);
    switch (maker) {
    case MLX5_CMD_OP_CREATE_RQ: return prm::kQueueTypeRq;
    case MLX5_CMD_OP_CREATE_SQ: return prm::kQueueTypeSq;
    default: return prm::kQueueTypeQp; // or no queue at all
    }
}

/// A descriptor of the same eventfd; if there is none, an invalid one, and the reason in `error`.
Fd copy_eventfd(int number, Errno& error) {
    Fd copy(fcntl(number, F_DUPFD_CLOEXEC, 0));
    if (!copy) {
        error = EBADF;
        return copy;
    }
    // Writing to any other file would put bytes into it.
    constexpr std::string_view kEventfd = "anon_inode:[eventfd]";
    std::array<char, kEventfd.size() + 1> kind{};
    const ssize_t length =
        readlink(fmt::format("/proc/self/fd/{}", copy.get()).c_str(), kind.data(), kind.size());
    if (length < 0 || std::string_view(kind.data(), static_cast<size_t>(length)) != kEventfd) {
        error = EINVAL;
        return {};
    }
    return copy;
}

} // namespace

Errno open_answers(Context& context, const IoctlAttributes& attributes) {
    return open_file(context, attributes, MLX5_IB_ATTR_DEVX_ASYNC_CMD_FD_ALLOC_HANDLE,
                     RecordFile::Kind::answers, false);
}

Errno open_events(Context& context, const IoctlAttributes& attributes) {
    const uint64_t flags =
        attributes.number(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS).value_or(0);
    if (flags & ~uint64_t{MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA}) return EINVAL;
    return open_file(context, attributes, MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE,
                     RecordFile::Kind::events, flags & MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA);
}

Errno subscribe_events(Context& context, const IoctlAttributes& attributes) {
    constexpr std::array<uint16_t, 1> kTypes = {MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST};
    User* const user = user_of(context);
    if (!user) return EINVAL;
    const auto file = fd_table::find_of<RecordFile>(
        context.serial,
        static_cast<int>(
            attributes.number(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE).value_or(UINT32_MAX)));
    if (!file || file->kind() != RecordFile::Kind::events) return EBADF;
    const auto handle = attributes.number(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE);
    const auto* const object = context.objects.find<CommandObject>(handle.value_or(0));
    if (handle && !object) return context.objects.absence(*handle);
    const auto redirected = attributes.number(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM);
    const auto cookie = attributes.number(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE);
    if (redirected && cookie) return EINVAL;

    if (!attributes.pointers_are_good(kTypes, false)) return EFAULT;
    const InBuffer list = attributes.in(kTypes[0]);
    std::vector<uint16_t> types(list.size() / sizeof(uint16_t));
    if (types.empty() || list.size() % sizeof(uint16_t) != 0 || types.size() > kMostEvents)
        return EINVAL;
    std::memcpy(types.data(), list.bytes().data(), list.size());
    for (const uint16_t type : types)
        if (!may_hear(type, object != nullptr)) return EINVAL;
    for (const uint16_t type : types) {
        Errno error = 0;
        Fd eventfd = redirected ? copy_eventfd(static_cast<int>(*redirected), error) : Fd();
        if (error) return error;
        const uint32_t maker = object ? static_cast<uint32_t>(object->id >> 32) : 0;
        user->firmware->events.subscribe({.type = type,
                                          .queue_type = queue_type_of(maker),
                                          .number = object ? object->number : 0},
                                         {.object = object ? object->id : 0,
                                          .cookie = cookie.value_or(0),
                                          .file = file,
                                          .eventfd = std::move(eventfd)});
    }
    return 0;
}

} // namespace softhca::uverbs::devx
