// SPDX-License-Identifier: BSD-3-Clause
// Copies of some packets: where a rule leads to a sampler, all go on to one table, and some of them
// to another one as well.
#pragma once

#include "app/softhca/core/types.hpp"

#include <random>

namespace softhca::core {

struct FlowTable;

struct Sampler {
    Number number = 0;
    uint8_t level = 0;
    uint32_t ratio = 1; ///< of so many packets, one is copied on average
    FlowTable* copies = nullptr;
    FlowTable* all = nullptr;
    uint32_t users = 0;
    std::minstd_rand random; ///< the same packets give the same copies each time

    [[nodiscard]] bool takes() { return ratio == 1 || random() % ratio == 0; }
};

} // namespace softhca::core
