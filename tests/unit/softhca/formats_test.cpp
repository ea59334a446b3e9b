// SPDX-License-Identifier: BSD-3-Clause
// Our ring formats compared, field by field, with those that rdma-core publishes for programs.
#include "common/mlx5/formats.hpp"

#include <cstddef>
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

namespace {

#define EXPECT_FIELD(ours, our_field, theirs, their_field)                                         \
    EXPECT_EQ(offsetof(ours, our_field), offsetof(theirs, their_field))

TEST(Formats, SendSegments) {
    EXPECT_EQ(sizeof(mlx5::WqeCtrlSeg), sizeof(mlx5_wqe_ctrl_seg));
    EXPECT_FIELD(mlx5::WqeCtrlSeg, opmod_idx_opcode, mlx5_wqe_ctrl_seg, opmod_idx_opcode);
    EXPECT_FIELD(mlx5::WqeCtrlSeg, qpn_ds, mlx5_wqe_ctrl_seg, qpn_ds);
    EXPECT_FIELD(mlx5::WqeCtrlSeg, fm_ce_se, mlx5_wqe_ctrl_seg, fm_ce_se);
    EXPECT_FIELD(mlx5::WqeCtrlSeg, imm, mlx5_wqe_ctrl_seg, imm);
    EXPECT_FIELD(mlx5::WqeEthSeg, cs_flags, mlx5_wqe_eth_seg, cs_flags);
    EXPECT_FIELD(mlx5::WqeEthSeg, mss, mlx5_wqe_eth_seg, mss);
    EXPECT_FIELD(mlx5::WqeEthSeg, inline_size, mlx5_wqe_eth_seg, inline_hdr_sz);
    EXPECT_FIELD(mlx5::WqeEthSeg, inline_header, mlx5_wqe_eth_seg, inline_hdr_start);
    EXPECT_EQ(sizeof(mlx5::WqeDataSeg), sizeof(mlx5_wqe_data_seg));
    EXPECT_FIELD(mlx5::WqeDataSeg, lkey, mlx5_wqe_data_seg, lkey);
    EXPECT_FIELD(mlx5::WqeDataSeg, addr, mlx5_wqe_data_seg, addr);
    EXPECT_EQ(sizeof(mlx5::WqeNextSeg), sizeof(mlx5_wqe_srq_next_seg));
    EXPECT_EQ(mlx5::kInvalidLkey, static_cast<uint32_t>(MLX5_INVALID_LKEY));
    EXPECT_EQ(mlx5::kWqebb, static_cast<uint32_t>(MLX5_SEND_WQE_BB));
}

TEST(Formats, SendConstants) {
    EXPECT_EQ(static_cast<int>(mlx5::WqeOpcode::send), MLX5_OPCODE_SEND);
    EXPECT_EQ(static_cast<int>(mlx5::WqeOpcode::tso), MLX5_OPCODE_TSO);
    EXPECT_EQ(static_cast<int>(mlx5::WqeOpcode::nop), MLX5_OPCODE_NOP);
    EXPECT_EQ(mlx5::kCqUpdate, MLX5_WQE_CTRL_CQ_UPDATE);
    EXPECT_EQ(mlx5::kCsL3, MLX5_ETH_WQE_L3_CSUM);
    EXPECT_EQ(mlx5::kCsL4, MLX5_ETH_WQE_L4_CSUM);
    EXPECT_EQ(mlx5::kInlineFlag, static_cast<uint32_t>(MLX5_INLINE_SEG));
}

TEST(Formats, Cqe) {
    EXPECT_EQ(sizeof(mlx5::Cqe), sizeof(mlx5_cqe64));
    EXPECT_FIELD(mlx5::Cqe, wqe_id, mlx5_cqe64, wqe_id);
    EXPECT_FIELD(mlx5::Cqe, flags_rqpn, mlx5_cqe64, flags_rqpn);
    EXPECT_FIELD(mlx5::Cqe, hds_ip_ext, mlx5_cqe64, hds_ip_ext);
    EXPECT_FIELD(mlx5::Cqe, l4_l3_type, mlx5_cqe64, l4_hdr_type_etc);
    EXPECT_FIELD(mlx5::Cqe, vlan_info, mlx5_cqe64, vlan_info);
    EXPECT_FIELD(mlx5::Cqe, srqn_uidx, mlx5_cqe64, srqn_uidx);
    EXPECT_FIELD(mlx5::Cqe, byte_count, mlx5_cqe64, byte_cnt);
    EXPECT_FIELD(mlx5::Cqe, timestamp, mlx5_cqe64, timestamp);
    EXPECT_FIELD(mlx5::Cqe, sop_drop_qpn, mlx5_cqe64, sop_drop_qpn);
    EXPECT_FIELD(mlx5::Cqe, wqe_counter, mlx5_cqe64, wqe_counter);
    EXPECT_FIELD(mlx5::Cqe, op_own, mlx5_cqe64, op_own);
    EXPECT_EQ(mlx5::kL3Ok, MLX5_CQE_L3_OK);
    EXPECT_EQ(mlx5::kL4Ok, MLX5_CQE_L4_OK);
    EXPECT_EQ(static_cast<int>(mlx5::CqeL3::ipv4), MLX5_CQE_L3_HDR_TYPE_IPV4);
    EXPECT_EQ(static_cast<int>(mlx5::CqeL3::ipv6), MLX5_CQE_L3_HDR_TYPE_IPV6);
}

TEST(Formats, ErrorCqe) {
    EXPECT_EQ(sizeof(mlx5::ErrorCqe), sizeof(mlx5_err_cqe));
    EXPECT_FIELD(mlx5::ErrorCqe, srqn_uidx, mlx5_err_cqe, srqn);
    EXPECT_FIELD(mlx5::ErrorCqe, vendor_syndrome, mlx5_err_cqe, vendor_err_synd);
    EXPECT_FIELD(mlx5::ErrorCqe, syndrome, mlx5_err_cqe, syndrome);
    EXPECT_FIELD(mlx5::ErrorCqe, wqe_opcode_qpn, mlx5_err_cqe, s_wqe_opcode_qpn);
    EXPECT_FIELD(mlx5::ErrorCqe, wqe_counter, mlx5_err_cqe, wqe_counter);
    EXPECT_FIELD(mlx5::ErrorCqe, op_own, mlx5_err_cqe, op_own);
    EXPECT_EQ(static_cast<int>(mlx5::CqeSyndrome::flushed), MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
    EXPECT_EQ(static_cast<int>(mlx5::CqeSyndrome::local_protection),
              MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
    EXPECT_EQ(static_cast<int>(mlx5::CqeSyndrome::local_length),
              MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
    EXPECT_EQ(static_cast<int>(mlx5::CqeSyndrome::local_qp_operation),
              MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
}

TEST(Formats, CqeOpcodes) {
    EXPECT_EQ(static_cast<int>(mlx5::CqeOpcode::req), MLX5_CQE_REQ);
    EXPECT_EQ(static_cast<int>(mlx5::CqeOpcode::resp_send), MLX5_CQE_RESP_SEND);
    EXPECT_EQ(static_cast<int>(mlx5::CqeOpcode::req_error), MLX5_CQE_REQ_ERR);
    EXPECT_EQ(static_cast<int>(mlx5::CqeOpcode::resp_error), MLX5_CQE_RESP_ERR);
    EXPECT_EQ(static_cast<int>(mlx5::CqeOpcode::invalid), MLX5_CQE_INVALID);
}

} // namespace
