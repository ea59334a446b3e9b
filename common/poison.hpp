// SPDX-License-Identifier: BSD-3-Clause
// Memory of a pool that nobody owns at present: builds with AddressSanitizer report any access to
// it. Costs nothing in others.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) // GCC's way to say it
#define RAWQP_POISONS 1
#elif defined(__has_feature)
#define RAWQP_POISONS __has_feature(address_sanitizer)
#else
#define RAWQP_POISONS 0
#endif

#if RAWQP_POISONS
#include <sanitizer/asan_interface.h>

inline void poison(const void* memory, size_t bytes) { ASAN_POISON_MEMORY_REGION(memory, bytes); }
inline void unpoison(const void* memory, size_t bytes) {
    ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
}
#else
inline void poison(const void* /*memory*/, size_t /*bytes*/) {}
inline void unpoison(const void* /*memory*/, size_t /*bytes*/) {}
#endif
