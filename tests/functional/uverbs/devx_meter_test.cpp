// SPDX-License-Identifier: BSD-3-Clause
// Flow meters created by firmware commands, written by send queues; entries that color packets.
#include "common/mlx5/aso.hpp"
#include "tests/functional/uverbs/devx_flow.hpp"

namespace test {
namespace {

constexpr uint32_t kExecuteAso = MLX5_FLOW_CONTEXT_ACTION_EXECUTE_ASO,
                   kDrop = MLX5_FLOW_CONTEXT_ACTION_DROP;
constexpr uint64_t kRed = MLX5_FLOW_METER_COLOR_RED, kGreen = MLX5_FLOW_METER_COLOR_GREEN;
constexpr uint8_t kLogObjects = 3;

/// A send queue, however created, that sends nothing else.
struct AsoQueue {
    uint8_t* ring = nullptr;
    uint32_t wqebbs = 0;
    uint32_t* record = nullptr; ///< the send doorbell record
    void* doorbell = nullptr;
    uint32_t number = 0;
    uint32_t producer = 0;

    /// Writes (with data) or reads (without) an object. A WQE with data is two WQEBBs.
    void post(uint32_t object, mlx5::WqeAsoCtrlSeg aso,
              const std::array<mlx5::MeterParams, 2>* data = nullptr) {
        const uint32_t segments = data ? 8 : 4;
        mlx5::WqeCtrlSeg ctrl{};
        ctrl.opmod_idx_opcode = uint32_t{mlx5::kAsoPolicer} << 24 | (producer & 0xffff) << 8 |
                                static_cast<uint32_t>(mlx5::WqeOpcode::access_aso);
        ctrl.qpn_ds = number << 8 | segments;
        ctrl.fm_ce_se = mlx5::kCqUpdate;
        ctrl.imm = object;
        uint8_t* const first = at(producer);
        std::memcpy(first, &ctrl, sizeof ctrl);
        std::memcpy(first + sizeof ctrl, &aso, sizeof aso);
        if (data) std::memcpy(at(producer + 1), data->data(), sizeof *data);
        producer += data ? 2 : 1;
        __atomic_store_n(record, net::to_be(producer & 0xffff), __ATOMIC_RELEASE);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        uint64_t rung;
        std::memcpy(&rung, first, sizeof rung);
        *static_cast<volatile uint64_t*>(doorbell) = rung;
    }

  private:
    [[nodiscard]] uint8_t* at(uint32_t index) const {
        return ring + size_t{index % wqebbs} * mlx5::kWqebb;
    }
};

class DevxMeterTest : public DevxFlowTest {
  protected:
    enum Page : uint32_t { kAsoCq = 8, kAsoCqRecord, kAso, kAsoRecord };

