// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/rings/mlx5/format.hpp"

#include "app/softhca/core/data_path.hpp"
#include "app/softhca/core/rings/mlx5/receive_wqe.hpp"
#include "app/softhca/core/rings/mlx5/send_wqe.hpp"
#include "app/softhca/core/rings/mlx5/ste/format.hpp"
#include "app/softhca/core/watch.hpp"

#include <algorithm>

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

const char* name_of(SendRequest::Kind kind) {
    switch (kind) {
    case SendRequest::Kind::nop: return "NOP";
    case SendRequest::Kind::packet: return "SEND";
    case SendRequest::Kind::tso: return "LSO";
    case SendRequest::Kind::packets: return "ENHANCED_MPSW";
    case SendRequest::Kind::rdma_write: return "RDMA_WRITE";
    case SendRequest::Kind::rdma_read: return "RDMA_READ";
    case SendRequest::Kind::meters: return "ACCESS_ASO";
    case SendRequest::Kind::argument: return "FLOW_TBL_ACCESS";
    case SendRequest::Kind::key: return "UMR";
    case SendRequest::Kind::wait_time: return "WAIT_TIME";
    case SendRequest::Kind::wait_completions: return "WAIT_CQ";
    case SendRequest::Kind::enable: return "SEND_EN";
    }
    return "?";
}

/// Keeps a segment that was read, as long as there is room.
void keep(const Segment& segment, PostedRequest& posted) {
    if (segment.inlined) {
        posted.inlined += segment.bytes;
        return;
    }
    if (posted.segments_in_all < posted.segments.size())
        posted.segments[posted.segments_in_all] = segment;
    posted.segments_in_all++;
}

PostedRequest describe(SendWqe& wqe, const Sq& sq) {
    PostedRequest posted{.index = sq.consumer, .kind = "?"};
    SendFault fault = wqe.fetch(sq);
    posted.steps = std::min(wqe.request().steps, sq.pending());
    if (fault == SendFault::none) fault = wqe.decode();
    if (fault == SendFault::none) {
        posted.kind = name_of(wqe.request().kind);
        if (wqe.request().kind != SendRequest::Kind::nop) {
            posted.inlined = static_cast<uint32_t>(wqe.request().header.size());
            Segment segment;
            for (auto at = wqe.first(); !wqe.at_end(at) && fault == SendFault::none;) {
                fault = wqe.next(at, segment);
                if (fault == SendFault::none) keep(segment, posted);
            }
        }
    }
    if (fault != SendFault::none) posted.fault = text_of(fault);
    return posted;
}

PostedRequest describe(const Rq& rq) {
    PostedRequest posted{.index = rq.consumer,
                         .kind = rq.striding ? "STRIDING_RECEIVE" : "RECEIVE"};
    if (rq.striding) {
        keep(ReceiveWqe::strided_buffer(rq), posted);
        return posted;
    }
    ReceiveWqe::Buffers buffers(rq);
    for (Segment segment; buffers.next(segment);)
        keep(segment, posted);
    return posted;
}

class Format final : public RingFormat {
  public:
    [[nodiscard]] bool fits(const CqAttr& attr) const override {
        return (attr.cqe_size == 64 || attr.cqe_size == 128) &&
               !(attr.collapsed && attr.compress) && // mini CQEs need entries of their own
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
    [[nodiscard]] size_t read_posted(Sq& sq, std::span<PostedRequest> into) const override {
        SendWqe wqe;
        sq.producer = SendWqe::posted(sq);
        size_t count = 0;
        for (; count < into.size() && sq.pending() != 0; count++) {
            into[count] = describe(wqe, sq);
            sq.consumer = static_cast<uint16_t>(sq.consumer + into[count].steps);
        }
        return count;
    }
    [[nodiscard]] size_t read_posted(Rq& rq, std::span<PostedRequest> into) const override {
        rq.producer = ReceiveWqe::posted(rq);
        size_t count = 0;
        for (; count < into.size() && rq.pending() != 0; count++, rq.consumer++)
            into[count] = describe(rq);
        return count;
    }
    [[nodiscard]] std::unique_ptr<core::Cq> make_cq(Number number,
                                                    const CqAttr& attr) const override {
        return std::make_unique<Cq>(number, attr);
    }
    [[nodiscard]] const ste::Format& steering_entries(uint8_t format) const override {
        return ste_format(format);
    }
    [[nodiscard]] std::unique_ptr<DataPath>
    make_data_path(const DataPathParts& parts) const override {
        if (!parts.recorder)
            return std::make_unique<DataPathOver<Mlx5Rings, NoWatch>>(parts, NoWatch{});
        return std::make_unique<DataPathOver<Mlx5Rings, Watch>>(parts, Watch(*parts.recorder));
    }
};

} // namespace

const RingFormat& format() {
    static const Format kFormat;
    return kFormat;
}

} // namespace softhca::core::mlx5_rings
