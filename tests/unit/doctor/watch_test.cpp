// SPDX-License-Identifier: BSD-3-Clause
// How the doctor explains counters that grow.
#include "app/rawqp-doctor/watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace doctor {
namespace {

using diagnosis::Finding;
using diagnosis::State;
using testing::HasSubstr;

/// The only finding after a counter of the device has grown by 7.
Finding after_growth_of(const std::string& counter) {
    const Counters before{{{counter, 5}, {"rx_packets_phy", 1}}, {}};
    const Counters after{{{counter, 12}, {"rx_packets_phy", 9}}, {}};
    const std::vector<Finding> findings = drops(before, after, 2);
    EXPECT_EQ(findings.size(), 1u);
    return findings.front();
}

TEST(Watch, NothingIsLost) {
    const Finding finding = after_growth_of("rx_bytes_phy");
    EXPECT_EQ(finding.id, "drops");
    EXPECT_EQ(finding.verdict.state, State::ok);
}

/// Complaint: drops that no counter explains.
TEST(Watch, CausesByCounter) {
    const std::pair<const char*, const char*> causes[] = {
        {"out_of_buffer", "drops-no-descriptors"},
        {"rx_steer_missed_packets", "drops-no-match"},
        {"rx_discards_phy", "drops-nic-buffer"},
        {"rx_prio3_discards", "drops-nic-buffer"},
        {"rx_crc_errors_phy", "drops-wire-errors"},
        {"rx_in_range_len_errors_phy", "drops-wire-errors"},
        {"rx_oversize_pkts_phy", "drops-wire-errors"},
        {"tx_discards_phy", "drops-sending"},
        {"rx_out_of_buffer", "drops-kernel"},
        {"rx_prio0_pause", "pause-received"},
        {"rx_pause_ctrl_phy", "pause-received"},
        {"tx_pause_ctrl_phy", "pause-sent"},
    };
    for (const auto& [counter, id] : causes) {
        const Finding finding = after_growth_of(counter);
        EXPECT_EQ(finding.id, id) << counter;
        EXPECT_EQ(finding.verdict.evidence, std::string(counter) + " +7 in 2 s");
        EXPECT_FALSE(finding.verdict.cause.empty());
        EXPECT_FALSE(finding.verdict.remedy.empty());
    }
    EXPECT_EQ(after_growth_of("out_of_buffer").verdict.state, State::broken);
    EXPECT_EQ(after_growth_of("rx_prio0_pause").verdict.state, State::warning);
}

TEST(Watch, QueuesOfPrograms) {
    const DpdkPort before{"net_rawqp0 (pid 7)",
                          {{"rx_q0_packets", 10},
                           {"rx_q1_packets", 10},
                           {"rx_q0_errors", 0},
                           {"rx_q1_errors", 3},
                           {"rx_mbuf_allocation_errors", 1}}};
    DpdkPort after = before;
    after.xstats["rx_q0_packets"] = 20;
    const auto look = [&](uint64_t out_of_buffer) {
        return drops({{{"out_of_buffer", 0}}, {before}},
                     {{{"out_of_buffer", out_of_buffer}}, {after}}, 1);
    };
    const Finding missed = look(4).front();
    EXPECT_EQ(missed.id, "drops-no-descriptors");
    EXPECT_THAT(missed.verdict.evidence,
                HasSubstr("Rx queues of net_rawqp0 (pid 7) that took nothing: 1"));
    std::swap(after.xstats["rx_q0_packets"], after.xstats["rx_q1_packets"]);
    after.xstats["rx_q1_packets"] = 20;
    EXPECT_THAT(look(4).front().verdict.evidence, HasSubstr("took nothing: 0 in 1 s"));
    after.xstats["rx_mbuf_allocation_errors"] = 9;
    EXPECT_EQ(look(0).front().id, "drops-no-mbufs");
    EXPECT_THAT(look(0).front().verdict.evidence,
                HasSubstr("net_rawqp0 (pid 7): rx_mbuf_allocation_errors +8"));
    after.xstats["rx_q1_errors"] = 4;
    EXPECT_EQ(look(0).back().id, "drops-queue-errors");
    EXPECT_THAT(look(0).back().verdict.evidence, HasSubstr("rx_q1_errors +1"));
}

/// Where each queue has its own counter, that of the RDMA port does not move.
TEST(Watch, QueuesThatTheDeviceCountsApart) {
    const DpdkPort before{"net_rawqp0 (pid 7)",
                          {{"rx_q0_missed_errors", 5}, {"rx_q13_missed_errors", 5}}};
    DpdkPort after = before;
    after.xstats["rx_q13_missed_errors"] = 9;
    const std::vector<Finding> findings = drops({{}, {before}}, {{}, {after}}, 1);
    ASSERT_EQ(findings.size(), 1u) << "a missed packet is no error of the queue";
    EXPECT_EQ(findings[0].id, "drops-no-descriptors");
    EXPECT_EQ(findings[0].verdict.evidence, "net_rawqp0 (pid 7): rx_q13_missed_errors +4 in 1 s");
}

/// No counter of the device knows what a send queue of the driver has dropped.
TEST(Watch, PacketsThatAProgramCouldNotSend) {
    const DpdkPort before{"net_rawqp0 (pid 7)", {{"tx_errors", 5}}};
    DpdkPort after = before;
    after.xstats["tx_errors"] = 9;
    const std::vector<Finding> findings = drops({{}, {before}}, {{}, {after}}, 1);
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].id, "drops-sending");
    EXPECT_EQ(findings[0].verdict.evidence, "net_rawqp0 (pid 7): tx_errors +4 in 1 s");
}

TEST(Watch, ProgramsThatCameAndWent) {
    const DpdkPort port{"net_rawqp0 (pid 7)", {{"rx_mbuf_allocation_errors", 5}}};
    EXPECT_EQ(drops({{}, {}}, {{}, {port}}, 1).front().id, "drops");
    EXPECT_EQ(drops({{}, {port}}, {{}, {}}, 1).front().id, "drops");
    // A counter that was reset meanwhile.
    EXPECT_EQ(drops({{{"out_of_buffer", 9}}, {}}, {{{"out_of_buffer", 1}}, {}}, 1).front().id,
              "drops");
}

} // namespace
} // namespace doctor
