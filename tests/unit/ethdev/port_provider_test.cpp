// SPDX-License-Identifier: BSD-3-Clause
// Ports whose provider refuses or lacks some calls.
#include "tests/unit/ethdev/port_fixture.hpp"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rawqp::test {
namespace {

using testing::HasSubstr;

TEST_F(PortTest, ErrorsNameTheBrokenLink) {
    EXPECT_THAT(refused("device=fake_7").what,
                HasSubstr("there is no RDMA device fake_7 (RDMA devices: fake_0): device=fake_0"));
    EXPECT_THAT(refused("device=fake_0,port=2").what, HasSubstr("has no port 2"));
    EXPECT_THAT(refused("device=fake_0,datapath=mlx5").what,
                HasSubstr("datapath=mlx5 cannot drive fake_0; not mlx5: "));
    EXPECT_THAT(refused("iface=eth7").what, HasSubstr("no network interface \"eth7\""));

    rdma.port.link_layer = IBV_LINK_LAYER_INFINIBAND;
    EXPECT_THAT(refused().what, HasSubstr("InfiniBand port"));
    rdma.port.link_layer = IBV_LINK_LAYER_ETHERNET;
    rdma.attributes.max_wq_type_rq = 0;
    EXPECT_THAT(refused().what, HasSubstr("no receive WQs"));
    rdma.attributes.max_wq_type_rq = 4096;
    rdma.names.clear();
    EXPECT_THAT(refused().what, HasSubstr("has no RDMA NIC"));
}

TEST_F(PortTest, ErrnosComeWithTheirCause) {
    const auto refusal = [this](const char* call, int error) {
        rdma.fail_always(call, error);
        const Error refusal = refused();
        rdma.fail_always(call, 0);
        EXPECT_EQ(refusal.code, error);
        return refusal.what;
    };
    EXPECT_THAT(refusal("get_device_list", ENOSYS), HasSubstr("modprobe ib_uverbs"));
    EXPECT_THAT(refusal("open_device", EACCES), HasSubstr("no permission for /dev/infiniband"));
    EXPECT_THAT(refusal("open_device", EPERM), HasSubstr("no permission for /dev/infiniband"));
    EXPECT_THAT(refusal("create_qp", EPERM), HasSubstr("CAP_NET_RAW"));
    EXPECT_THAT(refusal("create_qp", ENOSYS), HasSubstr("has no such QPs"));
    EXPECT_THAT(refusal("create_qp", EOPNOTSUPP), HasSubstr("refuses RAW_PACKET QPs"));
    EXPECT_THAT(refusal("create_qp", ENOMEM), HasSubstr("RLIMIT_MEMLOCK"));
    EXPECT_THAT(refusal("alloc_pd", ENOMEM), HasSubstr("protection domain"));
}

/// Removes CAP_NET_RAW from the effective set during its lifetime.
class WithoutNetRaw {
  public:
    WithoutNetRaw() {
        EXPECT_EQ(syscall(SYS_capget, &header_, before_), 0);
        __user_cap_data_struct fewer[_LINUX_CAPABILITY_U32S_3] = {before_[0], before_[1]};
        fewer[CAP_TO_INDEX(CAP_NET_RAW)].effective &= ~CAP_TO_MASK(CAP_NET_RAW);
        EXPECT_EQ(syscall(SYS_capset, &header_, fewer), 0);
    }
    ~WithoutNetRaw() { EXPECT_EQ(syscall(SYS_capset, &header_, before_), 0); }
    WithoutNetRaw(const WithoutNetRaw&) = delete;
    WithoutNetRaw& operator=(const WithoutNetRaw&) = delete;
    [[nodiscard]] bool had_it() const {
        return (before_[CAP_TO_INDEX(CAP_NET_RAW)].effective & CAP_TO_MASK(CAP_NET_RAW)) != 0;
    }

  private:
    __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct before_[_LINUX_CAPABILITY_U32S_3] = {};
};

TEST_F(PortTest, RawQpsAreTriedOnlyWhereThatIsInDoubt) {
    const auto qps_to_attach = [this] {
        const unsigned before = rdma.calls("create_qp");
        const Result<void> done = attach();
        EXPECT_TRUE(done) << done.error().what;
        close();
        return rdma.calls("create_qp") - before;
    };
    EXPECT_EQ(qps_to_attach(), 1u) << "the device does not say what QPs it has";
    rdma.attributes.rss_caps.supported_qpts = 1u << IBV_QPT_RAW_PACKET;
    bool allowed;
    {
        const WithoutNetRaw user;
        allowed = user.had_it();
        EXPECT_EQ(qps_to_attach(), 1u) << "the kernel may refuse";
    }
    EXPECT_EQ(qps_to_attach(), allowed ? 0u : 1u);
}

TEST_F(PortTest, AnUntriedQpSaysWhyItIsRefused) {
    const Result<void> done = attach();
    ASSERT_TRUE(done) << done.error().what;
    rdma.fail_always("create_qp", EPERM); // as in a user namespace with its own CAP_NET_RAW
    testing::internal::CaptureStderr();
    EXPECT_EQ(configure(1, 1), -EPERM);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("CAP_NET_RAW is needed"));
}

