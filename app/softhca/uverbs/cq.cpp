// SPDX-License-Identifier: BSD-3-Clause
// Completion channels and completion queues.
#include "app/softhca/core/rings/mlx5/doorbells.hpp"
#include "app/softhca/uverbs/commands.hpp"

#include <bit>
#include <cerrno>
#include <infiniband/verbs.h>
#include <optional>
#include <rdma/mlx5-abi.h>

namespace softhca::uverbs {
namespace {

using core::Limits;

Errno mini_format(const mlx5_ib_create_cq& request, std::optional<core::MiniFormat>& format) {
    if (request.cqe_comp_en == 0) return 0;
    if (request.cqe_size != 64) return EOPNOTSUPP;
    switch (request.cqe_comp_res_format) {
    case MLX5_IB_CQE_RES_FORMAT_HASH: format = core::MiniFormat::hash; return 0;
    case MLX5_IB_CQE_RES_FORMAT_CSUM: format = core::MiniFormat::checksum; return 0;
    case MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX: format = core::MiniFormat::checksum_stride; return 0;
    default: return EINVAL;
    }
}

Errno check_driver_request(const mlx5_ib_create_cq& request, size_t size) {
    if (size < offsetof(mlx5_ib_create_cq, cqe_comp_en)) return EINVAL;
    constexpr uint16_t kKnownFlags =
        MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD | MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX;
    if (request.flags & ~kKnownFlags || request.reserved0 || request.reserved1) return EINVAL;
    if (request.cqe_size != 64 && request.cqe_size != 128) return EINVAL;
    if (!is_doorbell_address(request.db_addr)) return EINVAL;
    if ((request.flags & MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD) && request.cqe_size != 128)
        return EOPNOTSUPP;
    return 0;
}

/// What both forms of the command request.
struct CqRequest {
    uint64_t user_handle;
    uint32_t cqe;
    uint32_t comp_vector;
    int32_t comp_channel;
    bool ignores_overrun = false;
};

/// The entries of a CQ that is to hold this many completions; 0: more than there can be, or none.
uint32_t entries_for(uint32_t cqe) {
    constexpr uint32_t kMost = 1u << Limits::kLogMaxCqEntries;
    return cqe == 0 || cqe >= kMost ? 0 : std::bit_ceil(cqe + 1);
}

/// Creates the CQ and fills in handle and size of the answer.
Errno make_cq(Context& context, const CqRequest& request, const WriteCommand& command,
              ib_uverbs_create_cq_resp& out) {
    if (request.comp_vector >= kCompletionVectors) return EINVAL;
    std::shared_ptr<EventPipe> channel;
    if (request.comp_channel >= 0) {
        channel = fd_table::find_of<EventPipe>(context.serial, request.comp_channel);
        if (!channel || channel->kind() != EventPipe::Kind::completions) return EBADF;
    }
    const uint32_t entries = entries_for(request.cqe);
    if (entries == 0) return EINVAL;
    const auto driver = command.driver_in.as<mlx5_ib_create_cq>();
    if (const Errno error = check_driver_request(driver, command.driver_in.size())) return error;
    // There are no other doorbell registers than those that the program has allocated.
    if (!command.uar && !(driver.flags & MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX)) return EINVAL;
    const uint32_t uar = command.uar.value_or(driver.uar_page_index);
    if (!context.registers_of(uar)) return EINVAL;
    if (command.driver_out.size() == 0) return EFAULT;
    std::optional<core::MiniFormat> compress;
    if (const Errno error = mini_format(driver, compress)) return error;

    auto cq = std::make_unique<Cq>();
    const uint64_t bytes = uint64_t{entries} * driver.cqe_size;
    if (const Errno error = context.pin_queue(*cq, driver.buf_addr, bytes, driver.db_addr))
        return error;
    auto ring = user_area(driver.buf_addr, bytes, true);
    auto* doorbell = user_doorbell<mlx5::CqDoorbell>(driver.db_addr);
    if (!ring || !doorbell) return EFAULT;

    cq->events.user_handle = request.user_handle;
    cq->events.fatal_event = IBV_EVENT_CQ_ERR;
    cq->events.channel = std::move(channel);
    cq->events.async = command.async;
    core::CqAttr attr{.ring = std::move(*ring),
                      .doorbell = core::mlx5_rings::cq_doorbell(doorbell),
                      .log_entries = static_cast<uint8_t>(std::countr_zero(entries)),
                      .cqe_size = static_cast<uint8_t>(driver.cqe_size),
                      .listener = &context.events,
                      .cookie = reinterpret_cast<uint64_t>(&cq->events),
                      .events = cq->events.channel != nullptr,
                      .compress = compress,
                      .ignore_overrun = request.ignores_overrun};
    const auto number = context.device->create_cq(attr);
    if (!number) return errno_of(number);
    cq->number = *number;
    cq->entries = entries - 1;
    cq->description = {.attr = std::move(attr),
                       .place = {driver.buf_addr, driver.db_addr, uar},
                       .vector = request.comp_vector,
                       .padded = (driver.flags & MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD) != 0};
    out.cq_handle = context.objects.add(std::move(cq));
    out.cqe = entries - 1;
    command.driver_out.put(mlx5_ib_create_cq_resp{.cqn = *number, .reserved = 0});
    return 0;
}

} // namespace

Errno create_comp_channel(Context& context, const WriteCommand& command) {
    Fd user_fd;
    const auto pipe = EventPipe::create(EventPipe::Kind::completions, context.serial, user_fd);
    if (!pipe) return pipe.error().code;
    if (!fd_table::insert(user_fd.get(), *pipe)) return EMFILE;
    command.out.put(
        ib_uverbs_create_comp_channel_resp{.fd = static_cast<uint32_t>(user_fd.release())});
    return 0;
}

Errno create_cq(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_create_cq>();
    ib_uverbs_create_cq_resp out{};
    if (const Errno error = make_cq(context,
                                    {.user_handle = request.user_handle,
                                     .cqe = request.cqe,
                                     .comp_vector = request.comp_vector,
                                     .comp_channel = request.comp_channel},
                                    command, out))
        return error;
    command.out.put(out);
    return 0;
}

Errno create_cq_ex(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_ex_create_cq>();
    constexpr uint32_t kKnownFlags =
        IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION | IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
    if (request.comp_mask || request.reserved) return EINVAL;
    if (request.flags & ~kKnownFlags) return EOPNOTSUPP;
    // CQEs always have a timestamp.
    ib_uverbs_ex_create_cq_resp out{};
    if (const Errno error =
            make_cq(context,
                    {.user_handle = request.user_handle,
                     .cqe = request.cqe,
                     .comp_vector = request.comp_vector,
                     .comp_channel = request.comp_channel,
                     .ignores_overrun = (request.flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN) != 0},
                    command, out.base))
        return error;
    command.out.put(out);
    return 0;
}

Errno modify_cq(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_ex_modify_cq>();
    if (!request.attr_mask || request.reserved) return EINVAL;
    if (request.attr_mask != IBV_CQ_ATTR_MODERATE) return EOPNOTSUPP;
    Cq* const cq = context.objects.find<Cq>(request.cq_handle);
    if (!cq) return context.objects.absence(request.cq_handle);
    // Moderation may delay events up to this; the device delays none.
    if (request.attr.cq_period > kMaxCqPeriod) return EINVAL;
    cq->description.period_us = request.attr.cq_period;
    cq->description.max_count = request.attr.cq_count;
    cq->tell(prm::CqPart::moderation);
    return 0;
}

/// The program brings a ring of its own for the new size. It moves the completions that it has not
/// polled there by itself, up to the CQE that the device ends the former ring with.
Errno resize_cq(Context& context, const WriteCommand& command) {
    const auto request = command.in.as<ib_uverbs_resize_cq>();
    Cq* const cq = context.objects.find<Cq>(request.cq_handle);
    if (!cq) return context.objects.absence(request.cq_handle);
    const uint32_t entries = entries_for(request.cqe);
    if (entries == 0) return EINVAL;
    if (entries != cq->entries + 1) {
        const auto driver = command.driver_in.as<mlx5_ib_resize_cq>();
        if (driver.reserved0 || driver.reserved1) return EINVAL;
        if (driver.cqe_size != 64 && driver.cqe_size != 128) return EINVAL;
        const uint64_t bytes = uint64_t{entries} * driver.cqe_size;
        PinnedPages pages;
        if (const Errno error = pages.pin(driver.buf_addr, bytes)) return error;
        auto ring = user_area(driver.buf_addr, bytes, true);
        if (!ring) return EFAULT;
        const auto resized = context.device->resize_cq(
            cq->number, std::move(*ring), static_cast<uint8_t>(std::countr_zero(entries)),
            static_cast<uint8_t>(driver.cqe_size));
        if (!resized) return errno_of(resized);
        cq->pages = std::move(pages);
        cq->entries = entries - 1;
        cq->description.attr.log_entries = static_cast<uint8_t>(std::countr_zero(entries));
        cq->description.attr.cqe_size = static_cast<uint8_t>(driver.cqe_size);
        cq->description.padded = false;
        cq->description.place.ring = driver.buf_addr;
        cq->tell(prm::CqPart::size);
    }
    command.out.put(ib_uverbs_resize_cq_resp{.cqe = cq->entries, .reserved = 0});
    return 0;
}

namespace {

Errno destroy(Context& context, uint64_t handle, const OutBuffer& answer) {
    ib_uverbs_destroy_cq_resp out{};
    const Errno error = context.objects.destroy<Cq>(handle, *context.device, [&](Cq& cq) {
        out.comp_events_reported = EventReporter::settle_completions(cq.events);
        out.async_events_reported = EventReporter::settle_async(cq.events);
    });
    if (!error) answer.put(out);
    return error;
}

} // namespace

Errno destroy_cq(Context& context, const WriteCommand& command) {
    return destroy(context, command.in.as<ib_uverbs_destroy_cq>().cq_handle, command.out);
}

Errno destroy_cq_method(Context& context, const IoctlAttributes& attributes) {
    return destroy(context, attributes.number(UVERBS_ATTR_DESTROY_CQ_HANDLE).value_or(0),
                   attributes.out(UVERBS_ATTR_DESTROY_CQ_RESP));
}

} // namespace softhca::uverbs
