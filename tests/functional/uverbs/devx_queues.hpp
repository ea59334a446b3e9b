// SPDX-License-Identifier: BSD-3-Clause
// Queues created by firmware commands, and frames that pass through them.
#pragma once

#include "tests/functional/uverbs/devx.hpp"

namespace test {

inline int destroy_event_channel(mlx5dv_devx_event_channel* channel) {
    mlx5dv_devx_destroy_event_channel(channel);
    return 0;
}

/// A send queue and a receive queue created by commands, and a flow from one to the other.
class DevxQueueTest : public DevxTest {
  protected:
    enum Page : uint32_t {
        kSendCq,
        kSendCqRecord,
        kReceiveCq,
        kReceiveCqRecord,
        kSend,
        kSendRecord,
        kReceive,
        kReceiveRecord
    };

    void SetUp() override {
        DevxTest::SetUp();
        send_cq = made(make(cq_request(kSendCq, kSendCqRecord)));
        receive_cq = made(make(cq_request(kReceiveCq, kReceiveCqRecord)));
        receive_cqn = last.number();
        rq = made(make(rq_request(receive_cqn, kReceive, kReceiveRecord)));
        rqn = last.number();
        tir = made(make(tir_request(rqn)));
        tirn = last.number();
        tis = made(make_tis());
        tisn = last.number();
        mr.reset(ibv_reg_mr(pd.get(), buffer.data(), buffer.size(), IBV_ACCESS_LOCAL_WRITE));
        ASSERT_TRUE(mr);
        ASSERT_EQ(modify(rq.get(), REQUEST(MODIFY_RQ, modify_rq)
                                       .number(rqn)
                                       .set(inside(PRM(modify_rq_in, ctx), PRM(rqc, state)), 1))
                      .error,
                  0);
        ASSERT_NO_FATAL_FAILURE(use_sq(sq_request(number_of_send_cq, tisn, kSend, kSendRecord)));
    }
    /// The SQ for sending, in the ready state.
    void use_sq(const Request& request) {
        sq = made(make(request));
        sqn = last.number();
        ASSERT_EQ(modify(sq.get(), REQUEST(MODIFY_SQ, modify_sq)
                                       .number(sqn)
                                       .set(inside(PRM(modify_sq_in, ctx), PRM(sqc, state)), 1))
                      .error,
                  0);
    }
    DevxHandle made(DevxHandle object) {
        EXPECT_TRUE(object) << std::strerror(last.error) << ", status "
                            << static_cast<int>(last.status());
        if (!number_of_send_cq) number_of_send_cq = last.number();
        return object;
    }
    [[nodiscard]] static mlx5dv_flow_action_attr devx_action(mlx5dv_flow_action_type type,
                                                             mlx5dv_devx_obj* object) {
        mlx5dv_flow_action_attr action{};
        action.type = type;
        action.obj = object;
        return action;
    }
    /// A flow for everything received, or sent. Null if refused, with the reason in errno.
    void make_flow(std::vector<mlx5dv_flow_action_attr> actions, bool sent = false) {
        std::array<uint64_t, 9> mask{}, value{};
        mask[0] = value[0] = 64;
        mlx5dv_flow_matcher_attr attributes{};
        attributes.type = IBV_FLOW_ATTR_NORMAL;
        attributes.match_mask = reinterpret_cast<mlx5dv_flow_match_parameters*>(mask.data());
        attributes.comp_mask = MLX5DV_FLOW_MATCHER_MASK_FT_TYPE;
        attributes.ft_type = sent ? MLX5DV_FLOW_TABLE_TYPE_NIC_TX : MLX5DV_FLOW_TABLE_TYPE_NIC_RX;
        matcher.reset(mlx5dv_create_flow_matcher(context.get(), &attributes));
        ASSERT_TRUE(matcher) << std::strerror(errno);
        errno = 0;
        flow.reset(mlx5dv_create_flow(matcher.get(),
                                      reinterpret_cast<mlx5dv_flow_match_parameters*>(value.data()),
                                      actions.size(), actions.data()));
    }
    void lead_to(mlx5dv_devx_obj* destination) {
        make_flow({devx_action(MLX5DV_FLOW_ACTION_DEST_DEVX, destination)});
    }
    void lead_to_tir() {
        lead_to(tir.get());
        ASSERT_TRUE(flow) << std::strerror(errno);
    }
    void post_receive() {
        const mlx5::WqeDataSeg segment{2048, mr->lkey, reinterpret_cast<uint64_t>(&buffer[2048])};
        std::memcpy(page(kReceive), &segment, sizeof segment);
        auto* const record = reinterpret_cast<mlx5::QueueDoorbell*>(page(kReceiveRecord));
        __atomic_store_n(&record->receive.raw, net::to_be(uint32_t{1}), __ATOMIC_RELEASE);
    }
    void send(const Frame& frame, uint32_t times = 1) {
        std::copy(frame.begin(), frame.end(), buffer.begin());
        send(mr->lkey, reinterpret_cast<uint64_t>(buffer.data()), frame.size(), times);
    }
    /// From the start of the ring; the last WQE requests a completion.
    void send(uint32_t key, uint64_t address, size_t bytes, uint32_t times = 1) {
        auto* wqe = page(kSend);
        for (uint32_t index = 0; index < times; index++, wqe += mlx5::kWqebb) {
            std::memset(wqe, 0, mlx5::kWqebb);
            // Control, Ethernet and data segment, 16 bytes each.
            net::store_be<uint32_t>(wqe, index << 8 | 0x0a); // SEND
            net::store_be<uint32_t>(wqe + 4, sqn << 8 | 3);
            wqe[11] = index + 1 == times ? mlx5::kCqUpdate : 0;
            const mlx5::WqeDataSeg segment{static_cast<uint32_t>(bytes), key, address};
            std::memcpy(wqe + 32, &segment, sizeof segment);
        }
        auto* const record = reinterpret_cast<mlx5::QueueDoorbell*>(page(kSendRecord));
        __atomic_store_n(&record->send.raw, net::to_be(times), __ATOMIC_RELEASE);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        uint64_t doorbell;
        std::memcpy(&doorbell, wqe - mlx5::kWqebb, sizeof doorbell);
        *static_cast<volatile uint64_t*>(uar->reg_addr) = doorbell;
    }
    /// A key for parts of the buffer: pairs of offset and size. Its addresses start at 0.
    DevxHandle make_indirect_key(const std::vector<std::pair<size_t, uint32_t>>& parts) {
        constexpr Field kContext = PRM(create_mkey_in, memory_key_mkey_entry);
        uint64_t length = 0;
        Request request = REQUEST(CREATE_MKEY, create_mkey);
        for (const auto& [offset, bytes] : parts) {
            request.page(uint64_t{bytes} << 32 | mr->lkey);
            request.page(reinterpret_cast<uint64_t>(&buffer[offset]));
            length += bytes;
        }
        request.set(PRM(create_mkey_in, translations_octword_actual_size), parts.size())
            .set(inside(kContext, PRM(mkc, access_mode_1_0)), MLX5_MKC_ACCESS_MODE_KLMS)
            .set(inside(kContext, PRM(mkc, lr)), 1)
            .set(inside(kContext, PRM(mkc, lw)), 1)
            .set(inside(kContext, PRM(mkc, qpn)), 0xffffff)
            .set(inside(kContext, PRM(mkc, pd)), pdn)
            .set(inside(kContext, PRM(mkc, mkey_7_0)), 0x5a)
            .set(inside(kContext, PRM(mkc, translations_octword_size)), parts.size())
            .set(inside(kContext, PRM(mkc, len)), length);
        DevxHandle key = made(make(request));
        indirect_key = last.number() << 8 | 0x5a;
        return key;
    }
    [[nodiscard]] bool wait_cqe(uint32_t cq) {
        const auto* const cqe = reinterpret_cast<const mlx5::Cqe*>(page(cq));
        return wait_until(
            [&] { return __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE) >> 4 != 0xf; });
    }
    void arm(uint32_t cqn) {
        auto* const record = reinterpret_cast<uint32_t*>(page(kReceiveCqRecord));
        __atomic_store_n(&record[1], net::to_be(uint32_t{0}), __ATOMIC_RELEASE);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        uint8_t doorbell[8];
        net::store_be<uint32_t>(doorbell, 0);
        net::store_be<uint32_t>(doorbell + 4, cqn);
        uint64_t value;
        std::memcpy(&value, doorbell, sizeof value);
        *reinterpret_cast<volatile uint64_t*>(static_cast<uint8_t*>(uar->base_addr) + 0x20) = value;
    }

