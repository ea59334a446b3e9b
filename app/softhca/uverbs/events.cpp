// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/events.hpp"

#include <cstring>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

namespace softhca::uverbs {
namespace {

EventSource& source_of(uint64_t cookie) { return *reinterpret_cast<EventSource*>(cookie); }

template <class Record> bool post(EventPipe& pipe, const Record& record) {
    return pipe.post(std::as_bytes(std::span(&record, 1)));
}

template <class Record> Record as_record(std::span<const std::byte> bytes) {
    Record record;
    std::memcpy(&record, bytes.data(), sizeof record);
    return record;
}

} // namespace

void EventReporter::on_completion(core::Number, uint64_t cookie) {
    EventSource& source = source_of(cookie);
    if (!source.channel) return;
    if (post(*source.channel, ib_uverbs_comp_event_desc{.cq_handle = source.user_handle}))
        source.completions_posted++;
}

void EventReporter::on_async(core::AsyncEvent event, core::Number, uint64_t cookie) {
    EventPipe* pipe = async_target_.load(std::memory_order_acquire);
    if (!pipe) return;
    constexpr uint64_t kPort = 1;
    switch (event) {
    case core::AsyncEvent::port_active:
    case core::AsyncEvent::port_error: {
        const uint32_t type =
            event == core::AsyncEvent::port_active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
        post(*pipe,
             ib_uverbs_async_event_desc{.element = kPort, .event_type = type, .reserved = 0});
        return;
    }
    case core::AsyncEvent::device_fatal:
        post(*pipe, ib_uverbs_async_event_desc{
                        .element = kPort, .event_type = IBV_EVENT_DEVICE_FATAL, .reserved = 0});
        return;
    case core::AsyncEvent::delay_drop_timeout: return; // mlx5_ib keeps it to itself
    case core::AsyncEvent::cq_error:
    case core::AsyncEvent::sq_fatal:
    case core::AsyncEvent::rq_fatal: {
        EventSource& source = source_of(cookie);
        if (post(*pipe, ib_uverbs_async_event_desc{.element = source.user_handle,
                                                   .event_type = source.fatal_event,
                                                   .reserved = 0}))
            source.async_posted++;
        return;
    }
    }
}

void EventReporter::set_async_pipe(std::shared_ptr<EventPipe> pipe) {
    async_pipe_ = std::move(pipe);
    async_target_.store(async_pipe_.get(), std::memory_order_release);
}

uint32_t EventReporter::settle_async(EventSource& source) {
    if (!async_pipe_ || source.async_posted == 0) return 0;
    const size_t unread = async_pipe_->withdraw([&](std::span<const std::byte> bytes) {
        const auto record = as_record<ib_uverbs_async_event_desc>(bytes);
        return record.element == source.user_handle && record.event_type == source.fatal_event;
    });
    return source.async_posted - static_cast<uint32_t>(unread);
}

uint32_t EventReporter::settle_completions(EventSource& source) {
    if (!source.channel || source.completions_posted == 0) return 0;
    const size_t unread = source.channel->withdraw([&](std::span<const std::byte> bytes) {
        return as_record<ib_uverbs_comp_event_desc>(bytes).cq_handle == source.user_handle;
    });
    return source.completions_posted - static_cast<uint32_t>(unread);
}

} // namespace softhca::uverbs
