// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/port/answers.hpp"

#include "common/fd.hpp"
#include "drivers/net/rawqp/ethdev/flow/table.hpp"
#include "drivers/net/rawqp/ethdev/netdev/ops.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/ethdev/port/ops.hpp"
#include "drivers/net/rawqp/ethdev/process/secondaries.hpp"
#include "drivers/net/rawqp/ethdev/queues/queue.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"

#include <algorithm>

namespace rawqp {
namespace {

/// Ports that questions may be about; locked while one is answered.
constinit std::mutex ports_mutex;
constinit std::array<Port*, RTE_MAX_ETHPORTS> ports{};

/// The queue to whose ring the secondary refers, if it still runs.
template <class Queue>
Queue* running_queue(const std::vector<std::unique_ptr<Queue>>& queues,
                     const QuestionMessage& question) {
    if (question.queue_id >= queues.size() || !queues[question.queue_id]) return nullptr;
    Queue& queue = *queues[question.queue_id];
    const bool same = reinterpret_cast<uintptr_t>(queue.ring) == question.address;
    return same && queue.running() ? &queue : nullptr;
}

template <class Queue>
int reset(Port& port, const std::vector<std::unique_ptr<Queue>>& queues,
          const QuestionMessage& question) {
    Queue* const queue = running_queue(queues, question);
    return queue != nullptr ? -port.reset(*queue->ring) : ENODEV;
}

int query_flow(Port& port, const QuestionMessage& question, AnswerMessage& answer) {
    rte_flow_action count{};
    count.type = RTE_FLOW_ACTION_TYPE_COUNT;
    rte_flow_query_count data{};
    data.reset = question.reset_counters;
    rte_flow_error error{};
    // The table knows its rules: any other address is refused.
    auto* const flow = reinterpret_cast<rte_flow*>(question.address); // NOLINT
    const int result = port.flows->query(flow, &count, &data, &error);
    answer.packets = data.hits;
    answer.bytes = data.bytes;
    return -result;
}

/// What accompanies an answer: descriptors, one of which is closed after sending.
struct Enclosed {
    std::vector<int> fds;
    Fd channel;
};

int admit(Port& port, Enclosed& enclosed) {
    // Before the secondary sees the first ring. A queue that is set up later checks for itself.
    port.shared.shared = true;
    if (port.format->rx_share != nullptr)
        for (const auto& queue : port.rx_queues)
            if (queue) port.format->rx_share(*queue->ring);
    Result<Fd> channel = port.secondaries->admit();
    if (!channel) {
        RAWQP_LOG(ERR, "%s", channel.error().what.c_str());
        return channel.error().code;
    }
    enclosed.channel = std::move(*channel);
    enclosed.fds = {port.context->cmd_fd, enclosed.channel.get()};
    return 0;
}

/// For what changes or needs the objects that control threads make and destroy.
int answer_locked(Port& port, const QuestionMessage& question, AnswerMessage& answer,
                  Enclosed& enclosed) {
    // The control path may be waiting for the very process that asks.
    const std::unique_lock lock(port.control, std::try_to_lock);
    if (!lock) return EAGAIN;
    switch (question.what) {
    case Question::attach: return admit(port, enclosed);
    case Question::reset_rx: return reset(port, port.rx_queues, question);
    case Question::reset_tx: return reset(port, port.tx_queues, question);
    case Question::query_flow: return query_flow(port, question, answer);
    case Question::read_missed: port.read_missed(); return 0;
    default: return ENOTSUP;
    }
}

int answer_to(Port& port, const QuestionMessage& question, AnswerMessage& answer,
              Enclosed& enclosed) {
    switch (question.what) {
    case Question::register_address:
        return port.register_address(question.address, answer.entry) ? 0 : EFAULT;
    case Question::read_clock: return port.read_clock(answer.clock);
    case Question::device_clock: return -read_clock(port.dev, &answer.time);
    case Question::read_link: link_update(port.dev, 0); return 0;
    default: return answer_locked(port, question, answer, enclosed);
    }
}

int on_question(const rte_mp_msg* message, const void* peer) {
    QuestionMessage question;
    AnswerMessage answer;
    rte_mp_msg reply{};
    Enclosed enclosed;
    const std::lock_guard lock(ports_mutex);
    if (message->len_param != sizeof question) return -1;
    memcpy(&question, message->param, sizeof question);
    answer.number = question.number;
    Port* const port = question.port_id < ports.size() ? ports[question.port_id] : nullptr;
    answer.error = port != nullptr ? answer_to(*port, question, answer, enclosed) : ENODEV;
    reply.num_fds = static_cast<int>(enclosed.fds.size());
    std::ranges::copy(enclosed.fds, reply.fds);
    rte_strscpy(reply.name, kActionName, sizeof reply.name);
    memcpy(reply.param, &answer, sizeof answer);
    reply.len_param = sizeof answer;
    return rte_mp_reply(&reply, static_cast<const char*>(peer));
}

} // namespace

Answers::Answers(Port& port) : port_(port) {
    const std::lock_guard lock(ports_mutex);
    ports[port.dev->data->port_id] = &port;
    if (rte_mp_action_register(kActionName, on_question) != 0 && rte_errno != EEXIST &&
        rte_errno != ENOTSUP)
        RAWQP_LOG(WARNING, "%s: secondary processes cannot reach this one: %s", port.name.c_str(),
                  rte_strerror(rte_errno));
}

Answers::~Answers() {
    const std::lock_guard lock(ports_mutex);
    ports[port_.dev->data->port_id] = nullptr;
}

} // namespace rawqp
