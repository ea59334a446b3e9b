// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/shared_action.hpp"

namespace rawqp {

RssConf::RssConf(const rte_flow_action_rss& conf) : conf_(conf) {
    queues_.assign(conf.queue, conf.queue + conf.queue_num);
    if (conf.key != nullptr) key_.assign(conf.key, conf.key + conf.key_len);
    conf_.queue = queues_.data();
    conf_.key = key_.empty() ? nullptr : key_.data();
}

bool in_use(const SharedActionRef& action, size_t known) {
    return action.use_count() > known || action->counter.use_count() > 1 ||
           action->age.use_count() > 1;
}

} // namespace rawqp
