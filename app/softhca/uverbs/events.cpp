// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/events.hpp"

#include <cstring>
#include <infiniband/verbs.h>
#include <optional>
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

/// Empty for events that are not of the port or the device, or that mlx5_ib does not pass on.
std::optional<uint32_t> event_of_port(core::AsyncEvent event) {
    switch (event) {
    case core::AsyncEvent::port_active: return IBV_EVENT_PORT_ACTIVE;
    case core::AsyncEvent::port_error: return IBV_EVENT_PORT_ERR;
    case core::AsyncEvent::device_fatal: return IBV_EVENT_DEVICE_FATAL;
    default: return std::nullopt;
    }
}

} // namespace

void EventReporter::on_completion(core::Number, uint64_t cookie) {
    EventSource& source = source_of(cookie);
    if (!source.channel) return;
    if (post(*source.channel, ib_uverbs_comp_event_desc{.cq_handle = source.user_handle}))
        source.completions_posted++;
}

void EventReporter::on_async(core::AsyncEvent, core::Number, uint64_t cookie) {
    EventSource& source = source_of(cookie);
    if (!source.async) return;
    if (post(*source.async, ib_uverbs_async_event_desc{.element = source.user_handle,
                                                       .event_type = source.fatal_event,
                                                       .reserved = 0}))
        source.async_posted++;
}

uint32_t EventReporter::settle_async(EventSource& source) {
    if (!source.async || source.async_posted == 0) return 0;
    const size_t unread = source.async->withdraw([&](std::span<const std::byte> bytes) {
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

AsyncFile::AsyncFile(core::Device& device, std::shared_ptr<EventPipe> pipe)
    : ContextFile(pipe->context()), device_(device), pipe_(std::move(pipe)) {
    device_.add_listener(this);
}

AsyncFile::~AsyncFile() { device_.remove_listener(this); }

void AsyncFile::on_async(core::AsyncEvent event, core::Number, uint64_t) {
    const auto type = event_of_port(event);
    constexpr uint64_t kPort = 1;
    if (type)
        post(*pipe_,
             ib_uverbs_async_event_desc{.element = kPort, .event_type = *type, .reserved = 0});
}

} // namespace softhca::uverbs
