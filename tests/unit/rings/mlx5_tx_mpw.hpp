// SPDX-License-Identifier: BSD-3-Clause
// A send queue with multi-packet WQEs on fake rings; the parameter is the width of its vectors.
#pragma once

#include "tests/unit/rings/mlx5_tx.hpp"
#include "tests/unit/rings/vector_widths.hpp"

#include <vector>

namespace rings_test {

class Mlx5TxMpw : public Mlx5Tx, public testing::WithParamInterface<unsigned> {
  protected:
    void SetUp() override { SKIP_WITHOUT_VECTORS(GetParam()); }
    void start(TxSetup setup = {}) {
        setup.multi_packet = true;
        setup.simd_bits = GetParam();
        Mlx5Tx::start(setup);
    }
    std::vector<rte_mbuf*> packets(uint32_t count, uint16_t bytes = 64) {
        std::vector<rte_mbuf*> out;
        for (uint32_t i = 0; i < count; ++i)
            out.push_back(packet(i, {bytes}));
        return out;
    }
    static Shape mpw(uint32_t packets) { return {mlx5::WqeOpcode::enhanced_mpw, packets + 2}; }
};

} // namespace rings_test