    /// Subscribes `channel` for completions, once for each cookie from `first` on, and receives a
    /// packet.
    void complete_for(uint64_t first, uint64_t cookies) {
        channel.reset(mlx5dv_devx_create_event_channel(
            context.get(), static_cast<mlx5dv_devx_create_event_channel_flags>(0)));
        ASSERT_TRUE(channel) << std::strerror(errno);
        uint16_t completion = 0;
        for (uint64_t cookie = first; cookie < first + cookies; cookie++)
            ASSERT_EQ(mlx5dv_devx_subscribe_devx_event(channel.get(), receive_cq.get(),
                                                       sizeof completion, &completion, cookie),
                      0);
        lead_to_tir();
        post_receive();
        arm(receive_cqn);
        send(UdpFrame{}.bytes());
        ASSERT_TRUE(wait_cqe(kReceiveCq));
    }

    using MatcherHandle = Handle<mlx5dv_flow_matcher, mlx5dv_destroy_flow_matcher>;
    using EventChannelHandle = Handle<mlx5dv_devx_event_channel, destroy_event_channel>;
    std::vector<uint8_t> buffer = std::vector<uint8_t>(4096);
    MrHandle mr;
    uint32_t indirect_key = 0; ///< the last one created
    uint32_t number_of_send_cq = 0, receive_cqn = 0, rqn = 0, tirn = 0, tisn = 0, sqn = 0;
    DevxHandle send_cq, receive_cq, rq, tir, tis, sq;
    MatcherHandle matcher;
    FlowHandle flow;
    EventChannelHandle channel; ///< of complete_for()
};

} // namespace test