TEST_F(PortTest, ProviderWithoutFlowTags) {
    const Result<void> done = attach();
    ASSERT_TRUE(done) << done.error().what;
    rte_eth_conf conf{};
    ASSERT_EQ(rte_eth_dev_configure(id(), 1, 1, &conf), 0);
    const unsigned before = rdma.calls("create_cq_ex");
    rdma.fail_next("create_cq_ex", EOPNOTSUPP); // with all fields; it works with fewer
    EXPECT_EQ(rte_eth_rx_queue_setup(id(), 0, kDescriptors, 0, nullptr, pool.get()), 0);
    EXPECT_EQ(rdma.calls("create_cq_ex"), before + 2);
}

TEST_F(PortTest, RingsAreInDpdkMemory) {
    bring_up();
    EXPECT_EQ(rdma.ring_memory.size(), 1u + 2 * kQueues); // the first is from probe's trial
    for (const void* const ring : rdma.ring_memory) {
        EXPECT_NE(rte_mem_virt2memseg_list(ring), nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(ring) % 4096, 0u);
    }
}

TEST_F(PortTest, ProviderWithoutParentDomains) {
    rdma.fail_always("alloc_parent_domain", EOPNOTSUPP);
    bring_up();
    EXPECT_THAT(rdma.ring_memory, testing::IsEmpty());
}

TEST_F(PortTest, EveryCallFailsOnceAndNothingLeaks) {
    const auto life = [this]() -> bool {
        if (!attach()) return false;
        rte_ether_addr mac{{2, 0, 0, 0, 0, 7}};
        bool good = configure(kQueues, kQueues) == 0 && rte_eth_dev_start(id()) == 0 &&
                    rte_eth_dev_mac_addr_add(id(), &mac, 0) == 0 &&
                    rte_eth_promiscuous_enable(id()) == 0 && rte_eth_dev_stop(id()) == 0 &&
                    configure(1, 1) == 0 && rte_eth_dev_start(id()) == 0;
        close();
        return good;
    };
    std::map<std::string, int> unnoticed;
    int nth = 1;
    for (;; ++nth) {
        rdma.fail_call(nth, ENOMEM);
        const bool good = life();
        EXPECT_EQ(rdma.alive(), "") << "after call " << nth << ", " << rdma.failed();
        EXPECT_EQ(mbufs_in_use(), 0u) << "after call " << nth;
        if (rdma.failed().empty()) {
            EXPECT_TRUE(good);
            break;
        }
        if (good) ++unnoticed[rdma.failed()];
        rdma.fail_call(0, 0);
    }
    EXPECT_GT(nth, 50); // the scenario does get far
    RecordProperty("faults:call", nth - 1);

    // These may fail without harm: the parent domain (rings then are in the provider's memory),
    // reading the link state, a state change that is tried another way, a mempool that is
    // registered again when a queue needs it, and rules that are only tried.
    for (const char* name :
         {"alloc_parent_domain", "query_port", "modify_wq", "modify_qp", "reg_mr", "create_flow"})
        unnoticed.erase(name);
    for (const auto& [name, times] : unnoticed)
        EXPECT_EQ(times, 0) << "failures of " << name << " went unnoticed";
}

/// A WQ or QP that cannot be reset keeps its mbufs, because the device may still use them, until it
/// is reset or destroyed.
TEST_F(PortTest, QueuesThatCannotBeReset) {
    bring_up();
    const unsigned all = mbufs_in_use();
    for (const char* const call : {"modify_wq", "modify_qp"}) {
        rdma.fail_always(call, EIO);
        ASSERT_EQ(rte_eth_dev_stop(id()), 0);
        EXPECT_EQ(mbufs_in_use(), call == std::string("modify_wq") ? all : 0) << call;
        EXPECT_EQ(rte_eth_dev_start(id()), -EIO) << call;
        rdma.fail_always(call, 0);
        ASSERT_EQ(rte_eth_dev_start(id()), 0) << call;
        EXPECT_EQ(mbufs_in_use(), all) << call;
    }
    rdma.fail_always("modify_wq", EIO);
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    EXPECT_EQ(mbufs_in_use(), all);
    close();
    EXPECT_EQ(mbufs_in_use(), 0u);
}

} // namespace
} // namespace rawqp::test
