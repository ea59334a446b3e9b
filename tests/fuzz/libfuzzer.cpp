// SPDX-License-Identifier: BSD-3-Clause
// libFuzzer's entry points. RAWQP_FUZZ_PLAY: the function that plays the inputs.
#include "tests/fuzz/inputs.hpp"
#include "tests/fuzz/rx_cqes.hpp"
#include "tests/fuzz/rx_frames.hpp"
#include "tests/unit/eal.hpp"

#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerInitialize(int*, char***) {
    if (test_eal::start()) return 0;
    fprintf(stderr, "EAL did not start\n");
    exit(1);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string problem = RAWQP_FUZZ_PLAY({data, size});
    if (problem.empty()) return 0;
    fprintf(stderr, "%s\n", problem.c_str());
    abort();
}
