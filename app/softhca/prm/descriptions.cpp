// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/prm/queues.hpp"

#include <initializer_list>

namespace softhca::prm {
namespace {

constexpr uint64_t kPage = 4096, kOffsetUnit = kPage / 64;
constexpr uint64_t kCyclic = MLX5_WQ_TYPE_CYCLIC, kCyclicStriding = MLX5_WQ_TYPE_CYCLIC_STRIDING_RQ;

/// In pages of 4 KB: a driver may choose larger ones where the memory allows it.
uint64_t page_offset(uint64_t ring) { return ring % kPage / kOffsetUnit; }

void describe_wq(Fields wq, const QueuePlace& place, core::Number pd, uint64_t log_stride,
                 uint64_t log_size) {
    wq.set(PRM(wq, wq_type), kCyclic);
    wq.set(PRM(wq, page_offset), page_offset(place.ring));
    wq.set(PRM(wq, pd), pd);
    wq.set(PRM(wq, uar_page), place.uar);
    wq.set(PRM(wq, dbr_addr), place.record);
    wq.set(PRM(wq, log_wq_stride), log_stride);
    wq.set(PRM(wq, log_wq_sz), log_size);
}

/// The reverse of reading them: counts are biased by 9, sizes by 6.
void describe_strides(Fields wq, const core::StridingAttr& striding) {
    constexpr unsigned kCountBias = 9, kSizeBias = 6, kCountMask = 0xf;
    wq.set(PRM(wq, wq_type), kCyclicStriding);
    wq.set(PRM(wq, two_byte_shift_en), striding.two_byte_shift);
    wq.set(PRM(wq, log_wqe_stride_size), striding.log_stride_bytes - kSizeBias);
    wq.set(PRM(wq, log_wqe_num_of_strides), (striding.log_strides - kCountBias) & kCountMask);
}

uint64_t prm_format(core::MiniFormat format) {
    switch (format) {
    case core::MiniFormat::hash: return 0;
    case core::MiniFormat::checksum: return 1;
    case core::MiniFormat::checksum_stride: return 3;
    }
    return 0;
}

/// These fields as in the other context.
void take(std::vector<uint8_t>& bytes, std::vector<uint8_t> from,
          std::initializer_list<Field> fields) {
    const Fields source(from.data(), from.size());
    Fields context(bytes.data(), bytes.size());
    for (const Field field : fields)
        context.set(field, source.get(field));
}

} // namespace

std::vector<uint8_t> cq_context(const CqDescription& cq, core::Number eqn) {
    constexpr uint64_t k64Bytes = 0, k128Bytes = 1, kPadded = 2;
    std::vector<uint8_t> bytes(PRM_BYTES(cqc));
    Fields context(bytes.data(), bytes.size());
    context.set(PRM(cqc, cqe_sz), cq.padded                 ? kPadded
                                  : cq.attr.cqe_size == 128 ? k128Bytes
                                                            : k64Bytes);
    context.set(PRM(cqc, oi), cq.attr.ignore_overrun);
    context.set(PRM(cqc, cqe_comp_en), cq.attr.compress.has_value());
    if (cq.attr.compress) context.set(PRM(cqc, mini_cqe_res_format), prm_format(*cq.attr.compress));
    context.set(PRM(cqc, page_offset), page_offset(cq.place.ring));
    context.set(PRM(cqc, log_cq_size), cq.attr.log_entries);
    context.set(PRM(cqc, uar_page), cq.place.uar);
    context.set(PRM(cqc, cq_period), cq.period_us);
    context.set(PRM(cqc, cq_max_count), cq.max_count);
    context.set(PRM(cqc, c_eqn_or_apu_element), eqn);
    context.set(PRM(cqc, dbr_addr), cq.place.record);
    return bytes;
}

std::vector<uint8_t> sq_context(const SqDescription& sq) {
    constexpr uint64_t kLogWqebb = 6;
    std::vector<uint8_t> bytes(PRM_BYTES(sqc));
    Fields context(bytes.data(), bytes.size());
    context.set(PRM(sqc, flush_in_error_en), 1);
    context.set(PRM(sqc, allow_multi_pkt_send_wqe), 1);
    context.set(PRM(sqc, user_index), sq.attr.user_index);
    context.set(PRM(sqc, cqn), sq.attr.cqn);
    context.set(PRM(sqc, tis_lst_sz), sq.tisn != 0);
    context.set(PRM(sqc, tis_num_0), sq.tisn);
    describe_wq(context.at(PRM(sqc, wq)), sq.place, sq.attr.pd, kLogWqebb, sq.attr.log_wqebbs);
    return bytes;
}

std::vector<uint8_t> rq_context(const RqDescription& rq) {
    std::vector<uint8_t> bytes(PRM_BYTES(rqc));
    Fields context(bytes.data(), bytes.size());
    context.set(PRM(rqc, flush_in_error_en), 1);
    context.set(PRM(rqc, delay_drop_en), rq.attr.delay_drop);
    context.set(PRM(rqc, scatter_fcs), rq.attr.scatter_fcs);
    context.set(PRM(rqc, vsd), !rq.attr.vlan_strip);
    context.set(PRM(rqc, user_index), rq.attr.user_index);
    context.set(PRM(rqc, cqn), rq.attr.cqn);
    context.set(PRM(rqc, counter_set_id), rq.q_counter);
    Fields wq = context.at(PRM(rqc, wq));
    describe_wq(wq, rq.place, rq.attr.pd, rq.attr.log_wqe_bytes, rq.attr.log_wqes);
    wq.set(PRM(wq, end_padding_mode), rq.pads_writes);
    if (rq.attr.striding) describe_strides(wq, *rq.attr.striding);
    return bytes;
}

void update(std::vector<uint8_t>& context, const CqDescription& cq, CqPart part) {
    const std::vector<uint8_t> now = cq_context(cq, 0);
    switch (part) {
    case CqPart::size:
        take(context, now, {PRM(cqc, log_cq_size), PRM(cqc, cqe_sz), PRM(cqc, page_offset)});
        break;
    case CqPart::moderation:
        take(context, now, {PRM(cqc, cq_period), PRM(cqc, cq_max_count)});
        break;
    }
}

void update(std::vector<uint8_t>& context, const RqDescription& rq, RqPart part) {
    const std::vector<uint8_t> now = rq_context(rq);
    switch (part) {
    case RqPart::vlan_strip: take(context, now, {PRM(rqc, vsd)}); break;
    case RqPart::q_counter: take(context, now, {PRM(rqc, counter_set_id)}); break;
    }
}

} // namespace softhca::prm
