// SPDX-License-Identifier: BSD-3-Clause
// A receive queue of either kind with large receive offload, and what its completions must report.
#pragma once

#include "tests/unit/softhca/testbed.hpp"

#include <algorithm>

namespace testbed {

using frames::Spec;

constexpr uint32_t kWqeRoom = 16384, kWqes = 4;
constexpr size_t kMss = 1400;
constexpr uint64_t kLong = 3'600'000'000'000; // no session lasts until then
constexpr LroAttr kIpv4Lro{.ipv4 = true, .timeout_ns = kLong, .max_bytes = 65280};

/// A rule that steers all packets to this TIR.
inline FlowAttr to(Number tir) {
    FlowAttr flow;
    flow.tirs = {tir};
    return flow;
}

enum class LroKind { cyclic, striding };

inline RqOptions options_of(LroKind kind, FakeListener* listener) {
    RqOptions options{.log_wqes = 2, .log_wqe_bytes = 7, .listener = listener};
    if (kind == LroKind::striding) {
        options.log_wqe_bytes = 5;
        options.striding = StridingAttr{.log_strides = 5, .log_stride_bytes = 9};
    }
    return options;
}

/// The packet after the queue's owner has completed its headers, as drivers do.
inline Bytes with_completed_headers(Bytes frame, const mlx5::Cqe& cqe, size_t l3, int ip) {
    const size_t l4 = l3 + (ip == 4 ? 20 : 40);
    if (ip == 4) {
        frame[l3 + 8] = cqe.lro.min_ttl;
        frames::put16(frame, l3 + 2, static_cast<uint16_t>(frame.size() - l3));
        frames::put16(frame, l3 + 10, 0);
        frames::put16(frame, l3 + 10,
                      frames::slow_checksum({frame.begin() + l3, frame.begin() + l4}));
    } else {
        frame[l3 + 7] = cqe.lro.min_ttl;
        frames::put16(frame, l3 + 4, static_cast<uint16_t>(frame.size() - l3 - 40));
    }
    if (cqe.lro.tcppsh_abort_dupack & mlx5::kLroPush) frame[l4 + 13] |= frames::kPsh;
    frames::put32(frame, l4 + 8, cqe.lro.ack_seq_num);
    frames::put16(frame, l4 + 14, cqe.lro.tcp_win);
    frames::put16(frame, l4 + 16, 0);
    frames::put16(
        frame, l4 + 16,
        frames::slow_l4_checksum({frame.begin() + l3, frame.end()}, l4 - l3, frames::kTcp));
    return frame;
}

inline uint32_t segments_of(const mlx5::Cqe& cqe) { return cqe.srqn_uidx >> 24; }
inline uint32_t bytes_of(const mlx5::Cqe& cqe) { return cqe.byte_count & 0xffff; }

class Lro : public Testbed, public testing::WithParamInterface<LroKind> {
  protected:
    Lro() : queue(*device, pd, rx_cq.number, options_of(GetParam(), &listener)) {}

    [[nodiscard]] bool strides() const { return GetParam() == LroKind::striding; }
    [[nodiscard]] static Spec segment(uint32_t number, size_t bytes = kMss) {
        Spec spec;
        spec.proto = frames::kTcp;
        spec.sequence = 0xffffff00 + number * kMss; // wraps around soon
        spec.payload = frames::pattern(bytes, static_cast<uint8_t>(number));
        return spec;
    }
    void steer(const LroAttr& lro) {
        (void)device->create_flow(to(direct_tir(queue, lro))).value();
    }
    void steer() { steer({.ipv4 = true, .ipv6 = true, .timeout_ns = kLong, .max_bytes = 65280}); }
    [[nodiscard]] Number direct_tir(const TestRq& to, const LroAttr& lro) {
        TirAttr attr;
        attr.rqn = to.number;
        attr.lro = lro;
        return device->create_tir(attr).value();
    }
    void post(size_t count = 1) {
        while (count--) {
            const size_t at = queue.producer % kWqes * kWqeRoom;
            std::vector<TestRq::Segment> buffers;
            const uint32_t bytes = strides() ? kWqeRoom : kWqeRoom / 8;
            for (uint32_t done = 0; done < kWqeRoom; done += bytes)
                buffers.push_back({lkey, memory_at(at + done), bytes});
            queue.post(buffers);
        }
    }
    void arrive(const Spec& spec) { wire->incoming.push_back(frames::build(spec)); }
    /// Unlike in run(), sessions continue.
    void deliver() {
        while (!wire->incoming.empty())
            (void)device->poll();
    }
    /// Ends any session.
    void end() {
        arrive(udp);
        deliver();
    }
    /// The next completion is for that many segments.
    const mlx5::Cqe& expect_segments(uint32_t segments) {
        const mlx5::Cqe& cqe = expect_packet(rx_cq);
        rx_cq.release();
        EXPECT_EQ(segments_of(cqe), segments);
        EXPECT_EQ(cqe.srqn_uidx & 0xffffff, 0xa5u);
        return cqe;
    }
    /// The next completion is for a packet on its own.
    void expect_alone(const Spec& spec) {
        const mlx5::Cqe& cqe = expect_segments(0);
        EXPECT_EQ(in_memory(cqe), frames::build(spec));
    }
    [[nodiscard]] Bytes in_memory(const mlx5::Cqe& cqe) {
        const size_t wqe = strides() ? cqe.wqe_id : cqe.wqe_counter;
        const size_t stride = strides() ? size_t{cqe.wqe_counter} : 0;
        return get(memory_at(wqe % kWqes * kWqeRoom + stride * 512), bytes_of(cqe));
    }
    /// The next completion is for these segments, and the packet looks as if it had come as one.
    void expect_coalesced(const std::vector<Spec>& specs, size_t l3 = 14) {
        const mlx5::Cqe& cqe = expect_segments(static_cast<uint32_t>(specs.size()));
        Spec whole = specs.front();
        whole.payload.clear();
        for (const Spec& spec : specs) {
            whole.payload.insert(whole.payload.end(), spec.payload.begin(), spec.payload.end());
            whole.ttl = std::min(whole.ttl, spec.ttl);
        }
        whole.ack = specs.back().ack;
        whole.window = specs.back().window;
        whole.tcp_flags = specs.back().tcp_flags;
        EXPECT_EQ(with_completed_headers(in_memory(cqe), cqe, l3, whole.ip), frames::build(whole));
        EXPECT_EQ(cqe.check_sum, static_cast<uint16_t>(~frames::slow_checksum(whole.payload)));
        EXPECT_EQ(cqe.hds_ip_ext, mlx5::kL2Ok | mlx5::kL3Ok | mlx5::kL4Ok);
        EXPECT_EQ(cqe.l4_l3_type >> 4 & 7, static_cast<uint8_t>(mlx5::CqeL4::tcp_ack_data));
    }
    /// Two segments of a flow; `change` makes the second one that does not continue the first.
    template <class Change> void expect_apart(Change&& change) {
        post(3);
        Spec second = segment(1);
        change(second);
        arrive(segment(0));
        arrive(second);
        end();
        expect_alone(segment(0));
        expect_alone(second);
    }

    TestRq queue;
    const Spec udp;
};

} // namespace testbed
