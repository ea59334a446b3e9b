// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/driver/devargs.hpp"

#include "drivers/net/rawqp/ethdev/driver/formats.hpp"

#include <cerrno>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rawqp {
namespace {

using testing::HasSubstr;

TEST(Devargs, DeviceAlone) {
    const Devargs args = parse_devargs("device=mlx5_0").value();
    EXPECT_EQ(args.device, "mlx5_0");
    EXPECT_EQ(args.port, 0);
    EXPECT_EQ(args.iface, "");
    EXPECT_EQ(args.datapath, "auto");
}

TEST(Devargs, Everything) {
    const Devargs args = parse_devargs("datapath=verbs,device=mlx5_bond_0,port=255").value();
    EXPECT_EQ(args.device, "mlx5_bond_0");
    EXPECT_EQ(args.port, 255);
    EXPECT_EQ(args.datapath, "verbs");
    EXPECT_EQ(parse_devargs("iface=ens1f0np0,datapath=mlx5").value().iface, "ens1f0np0");
}

TEST(Devargs, FlowEngines) {
    EXPECT_EQ(parse_devargs("device=a").value().flow_engine, FlowEngine::automatic);
    EXPECT_EQ(parse_devargs("device=a,flow_engine=verbs").value().flow_engine, FlowEngine::verbs);
    EXPECT_FALSE(parse_devargs("device=a").value().port_guard);
    EXPECT_TRUE(parse_devargs("device=a,port_guard=1").value().port_guard);
    EXPECT_EQ(parse_devargs("device=a,flow_engine=mlx5").value().flow_engine, FlowEngine::mlx5);
}

TEST(Devargs, LimitsAreTaken) {
    const Devargs least = parse_devargs("device=a,port=1,mprq_log_stride_num=1,"
                                        "mprq_log_stride_size=1,mprq_max_memcpy_len=0,"
                                        "lro_timeout_usec=0,txq_inline=0")
                              .value();
    EXPECT_EQ(least.striding.copy_bytes, 0);
    EXPECT_EQ(least.lro_period, 0u);
    const Devargs most = parse_devargs("device=a,port=255,mprq_log_stride_num=13,"
                                       "mprq_log_stride_size=15,mprq_max_memcpy_len=65535,"
                                       "lro_timeout_usec=65535")
                             .value();
    EXPECT_EQ(most.striding.log_strides, 13);
    EXPECT_EQ(most.striding.log_stride_bytes, 15);
    EXPECT_EQ(most.striding.copy_bytes, UINT16_MAX);
    EXPECT_EQ(most.lro_period, UINT16_MAX);
}

TEST(Devargs, DatapathIsAnyRingFormat) {
    for (const RingFormat* format : ring_formats())
        EXPECT_EQ(parse_devargs(("device=a,datapath=" + std::string(format->name)).c_str())
                      .value()
                      .datapath,
                  format->name);
}

struct Refusal {
    const char* args;
    const char* says;
};
class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, NamesTheArgument) {
    const Result<Devargs> args = parse_devargs(GetParam().args);
    ASSERT_FALSE(args) << "accepted: " << GetParam().args;
    EXPECT_EQ(args.error().code, EINVAL);
    EXPECT_THAT(args.error().what, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Devargs, Refused,
    testing::Values(
        Refusal{"", "neither of device= and iface="}, Refusal{nullptr, "neither of device="},
        Refusal{"datapath=auto", "neither of device="},
        Refusal{"device=mlx5_0,iface=ens1", "only one of device="},
        Refusal{"device=mlx5_0,port=0", "port=0"}, Refusal{"device=mlx5_0,port=256", "port=256"},
        Refusal{"device=mlx5_0,port=-1", "port=-1"}, Refusal{"device=mlx5_0,port=1x", "port=1x"},
        Refusal{"device=mlx5_0,port= 1", "port="}, Refusal{"device=mlx5_0,port=", "\"port\""},
        Refusal{"device=", "\"device\" has no value"}, Refusal{"device", "\"device\" has no value"},
        Refusal{"iface=ens1,port=1", "port= goes with device="},
        Refusal{"device=a,device=b", "more than once"},
        Refusal{"device=mlx5_0,rx_timestamp=ns", "rx_timestamp=ns: neither raw nor real"},
        Refusal{"device=mlx5_0,mprq_en=2", "mprq_en=2: neither 0 nor 1"},
        Refusal{"device=mlx5_0,mprq_log_stride_num=14", "mprq_log_stride_num=14: not a number"},
        Refusal{"device=mlx5_0,mprq_log_stride_size=0", "mprq_log_stride_size=0: not a number"},
        Refusal{"device=mlx5_0,mprq_max_memcpy_len=9x", "mprq_max_memcpy_len=9x: not a number"},
        Refusal{"device=mlx5_0,datapath=fast", "datapath=fast: none of auto, mlx5 and verbs"},
        Refusal{"device=mlx5_0,flow_engine=dr", "flow_engine=dr: none of auto, verbs and mlx5"},
        Refusal{"device=mlx5_0,prot=1", "unknown device argument \"prot\""},
        Refusal{"device=mlx5_0,=1", "unknown device argument \"\""},
        Refusal{"=", "device argument \"\" has no value"}));

TEST(Devargs, MoreArgumentsThanDpdkParses) {
    std::string many = "device=mlx5_0";
    for (int i = 0; i < 40; ++i)
        many += ",a=1";
    EXPECT_THAT(parse_devargs(many.c_str()).error().what, HasSubstr("malformed device arguments"));
}

} // namespace
} // namespace rawqp
