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
    struct Shape {
        mlx5::WqeOpcode opcode;
        uint32_t segments;
        bool operator==(const Shape&) const = default;
    };
    /// The WQEs between the device's position and the doorbell.
    [[nodiscard]] std::vector<Shape> posted() const {
        std::vector<Shape> out;
        for (uint16_t at = executed; at != static_cast<uint16_t>(sq->doorbell.send);) {
            const auto control = sq->segment<mlx5::WqeCtrlSeg>(at, 0);
            const uint32_t size = control.qpn_ds & 0x3f;
            out.push_back({static_cast<mlx5::WqeOpcode>(control.opmod_idx_opcode & 0xff), size});
            at = static_cast<uint16_t>(at + (size + 3) / 4);
        }
        return out;
    }
    static Shape mpw(uint32_t packets) { return {mlx5::WqeOpcode::enhanced_mpw, packets + 2}; }
};

} // namespace rings_test
