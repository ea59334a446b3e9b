// SPDX-License-Identifier: BSD-3-Clause
// rte_softrss: DPDK's own Toeplitz hash, which applications look for the queue of a packet with.
#pragma once

// The compiler's vectors before rte_vect.h, which has no extern "C" around them.
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
extern "C" {
#include <rte_thash.h>
}
