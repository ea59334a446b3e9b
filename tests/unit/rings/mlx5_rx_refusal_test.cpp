// SPDX-License-Identifier: BSD-3-Clause
// Invalid mlx5 Rx rings are refused; the error names the value.
#include "tests/unit/rings/mlx5_rx.hpp"

namespace rings_test {
namespace {

class Mlx5RxRefusal : public Mlx5Rx {
  protected:
    /// The error of rx_create for the spec that `spoil` has modified.
    template <class Spoil> std::string refusal(Spoil spoil) {
        pool = test_eal::make_pool(64);
        cq.emplace(64);
        rq.emplace(64, 1);
        spec.api = &fake_api();
        spec.cq = &cq->handle;
        spec.wq = &rq->handle;
        spec.descriptors = 64;
        spec.pool = pool.get();
        spec.mrs = &mrs.table;
        spoil();
        const auto created = rawqp::kMlx5Format.rx_create(spec);
        return created ? "" : created.error().what;
    }
};

TEST_F(Mlx5RxRefusal, NamesTheFigure) {
    EXPECT_THAT(refusal([&] { spec.descriptors = 100; }), testing::HasSubstr("100 descriptors"));
    EXPECT_THAT(refusal([&] { spec.descriptors = 32; }), testing::HasSubstr("32 descriptors"));
    EXPECT_THAT(refusal([&] { spec.segments = 3; }), testing::HasSubstr("3 segments"));
    spec.segments = 1;
    EXPECT_THAT(refusal([&] { cq->cqe_size = 128; }), testing::HasSubstr("MLX5_CQE_SIZE"));
    EXPECT_THAT(refusal([&] {
                    cq.emplace(32);
                    spec.cq = &cq->handle;
                }),
                testing::HasSubstr("32 entries"));
    EXPECT_THAT(refusal([&] {
                    rq.emplace(128, 1);
                    spec.wq = &rq->handle;
                }),
                testing::HasSubstr("128 WQEs"));
    EXPECT_THAT(refusal([&] {
                    rq.emplace(64, 2);
                    spec.wq = &rq->handle;
                }),
                testing::HasSubstr("32 bytes"));
    EXPECT_THAT(refusal([&] { spec.max_frame = 9018; }), testing::HasSubstr("9018 bytes"));
}

TEST_F(Mlx5RxRefusal, AKeptChecksumNeedsRoom) {
    EXPECT_THAT(refusal([&] {
                    spec.max_frame = RTE_MBUF_DEFAULT_DATAROOM - RTE_ETHER_CRC_LEN + 1;
                    spec.offloads = RTE_ETH_RX_OFFLOAD_KEEP_CRC;
                }),
                testing::HasSubstr("2045 bytes"));
}

} // namespace
} // namespace rings_test