    void SetUp() override {
        DevxFlowTest::SetUp();
        meters = made(make(meters_request(pdn)));
        first_meters = last.number();
    }
    static Request meters_request(uint32_t access_pd, uint64_t log_objects = kLogObjects) {
        constexpr Field kObject = PRM(create_flow_meter_aso_obj_in, flow_meter_aso_obj);
        return Request(MLX5_CMD_OP_CREATE_GENERAL_OBJECT, PRM_BYTES(create_flow_meter_aso_obj_in),
                       MLX5_GENERAL_OBJECT_TYPES_FLOW_METER_ASO)
            .set({0x63, 5}, log_objects)
            .set(inside(kObject, PRM(flow_meter_aso_obj, meter_aso_access_pd)), access_pd);
    }
    /// A send queue created by commands.
    AsoQueue devx_queue() {
        aso_cq = made(make(cq_request(kAsoCq, kAsoCqRecord)));
        aso_sq = made(make(sq_request(last.number(), tisn, kAso, kAsoRecord)));
        const uint32_t number = last.number();
        EXPECT_EQ(modify(aso_sq.get(), REQUEST(MODIFY_SQ, modify_sq)
                                           .number(number)
                                           .set(inside(PRM(modify_sq_in, ctx), PRM(sqc, state)), 1))
                      .error,
                  0);
        auto* const record = reinterpret_cast<uint32_t*>(page(kAsoRecord));
        return {page(kAso), 64, record + 1, uar->reg_addr, number};
    }
    /// The SQ of a QP.
    AsoQueue verbs_queue(ibv_pd* of) {
        endpoint = make_endpoint(context.get(), of);
        const mlx5dv_qp qp = rings_of(endpoint->qp.get());
        return {static_cast<uint8_t*>(qp.sq.buf), qp.sq.wqe_cnt,
                reinterpret_cast<uint32_t*>(qp.dbrec) + 1, qp.bf.reg, qp.sqn};
    }
    /// That many packets, and no more within the time of a test.
    static mlx5::MeterParams packets_only(uint32_t packets) {
        constexpr uint32_t kPackets = MLX5_FLOW_METER_MODE_NUM_PACKETS << mlx5::kMeterModeShift;
        constexpr uint32_t kStart = kGreen << mlx5::kMeterColorShift;
        constexpr uint32_t kSlowest = 31 << 8 | 1, kLogPacket = 7;
        mlx5::MeterParams params{};
        params.flags = mlx5::kMeterValid | kPackets | kStart;
        params.cbs_cir = kLogPacket << 24 | packets << 16 | kSlowest;
        return params;
    }
    /// Writes the second meter of an object, as drivers do.
    static void write(AsoQueue& queue, uint32_t object, uint32_t packets) {
        mlx5::WqeAsoCtrlSeg aso{};
        aso.data_mask_mode = mlx5::kAsoBytewise;
        aso.operators = mlx5::kAsoAlwaysTrue << 4 | mlx5::kAsoAlwaysTrue;
        aso.joining = mlx5::kAsoOr;
        aso.data_mask = 0x80ffffff;
        const std::array<mlx5::MeterParams, 2> data{{{}, packets_only(packets)}};
        queue.post(object, aso, &data);
    }
    std::array<mlx5::MeterParams, 2> read(AsoQueue& queue, uint32_t object) {
        constexpr size_t kAt = 1024;
        mlx5::WqeAsoCtrlSeg aso{};
        const auto to = reinterpret_cast<uint64_t>(&buffer[kAt]);
        aso.va_high = static_cast<uint32_t>(to >> 32);
        aso.va_low_read = static_cast<uint32_t>(to) | mlx5::kAsoRead;
        aso.lkey = mr->lkey;
        queue.post(object, aso);
        std::array<mlx5::MeterParams, 2> both;
        EXPECT_TRUE(wait_for_cqe(1));
        std::memcpy(&both, &buffer[kAt], sizeof both);
        return both;
    }
    /// The CQE at this index, in the CQ of the SQ created by commands.
    bool wait_for_cqe(size_t index) {
        const auto* const cqe = reinterpret_cast<const mlx5::Cqe*>(page(kAsoCq)) + index;
        const auto opcode = [&] { return __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE) >> 4; };
        if (!wait_until([&] { return opcode() != 0xf; })) return false;
        return opcode() == static_cast<uint8_t>(mlx5::CqeOpcode::req);
    }
    /// To a table, through the second meter of an object, whose color goes to reg_c_5.
    Request metering_request(const TestTable& from, uint32_t object, uint32_t to_table) {
        constexpr Field kContext = PRM(set_fte_in, flow_context);
        constexpr Field kAsoField = inside(kContext, PRM(flow_context, execute_aso[0]));
        constexpr Field kControl = inside(kAsoField, PRM(execute_aso, exe_aso_ctrl));
        return entry_request(from, kForward | kExecuteAso, to(kTable, to_table))
            .set(inside(kAsoField, PRM(execute_aso, valid)), 1)
            .set(inside(kAsoField, PRM(execute_aso, aso_object_id)), object)
            .set(inside(kControl, PRM(exe_aso_ctrl_flow_meter, return_reg_id)), 5)
            .set(inside(kControl, PRM(exe_aso_ctrl_flow_meter, aso_type)), MLX5_EXE_ASO_FLOW_METER)
            .set(inside(kControl, PRM(exe_aso_ctrl_flow_meter, init_color)), kGreen)
            .set(inside(kControl, PRM(exe_aso_ctrl_flow_meter, meter_id)), 1);
    }
    /// With a group that matches the low bits of reg_c_5.
    TestTable colors_table() {
        constexpr uint64_t kMisc2 = 8;
        TestTable table = make_table(65);
        table.group.reset();
        table.group =
            made(make(REQUEST(CREATE_FLOW_GROUP, create_flow_group)
                          .set(PRM(create_flow_group_in, table_id), table.number)
                          .set(PRM(create_flow_group_in, end_flow_index), 3)
                          .set(PRM(create_flow_group_in, match_criteria_enable), kMisc2)
                          .set(color_in(PRM(create_flow_group_in, match_criteria)), 0xff)));
        table.group_number = last.number();
        return table;
    }
    static constexpr Field color_in(Field match) {
        return inside(inside(match, PRM(fte_match_param, misc_parameters_2)),
                      PRM(fte_match_set_misc2, metadata_reg_c_5));
    }
    static Request of_color(Request entry, uint64_t color) {
        constexpr Field kValue =
            inside(PRM(set_fte_in, flow_context), PRM(flow_context, match_value));
        return entry.set(color_in(kValue), color).set(PRM(set_fte_in, flow_index), color);
    }

