// SPDX-License-Identifier: BSD-3-Clause
// The driver's log: control path only. `--log-level=pmd.net.rawqp:debug` shows everything.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

extern "C" int rawqp_logtype;

// RAWQP_LOG(ERR, "%s: cannot ...", name): level without RTE_LOG_, printf format without newline.
// Plain rte_log is the one form that every release from 22.11 on has.
#define RAWQP_LOG(level, format, ...)                                                              \
    rte_log(RTE_LOG_##level, static_cast<uint32_t>(rawqp_logtype),                                 \
            "net_rawqp: " format "\n" __VA_OPT__(, ) __VA_ARGS__)
