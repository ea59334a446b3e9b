// SPDX-License-Identifier: BSD-3-Clause
// What the doctor reports about processes without the rights a port needs, and their memory.
#include "common/diagnosis/refusals.hpp"
#include "tests/unit/diagnosis/machine.hpp"
#include "tests/unit/verbs/fake_rdma.hpp"

#include <linux/capability.h>
#include <sys/stat.h>
#include <unistd.h>

namespace diagnosis::test {
namespace {

constexpr const char* kNone = "0000000000000000";
constexpr const char* kNetRaw = "0000000000002000";

TEST_F(MachineTest, NodeIsMissing) {
    add_device("mlx5_0", "0000:ca:00.0", "eth2");
    fs::remove(root / "dev/infiniband/uverbs0");
    EXPECT_THAT(look("uverbs-node"), Says(State::broken, "231:192"));
    fs::remove_all(root / "sys/class/infiniband_verbs/uverbs0");
    subject.node.clear();
    EXPECT_THAT(look("uverbs-node"), Says(State::broken, "netns exclusive"));
}

/// An attempt to open it tells more than the mode, which root may ignore.
TEST_F(MachineTest, NodeThatWasRefused) {
    add_device("mlx5_0", "0000:ca:00.0", "eth2");
    subject.open_error = EACCES;
    EXPECT_THAT(look("uverbs-node"),
                Says(State::broken, "no permission for /dev/infiniband/uverbs0"));
    subject.open_error = EPERM;
    EXPECT_THAT(look("uverbs-node"), Says(State::broken, "device cgroup"));
    subject.open_error = ENXIO;
    EXPECT_THAT(look("uverbs-node"), Says(State::broken, "a device that is gone"));
    subject.open_error = EIO;
    EXPECT_THAT(look("uverbs-node"), Says(State::broken, "cannot be opened"));
    fs::remove(root / "dev/infiniband/uverbs0");
    subject.open_error = EACCES;
    EXPECT_THAT(look("uverbs-node"), Says(State::broken, "its mode cannot be read; this process"));
}

TEST_F(MachineTest, CgroupOfRdma) {
    add_device("mlx5_0", "0000:ca:00.0", "eth2");
    write("/proc/self/cgroup", "0::/user/me");
    EXPECT_THAT(look("rdma-cgroup"), Says(State::ok, ""));
    write("/sys/fs/cgroup/user/rdma.max", "mlx5_1 hca_handle=0 hca_object=0\n"
                                          "mlx5_0 hca_handle=2 hca_object=max");
    write("/sys/fs/cgroup/user/rdma.current", "mlx5_0 hca_handle=1 hca_object=1000");
    EXPECT_THAT(look("rdma-cgroup"), Says(State::ok, ""));
    write("/sys/fs/cgroup/user/rdma.current", "mlx5_0 hca_handle=2 hca_object=1000");
    EXPECT_THAT(look("rdma-cgroup"), Says(State::broken, "2 of 2 hca_handle in use"));
    EXPECT_THAT(look("rdma-cgroup"), Says(State::broken, "hca_handle=max' > /sys/fs/cgroup/user"));
    write("/proc/self/cgroup", "7:cpu:/x\n5:rdma:/me");
    EXPECT_THAT(look("rdma-cgroup"), Says(State::ok, ""));
    write("/sys/fs/cgroup/rdma/me/rdma.max", "mlx5_0 hca_handle=0 hca_object=max");
    EXPECT_THAT(look("rdma-cgroup"), Says(State::broken, "0 of 0 hca_handle"));
}

TEST_F(MachineTest, RightToRawPackets) {
    add_process(kNone);
    EXPECT_THAT(look("capability"), Says(State::broken, "setcap cap_net_raw+ep PROGRAM"));
    add_process(kNetRaw);
    EXPECT_THAT(look("capability"), Says(State::ok, "CAP_NET_RAW"));
    for (const char* const own : {"0 100000 65536", "0 0 65536"}) {
        write("/proc/self/uid_map", own);
        EXPECT_THAT(look("capability"), Says(State::warning, "first user namespace"));
    }
}

/// Only root can give a file its capability; where that is impossible, none is found.
TEST_F(MachineTest, RightOfTheProgramsFile) {
    add_process(kNone);
    write("/program", "");
    subject.program = (root / "program").string();
    EXPECT_THAT(look("capability"),
                Says(State::broken, "setcap cap_net_raw+ep " + subject.program));
    const auto give = [this](const char* capabilities) {
        return system(fmt::format("/sbin/setcap {} {} 2>/dev/null", capabilities, subject.program)
                          .c_str()) == 0;
    };
    (void)give("cap_net_raw+p"); // for programs that raise it, which DPDK's do not
    EXPECT_THAT(look("capability"), Says(State::broken, "the program's file does not give it"));
    const bool given = give("cap_net_raw+ep");
    EXPECT_THAT(look("capability"), Says(given ? State::ok : State::broken, "cap_net_raw"));
}

/// Complaint: RLIMIT_MEMLOCK.
TEST_F(MachineTest, LockedMemory) {
    add_process(kNone, "8388608");
    EXPECT_THAT(look("memlock"), Says(State::broken, "8192 KiB; one queue with 8192 mbufs"));
    add_process("0000000000004000", "8388608");
    EXPECT_THAT(look("memlock"), Says(State::ok, "CAP_IPC_LOCK"));
    add_process(kNone, "1073741824");
    EXPECT_THAT(look("memlock"), Says(State::ok, "1048576 KiB"));
    add_process(kNone);
    EXPECT_THAT(look("memlock"), Says(State::ok, "unlimited"));
}

/// The memory that ibv_alloc_dm could use; nobody does.
TEST_F(MachineTest, MemoryOfTheDevice) {
    verbs_test::FakeRdma rdma;
    subject.api = rdma.api();
    subject.device = rdma.names.front();
    EXPECT_THAT(look("device"), Says(State::ok, ", no memory of its own"));
    rdma.attributes.max_dm_size = 131072;
    EXPECT_THAT(look("device"), Says(State::ok, ", 131072 bytes of its own, not used"));
    subject.trial = {};
}

/// Queues need pinned memory, rules do not.
TEST_F(MachineTest, NoMemoryForAnObject) {
    using verbs::Attempt;
    const auto refusal = [](Attempt attempt) {
        return refused("ibv_create", ENOMEM, attempt, "no object");
    };
    for (const Attempt attempt : {Attempt::create_queue, Attempt::create_raw_qp})
        EXPECT_THAT(refusal(attempt), Says(State::broken, "ulimit -l unlimited"));
    EXPECT_THAT(refusal(Attempt::steer), testing::Not(Says(State::broken, "ulimit")));
}

TEST_F(MachineTest, MemoryThatCannotBeRegistered) {
    const auto refusal = [&](int error) {
        return not_registered(subject.host, 5'000'000, error, "no memory region");
    };
    add_process(kNone, "8388608");
    EXPECT_THAT(refusal(ENOMEM), Says(State::broken, "too little memory, or RLIMIT_MEMLOCK"));
    write("/proc/self/status", "Name:\tx\nVmPin:\t    4000 kB");
    EXPECT_THAT(refusal(ENOMEM),
                Says(State::broken, "5000000 bytes needed, 8388608 allowed by RLIMIT_MEMLOCK, "
                                    "4096000 of these taken | no memory region: RLIMIT_MEMLOCK is "
                                    "too low | ulimit -l"));
    add_process(kNone, "0");
    EXPECT_THAT(refusal(EPERM), Says(State::broken, "0 allowed by RLIMIT_MEMLOCK"));
    EXPECT_THAT(refusal(EFAULT), Says(State::broken, "no memory region: the memory is not mapped"));
    for (const char* const capabilities : {"0000000000004000", kNone}) {
        add_process(capabilities, capabilities == kNone ? "unlimited" : "8388608");
        EXPECT_THAT(refusal(ENOMEM),
                    Says(State::broken, "RLIMIT_MEMLOCK does not limit this process | no memory "
                                        "region: too little memory"));
    }
}

TEST_F(MachineTest, Hugepages) {
    EXPECT_THAT(look("hugepages"), Says(State::warning, "no hugepages"));
    write("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512");
    write("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0");
    EXPECT_THAT(look("hugepages"), Says(State::warning, "0 free of 512"));
    write("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "512");
    EXPECT_THAT(look("hugepages"), Says(State::warning, "mount -t hugetlbfs"));
    write("/proc/mounts", "hugetlbfs /dev/hugepages hugetlbfs rw 0 0");
    EXPECT_THAT(look("hugepages"), Says(State::ok, "2048kB: 512 free of 512"));
}

TEST_F(MachineTest, NumaNodes) {
    add_device("mlx5_0", "0000:ca:00.0", "eth2");
    EXPECT_THAT(look("numa"), Says(State::ok, "all CPUs"));
    write("/sys/bus/pci/devices/0000:ca:00.0/numa_node", "1");
    write("/sys/devices/system/node/node1/cpulist", "8-15");
    write("/proc/self/status", "Cpus_allowed_list:\t0-3,15");
    EXPECT_THAT(look("numa"), Says(State::ok, "node 1"));
    write("/proc/self/status", "Cpus_allowed_list:\t0-7");
    EXPECT_THAT(look("numa"), Says(State::warning, "numactl -N 1"));
    write("/proc/self/status", "Cpus_allowed_list:\t0-15");
    write("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512");
    write("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "512");
    EXPECT_THAT(look("numa"), Says(State::warning, "of another NUMA node"));
}

} // namespace
} // namespace diagnosis::test