    DevxHandle meters, aso_cq, aso_sq;
    std::unique_ptr<Endpoint> endpoint;
    uint32_t first_meters = 0;
};

TEST_F(DevxMeterTest, RedPacketsAreDropped) {
    const uint32_t object = first_meters + (1 << kLogObjects) - 1;
    AsoQueue queue = devx_queue();
    write(queue, object, 2);
    ASSERT_TRUE(wait_for_cqe(0));

    const TestTable first = make_table(64), colors = colors_table();
    const DevxHandle entry = made(make(metering_request(first, object, colors.number)));
    const DevxHandle reds = make_counters();
    const DevxHandle red =
        made(make(of_color(entry_request(colors, kDrop | kCount, 0, counter), kRed)));
    const uint32_t red_counter = counter;
    const DevxHandle greens = make_counters();
    const DevxHandle green = made(
        make(of_color(entry_request(colors, kForward | kCount, to(kTir, tirn), counter), kGreen)));
    const uint32_t green_counter = counter;
    lead_to(first.table.get());
    ASSERT_TRUE(flow) << std::strerror(errno);
    post_receive();
    const Frame frame = UdpFrame{.size = 150}.bytes();
    send(frame, 5);
    counter = red_counter;
    EXPECT_TRUE(wait_until([&] { return count(reds.get()) == 3; }));
    counter = green_counter;
    EXPECT_EQ(count(greens.get()), 2u);
    ASSERT_TRUE(wait_cqe(kReceiveCq));
    EXPECT_EQ(Frame(buffer.begin() + 2048, buffer.begin() + 2048 + 150), frame);

    const auto now = read(queue, object);
    EXPECT_EQ(now[0].flags, 0u) << "the other meter";
    EXPECT_EQ(now[1].flags, packets_only(2).flags);
    EXPECT_EQ(now[1].cbs_cir, packets_only(2).cbs_cir);
    EXPECT_LT(now[1].committed_tokens, 128u);
    EXPECT_NE(mlx5dv_devx_obj_destroy(meters.get()), 0) << "an entry names it";
    flow.reset();
}

TEST_F(DevxMeterTest, QueuesOfVerbsWriteThem) {
    AsoQueue queue = verbs_queue(pd.get());
    for (const uint32_t packets : {5u, 6u}) {
        write(queue, first_meters, packets);
        ibv_wc wc{};
        ASSERT_TRUE(wait_completion(endpoint->send_cq.get(), wc));
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        ASSERT_EQ(query(meters.get(),
                        Request(MLX5_CMD_OP_QUERY_GENERAL_OBJECT, PRM_BYTES(general_obj_in_cmd_hdr),
                                MLX5_GENERAL_OBJECT_TYPES_FLOW_METER_ASO)
                            .set(PRM(general_obj_in_cmd_hdr, obj_id), first_meters))
                      .error,
                  0);
        constexpr Field kMeter = inside({8 * PRM_BYTES(general_obj_out_cmd_hdr), 0},
                                        PRM(flow_meter_aso_obj, flow_meter_parameters[1]));
        EXPECT_EQ(last.answer.get(inside(kMeter, PRM(flow_meter_parameters, valid))), 1u);
        EXPECT_EQ(last.answer.get(inside(kMeter, PRM(flow_meter_parameters, cbs_mantissa))),
                  packets);
    }
}

TEST_F(DevxMeterTest, OnlyQueuesOfTheirPdWriteThem) {
    const PdHandle other(ibv_alloc_pd(context.get()));
    AsoQueue queue = verbs_queue(other.get());
    write(queue, first_meters, 5);
    ibv_wc wc{};
    ASSERT_TRUE(wait_completion(endpoint->send_cq.get(), wc));
    EXPECT_EQ(wc.status, IBV_WC_LOC_PROT_ERR);
    endpoint.reset();
}

TEST_F(DevxMeterTest, TheirPdIsTheirOwners) {
    EXPECT_FALSE(make(meters_request(0xabcde)));
    EXPECT_EQ(last.error, EREMOTEIO);
    EXPECT_EQ(last.status(), FwStatus::bad_resource);
    EXPECT_FALSE(make(meters_request(pdn, 31)));
    EXPECT_EQ(last.status(), FwStatus::bad_parameter) << "too many at once";
    const ContextHandle other = open_devx();
    ASSERT_TRUE(other);
    EXPECT_FALSE(make(meters_request(pdn), other.get()));
    EXPECT_EQ(last.status(), FwStatus::bad_resource);
}

} // namespace
} // namespace test
