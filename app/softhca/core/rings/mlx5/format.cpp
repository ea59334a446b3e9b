// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/rings/mlx5/format.hpp"

#include "app/softhca/core/data_path.hpp"
#include "app/softhca/core/rings/mlx5/receive_wqe.hpp"
#include "app/softhca/core/rings/mlx5/send_wqe.hpp"

namespace softhca::core::mlx5_rings {
namespace {

struct Mlx5Rings {
    using Send = SendWqe;
    using Receive = ReceiveWqe;
};

bool fits_strides(const RqAttr& attr) {
    if (!attr.striding) return true;
    const StridingAttr& strides = *attr.striding;
    constexpr uint8_t kLogNextAndDataSeg = 5;
    return strides.log_strides <= Limits::kLogMaxStrides &&
           strides.log_stride_bytes >= Limits::kLogMinStrideBytes &&
           strides.log_stride_bytes <= Limits::kLogMaxStrideBytes &&
           attr.log_wqe_bytes >= kLogNextAndDataSeg;
}

class Format final : public RingFormat {
  public:
    [[nodiscard]] bool fits(const CqAttr& attr) const override {
        return (attr.cqe_size == 64 || attr.cqe_size == 128) &&
               attr.ring.holds(uint64_t{attr.cqe_size} << attr.log_entries, sizeof(mlx5::Cqe));
    }
    [[nodiscard]] bool fits(const SqAttr& attr) const override {
        return attr.ring.holds(uint64_t{mlx5::kWqebb} << attr.log_wqebbs, mlx5::kWqebb);
    }
    [[nodiscard]] bool fits(const RqAttr& attr) const override {
        constexpr uint8_t kLogMinWqe = 4, kLogMaxWqe = 10; // one data segment; 64 of them
        return attr.log_wqe_bytes >= kLogMinWqe && attr.log_wqe_bytes <= kLogMaxWqe &&
               fits_strides(attr) &&
               attr.ring.holds(uint64_t{1} << (attr.log_wqes + attr.log_wqe_bytes),
                               sizeof(mlx5::WqeDataSeg));
    }
    [[nodiscard]] std::unique_ptr<core::Cq> make_cq(Number number,
                                                    const CqAttr& attr) const override {
        return std::make_unique<Cq>(number, attr);
    }
    [[nodiscard]] std::unique_ptr<DataPath>
    make_data_path(const DataPathParts& parts) const override {
        return std::make_unique<DataPathOver<Mlx5Rings>>(parts);
    }
};

} // namespace

const RingFormat& format() {
    static const Format kFormat;
    return kFormat;
}

} // namespace softhca::core::mlx5_rings
