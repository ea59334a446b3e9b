// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/flow/allocations.hpp"

#include <cstdlib>
#include <new>

namespace {
thread_local size_t count = 0;
}

namespace rawqp::test {
size_t allocations() { return count; }
} // namespace rawqp::test

// For the whole program: all other forms of new and delete call these. The array forms are needed
// only with AddressSanitizer.
void* operator new(size_t size) {
    ++count;
    if (void* const memory = std::malloc(size)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void* operator new[](size_t size) { return operator new(size); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
