// SPDX-License-Identifier: BSD-3-Clause
// Every DPDK header that the driver uses; no other file includes one. The order that they need in
// C++ is kept here, so this file may come anywhere among the includes.
#pragma once

// DPDK 22.11's driver headers open extern "C" before their own #includes, and a C++ header inside
// extern "C" does not compile. Its include guard is set already when it was included here first.
#include <atomic>
#include <cerrno>
#include <cstdbool>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/types.h>
#include <unistd.h>

#include <rte_version.h>

#include <rte_common.h>
#include <rte_compat.h>

// 22.11's rte_vect.h declares its functions without extern "C". The intrinsics that it includes are
// C++ and stay outside.
#if defined(__x86_64__)
#include <immintrin.h>
#include <x86intrin.h>
#endif
extern "C" {
#include <rte_vect.h>
}

#include <rte_alarm.h>
#include <rte_bus.h>
#include <rte_byteorder.h>
#include <rte_cpuflags.h>
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_eal.h>
#include <rte_eal_memconfig.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_flow.h>
#include <rte_interrupts.h>
#include <rte_io.h>
#include <rte_kvargs.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_memory.h>
#include <rte_mempool.h>
#include <rte_mtr.h>
#include <rte_net.h>
#include <rte_power_intrinsics.h>
#include <rte_prefetch.h>
#include <rte_string_fns.h>
#include <rte_telemetry.h>
#include <rte_thread.h>
#include <rte_time.h>

#include <bus_vdev_driver.h>
#include <ethdev_driver.h>
#include <ethdev_vdev.h>
#include <rte_flow_driver.h>
#include <rte_mtr_driver.h>

#include "drivers/net/rawqp/dpdk_compat.hpp"
