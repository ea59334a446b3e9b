// SPDX-License-Identifier: BSD-3-Clause
// One function for each link of the chain; chain() gives their order and what each needs.
#pragma once

#include "common/diagnosis/case.hpp"
#include "common/diagnosis/finding.hpp"

namespace diagnosis::links {

// kernel.cpp
Verdict nic(Case& subject);
Verdict uverbs_module(Case& subject);
Verdict rdma_device(Case& subject); ///< finds device and port for `iface`, or the first device
Verdict netdev(Case& subject);      ///< learns Case::netdev
Verdict bond(Case& subject);

// rights.cpp
Verdict uverbs_node(Case& subject); ///< learns Case::node and open_error
Verdict rdma_cgroup(Case& subject);
Verdict in_use(Case& subject);
Verdict capability(Case& subject);
Verdict memlock(Case& subject);

// memory.cpp
Verdict hugepages(Case& subject);
Verdict numa(Case& subject);

// libraries.cpp
Verdict libibverbs(Case& subject); ///< learns Case::api
Verdict provider(Case& subject);

// device.cpp: these learn Case::trial
Verdict device(Case& subject);
Verdict raw_packet(Case& subject);
Verdict work_queue(Case& subject);
Verdict rss(Case& subject);
Verdict flow(Case& subject);
Verdict registration(Case& subject);
Verdict interrupts(Case& subject);
Verdict offloads(Case& subject);
Verdict port(Case& subject);

// plugin.cpp
Verdict plugin(Case& subject); ///< learns Case::plugin
Verdict devargs(Case& subject);
Verdict dpdk_driver(Case& subject);
Verdict secondary(Case& subject);

} // namespace diagnosis::links
