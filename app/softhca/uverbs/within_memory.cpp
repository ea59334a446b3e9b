// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/within_memory.hpp"

#include <atomic>
#include <cstdio>

namespace softhca::uverbs {

void report_no_memory() {
    constinit static std::atomic_flag said;
    if (said.test_and_set()) return;
    std::fputs("softhca: the process has no memory left for what the program asks of its device: "
               "raise ulimit -v, or the container's limit\n",
               stderr);
}

} // namespace softhca::uverbs
