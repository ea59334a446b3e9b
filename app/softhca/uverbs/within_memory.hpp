// SPDX-License-Identifier: BSD-3-Clause
// A process that runs out of memory in a call of the program to the device.
#pragma once

#include "app/softhca/uverbs/buffers.hpp"

#include <cerrno>
#include <new>

namespace softhca::uverbs {

/// On stderr, once in a process: programs try again, and show only the errno.
void report_no_memory();

/// The errno that `work` returns; ENOMEM, as a kernel says, if there is no memory for it.
template <class Work> [[nodiscard]] Errno within_memory(Work&& work) {
    try {
        return work();
    } catch (const std::bad_alloc&) {
        report_no_memory();
        return ENOMEM;
    }
}

} // namespace softhca::uverbs
