// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/log.hpp"

RTE_LOG_REGISTER(rawqp_logtype, pmd.net.rawqp, NOTICE);
