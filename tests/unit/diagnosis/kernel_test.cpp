// SPDX-License-Identifier: BSD-3-Clause
// What the doctor reports when the kernel has not set up a NIC as it could.
#include "tests/unit/diagnosis/machine.hpp"

namespace diagnosis::test {
namespace {

TEST_F(MachineTest, AllInOrder) {
    add_device("mlx5_0", "0000:ca:00.0", "eth2");
    EXPECT_THAT(look("nic"), Says(State::ok, "0000:ca:00.0, driver mlx5_core"));
    EXPECT_THAT(look("uverbs-module"), Says(State::ok, "6"));
    EXPECT_THAT(look("rdma-device"), Says(State::ok, "mlx5_0"));
    EXPECT_THAT(look("netdev"), Says(State::ok, "eth2"));
    EXPECT_THAT(look("bond"), Says(State::ok, "no bond"));
    EXPECT_THAT(look("uverbs-node"), Says(State::ok, "/dev/infiniband/uverbs0"));
}

/// Complaint: there is no way to tell "no NIC" from "no driver".
TEST_F(MachineTest, NoNic) {
    EXPECT_THAT(look("nic"), Says(State::broken, "Trying it without a NIC"));
}

TEST_F(MachineTest, NicWithoutDriver) {
    add_function("0000:ca:00.0", "");
    EXPECT_THAT(look("nic"), Says(State::broken, "modprobe mlx5_core"));
    write("/sys/bus/pci/drivers/mlx5_core/uevent", "");
    EXPECT_THAT(look("nic"), Says(State::broken, "echo 0000:ca:00.0 > /sys/bus/pci/drivers/mlx5"));
    write("/sys/bus/pci/devices/0000:ca:00.0/driver_override", "vfio-pci");
    EXPECT_THAT(look("nic"), Says(State::broken, "it is kept for vfio-pci (driver_override)"));
    EXPECT_THAT(look("nic"), Says(State::broken, "echo 0000:ca:00.0 > /sys/bus/pci/drivers_probe"));
    write("/sys/bus/pci/devices/0000:ca:00.0/driver_override", "(null)");
    EXPECT_THAT(look("nic"), Says(State::broken, "no kernel driver has 0000:ca:00.0 | echo 0000"));
}

/// Complaint: the NIC is bound to vfio by mistake.
TEST_F(MachineTest, NicBoundToVfio) {
    add_function("0000:ca:00.0", "mlx5_core");
    add_function("0000:ca:00.1", "vfio-pci");
    EXPECT_THAT(look("nic"), Says(State::broken, "0000:ca:00.1 is bound to vfio-pci"));
    EXPECT_THAT(look("nic"), Says(State::broken, "dpdk-devbind.py --bind=mlx5_core 0000:ca:00.1"));
    write("/sys/class/infiniband_verbs/abi_version", "6");
    const std::vector<Finding> findings = examine(subject);
    EXPECT_EQ(findings[0].verdict.state, State::broken);
    for (const Finding& finding : findings) {
        if (finding.id == "rdma-device" || finding.id == "device") {
            EXPECT_EQ(finding.verdict.state, State::skipped) << finding.id;
            EXPECT_EQ(finding.verdict.cause, "nic") << finding.id;
        }
    }
}

/// Complaint: "no Verbs device matches".
TEST_F(MachineTest, ModulesThatAreNotLoaded) {
    add_function("0000:ca:00.0", "mlx5_core");
    EXPECT_THAT(look("nic"), Says(State::ok, "0000:ca:00.0 (mlx5_core)"));
    EXPECT_THAT(look("uverbs-module"), Says(State::broken, "modprobe ib_uverbs"));
    EXPECT_THAT(look("rdma-device"), Says(State::broken, "modprobe mlx5_ib"));
    write("/sys/module/mlx5_ib/refcnt", "0");
    EXPECT_THAT(look("rdma-device"), Says(State::broken, "another network namespace"));
}

/// Microsoft's virtual functions have modules of their own.
TEST_F(MachineTest, ModulesOfAnotherVendor) {
    add_function("7870:00:00.0", "", "0x1414");
    EXPECT_THAT(look("nic"), Says(State::broken, "modprobe mana"));
    write("/sys/bus/pci/drivers/mana/uevent", "");
    EXPECT_THAT(look("nic"), Says(State::broken, "echo 7870:00:00.0 > /sys/bus/pci/drivers/mana/"));
    add_function("7870:00:00.0", "vfio-pci", "0x1414");
    EXPECT_THAT(look("nic"), Says(State::broken, "dpdk-devbind.py --bind=mana 7870:00:00.0"));
    EXPECT_THAT(look("rdma-device"), Says(State::broken, "modprobe mana_ib"));
    add_function("0000:ca:00.0", "mlx5_core");
    write("/sys/module/mana_ib/refcnt", "0");
    EXPECT_THAT(look("rdma-device"), Says(State::broken, "modprobe mlx5_ib"));
    write("/sys/class/net/eth3/mtu", "1500");
    link("/sys/class/net/eth3/device", "/sys/bus/pci/devices/7870:00:00.0");
    subject.iface = "eth3";
    EXPECT_THAT(look("rdma-device"), Says(State::broken, "modprobe mana_ib"));
}

TEST_F(MachineTest, InAContainer) {
    write("/run/.containerenv", "");
    EXPECT_THAT(look("uverbs-module"), Says(State::broken, "on the host: modprobe ib_uverbs"));
    add_device("mlx5_0", "0000:ca:00.0", "eth2");
    fs::remove(root / "dev/infiniband/uverbs0");
    EXPECT_THAT(look("uverbs-node"),
                Says(State::broken, "podman run --device=/dev/infiniband/uverbs0"));
}

TEST_F(MachineTest, AnotherName) {
    add_device("mlx5_0", "0000:ca:00.0", "eth2");
    subject.device = "mlx5_4";
    EXPECT_THAT(look("rdma-device"),
                Says(State::broken,
                     "RDMA devices: mlx5_0 | there is no RDMA device mlx5_4 | device=mlx5_0"));
    subject.device.clear();
    EXPECT_THAT(look("rdma-device"), Says(State::ok, "mlx5_0"));
    EXPECT_EQ(subject.device, "mlx5_0");
}

TEST_F(MachineTest, InterfacesByName) {
    add_device("mlx5_1", "0000:ca:00.1", "eth3", "uverbs1");
    subject.device.clear();
    subject.iface = "eth3";
    EXPECT_THAT(look("rdma-device"), Says(State::ok, "mlx5_1"));
    EXPECT_EQ(subject.device, "mlx5_1");
    write("/sys/class/net/eth0/mtu", "1500");
    subject.device.clear();
    subject.iface = "eth0";
    EXPECT_THAT(look("rdma-device"), Says(State::broken, "eth0 has no RDMA device"));
    subject.iface = "eth9";
    EXPECT_THAT(look("rdma-device"), Says(State::broken, "ip link set DEV netns"));
}

/// Complaint: containers; the interface stayed in the host's namespace.
TEST_F(MachineTest, InterfaceElsewhere) {
    add_device("mlx5_0", "0000:ca:00.0", "eth2");
    fs::remove_all(root / "sys/class/net/eth2");
    EXPECT_THAT(look("netdev"), Says(State::warning, "in another network namespace"));
    EXPECT_THAT(look("bond"), Says(State::unknown, ""));
}

/// Complaint: bond and LAG.
TEST_F(MachineTest, Bonds) {
    add_device("mlx5_bond_0", "0000:ca:00.0", "eth2");
    add_function("0000:ca:00.1", "mlx5_core");
    write("/sys/class/net/bond0/bonding/slaves", "eth2 eth3");
    link("/sys/class/net/eth2/master", "/sys/class/net/bond0");
    write("/sys/class/net/eth3/mtu", "1500");
    link("/sys/class/net/eth3/master", "/sys/class/net/bond0");
    ASSERT_THAT(look("netdev"), Says(State::ok, "eth2"));
    EXPECT_THAT(look("bond"), Says(State::warning, "eth2 belongs to bond0"));
    subject.device.clear();
    subject.iface = "eth3";
    EXPECT_THAT(look("rdma-device"), Says(State::broken, "use iface=bond0"));
    subject.iface = "bond0";
    EXPECT_THAT(look("rdma-device"), Says(State::broken, "bond them with DPDK's net_bonding"));
    write("/sys/class/infiniband/mlx5_bond_0/ports/1/gid_attrs/ndevs/0", "bond0");
    EXPECT_THAT(look("rdma-device"), Says(State::ok, "mlx5_bond_0"));
}

TEST_F(MachineTest, ABridgeIsNoBond) {
    add_device("mlx5_0", "0000:ca:00.0", "eth2");
    link("/sys/class/net/eth2/master", "/sys/class/net/br0");
    ASSERT_THAT(look("netdev"), Says(State::ok, "eth2"));
    EXPECT_THAT(look("bond"), Says(State::ok, "eth2 belongs to br0"));
}

TEST_F(MachineTest, KindsOfFunctions) {
    add_device("mlx5_2", "0000:ca:00.2", "eth4");
    link("/sys/bus/pci/devices/0000:ca:00.2/physfn", "/sys/bus/pci/devices/0000:ca:00.0");
    EXPECT_THAT(look("nic"), Says(State::ok, "virtual function of 0000:ca:00.0"));
    link("/sys/class/infiniband/mlx5_3/device", "/sys/bus/auxiliary/devices/mlx5_core.sf.4");
    subject.device = "mlx5_3";
    EXPECT_THAT(look("nic"), Says(State::ok, "a scalable function (SF)"));
    write("/sys/class/infiniband/rxe0/node_type", "1: CA");
    subject.device = "rxe0";
    EXPECT_THAT(look("nic"), Says(State::ok, "made in software"));
}

} // namespace
} // namespace diagnosis::test
