// SPDX-License-Identifier: BSD-3-Clause
// ICM by command, as the kernel's driver allocates it for programs that write steering entries: its
// addresses, its owner, and keys for it.
#include "app/softhca/core/icm.hpp"
#include "tests/unit/prm/object_requests.hpp"
#include "tests/unit/prm/transports.hpp"

namespace prm_test {
namespace {

constexpr Field kObject = PRM(create_sw_icm_in, sw_icm);
constexpr Field kKey = PRM(create_mkey_in, memory_key_mkey_entry);
constexpr uint64_t kStart = core::kIcmRanges.front().first;
constexpr uint64_t kLog = core::kLogIcmBlock, kBytes = uint64_t{1} << kLog;
constexpr uint64_t kSwIcm = 4; // MLX5_MKC_ACCESS_MODE_SW_ICM

class IcmTest : public TransportTest {
  protected:
    static Request create(uint64_t address, uint64_t log_bytes = kLog) {
        return icm_request(address, log_bytes);
    }
    static Request about(uint16_t opcode, uint32_t icm) {
        return about_object(opcode, icm, MLX5_OBJ_TYPE_SW_ICM);
    }
    static Request destroy(uint32_t icm) { return about(MLX5_CMD_OP_DESTROY_GENERAL_OBJECT, icm); }
    /// ICM numbers have all 32 bits.
    uint32_t made_icm(const Request& request) {
        const Answer answer = run(request);
        EXPECT_EQ(answer.status(), FwStatus::ok);
        return answer.get(PRM(general_obj_out_cmd_hdr, obj_id));
    }
    Request key(Number pd, uint64_t address, uint64_t bytes) {
        return REQUEST(CREATE_MKEY, create_mkey)
            .set(inside(kKey, PRM(mkc, access_mode_1_0)), kSwIcm & 3)
            .set(inside(kKey, PRM(mkc, access_mode_4_2)), kSwIcm >> 2)
            .set(inside(kKey, PRM(mkc, pd)), pd)
            .set(inside(kKey, PRM(mkc, start_addr)), address)
            .set(inside(kKey, PRM(mkc, len)), bytes);
    }
};

TEST_P(IcmTest, ItIsWhereItMayBe) {
    EXPECT_EQ(status(create(kStart - kBytes)), FwStatus::bad_parameter) << "in front of it";
    EXPECT_EQ(status(create(kStart, kLog - 1)), FwStatus::bad_parameter) << "half a block";
    EXPECT_EQ(status(create(kStart + kBytes, kLog + 1)), FwStatus::bad_parameter) << "unaligned";
    EXPECT_EQ(status(create(kStart, 63)), FwStatus::bad_parameter);
    const uint32_t icm = made_icm(create(kStart + 2 * kBytes, kLog + 1));
    for (const auto& [block, log_bytes] :
         {std::pair{0, kLog + 2}, {2, kLog + 1}, {2, kLog}, {3, kLog}})
        EXPECT_EQ(status(create(kStart + block * kBytes, log_bytes)), FwStatus::resource_busy)
            << block;
    (void)made_icm(create(kStart + kBytes));
    (void)made_icm(create(kStart + 4 * kBytes, kLog + 2));
    EXPECT_EQ(status(destroy(icm)), FwStatus::ok);
    EXPECT_EQ(status(create(kStart + 3 * kBytes)), FwStatus::ok);
    // Other allocations of the device find room beside it.
    EXPECT_EQ(*transport->device().alloc_icm(core::IcmKind::steering, kBytes), kStart);
}

TEST_P(IcmTest, ItIsItsUsers) {
    const uint32_t icm = made_icm(by(mine, create(kStart)));
    EXPECT_EQ(status(by(other, destroy(icm))), FwStatus::bad_resource);
    const Answer answer = run(by(mine, about(MLX5_CMD_OP_QUERY_GENERAL_OBJECT, icm)));
    EXPECT_EQ(answer.get(inside({8 * PRM_BYTES(general_obj_out_cmd_hdr), 0},
                                PRM(sw_icm, log_sw_icm_size))),
              kLog);
    EXPECT_EQ(status(by(mine, destroy(icm))), FwStatus::ok);
    EXPECT_EQ(status(by(mine, destroy(icm))), FwStatus::bad_resource);
}

TEST_P(IcmTest, KeysAreOfPartsOfIt) {
    const uint32_t icm = made_icm(by(mine, create(kStart + 4 * kBytes, kLog + 2)));
    const Number pd = made(by(mine, REQUEST(ALLOC_PD, alloc_pd)));
    const Number others_pd = made(by(other, REQUEST(ALLOC_PD, alloc_pd)));
    const uint64_t start = kStart + 5 * kBytes;
    EXPECT_EQ(status(by(mine, key(pd, start, 3 * kBytes + 1))), FwStatus::bad_resource);
    EXPECT_EQ(status(by(mine, key(pd, start, 0))), FwStatus::bad_resource);
    EXPECT_EQ(status(by(mine, key(pd, kStart, kBytes))), FwStatus::bad_resource);
    EXPECT_EQ(status(by(other, key(others_pd, start, kBytes))), FwStatus::bad_resource);
    const Number mkey = made(by(mine, key(pd, start, 3 * kBytes)));
    EXPECT_EQ(status(by(mine, destroy(icm))), FwStatus::resource_busy);
    EXPECT_EQ(status(by(mine, REQUEST(DESTROY_MKEY, destroy_mkey).number(mkey))), FwStatus::ok);
    EXPECT_EQ(status(by(mine, destroy(icm))), FwStatus::ok);
}

TEST_P(IcmTest, ItIsAlignedAndAllZeros) {
    core::Device& device = transport->device();
    ASSERT_TRUE(device.alloc_icm(core::IcmKind::steering, kBytes));
    const auto large = device.alloc_icm(core::IcmKind::steering, 4 * kBytes);
    ASSERT_TRUE(large);
    EXPECT_EQ(*large, kStart + 4 * kBytes);
    const std::array<uint64_t, 2> ends{*large, *large + 4 * kBytes - 1};
    for (const uint64_t end : ends)
        *device.icm_area(end, 1)->at(0) = std::byte{1};
    ASSERT_TRUE(device.free_icm(*large));
    ASSERT_EQ(device.alloc_icm(core::IcmKind::steering, 4 * kBytes), large);
    for (const uint64_t end : ends)
        EXPECT_EQ(*device.icm_area(end, 1)->at(0), std::byte{0}) << end - *large;
}

INSTANTIATE_TEST_SUITE_P(Transports, IcmTest, transports(), name_of);

using IcmOfGuestTest = pci_test::Guest;

TEST_F(IcmOfGuestTest, AResetGivesItBack) {
    load_driver();
    const Request icm = Request(MLX5_CMD_OP_CREATE_GENERAL_OBJECT, PRM_BYTES(create_sw_icm_in),
                                MLX5_OBJ_TYPE_SW_ICM)
                            .set(inside(kObject, PRM(sw_icm, sw_icm_start_addr)), kStart)
                            .set(inside(kObject, PRM(sw_icm, log_sw_icm_size)), kLog);
    EXPECT_EQ(status_of(icm), FwStatus::ok);
    EXPECT_EQ(status_of(icm), FwStatus::resource_busy);
    function->reset();
    load_driver();
    EXPECT_EQ(status_of(icm), FwStatus::ok);
}

} // namespace
} // namespace prm_test
