// SPDX-License-Identifier: BSD-3-Clause
// rte_softrss: DPDK's own Toeplitz hash, with which applications find the queue of a packet.
#pragma once

// The compiler's vector header must come first, outside of the extern "C" below.
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
extern "C" {
#include <rte_thash.h>
}
