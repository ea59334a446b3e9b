// SPDX-License-Identifier: BSD-3-Clause
// What the doctor reports about the driver's file, its arguments, and other processes.
#include "tests/unit/diagnosis/machine.hpp"

#include <sys/stat.h>

namespace diagnosis::test {
namespace {

constexpr const char* kFolder = "/usr/lib/here/dpdk/pmds-23.0";
constexpr const char* kPlugin = "/usr/lib/here/dpdk/pmds-23.0/librte_net_rawqp.so";

/// The part of the driver's file that the doctor looks at.
std::string driver_file(const char* abi) {
    std::string bytes = fmt::format("ELF librte_eal.so.{}", abi);
    bytes += '\0';
    bytes += "PMD_INFO_STRING= {\"name\": \"net_rawqp\", \"params\": \"device=<string> "
             "port=<1..255> iface=<string> datapath=<auto|mlx5|verbs> txq_mpw=<0|1>\", "
             "\"pci_ids\": []}";
    bytes += '\0';
    return bytes + "more=<0|1>";
}

TEST_F(MachineTest, DriverThatIsNotInstalled) {
    subject.plugin_folder = kFolder;
    EXPECT_THAT(look("plugin"), Says(State::warning, "meson install -C build"));
    subject.plugin = "/nonexistent/librte_net_rawqp.so";
    EXPECT_THAT(look("plugin"), Says(State::broken, "no driver for EAL to load"));
}

TEST_F(MachineTest, DriverOfAnotherRelease) {
    subject.plugin_folder = kFolder;
    write(kPlugin, driver_file("23"));
    EXPECT_THAT(look("plugin"), Says(State::broken, "wants librte_eal.so.23; installed: none"));
    write("/usr/lib/here/librte_eal.so.25", "");
    write("/usr/lib/here/librte_eal.so.25.1", "");
    EXPECT_THAT(look("plugin"), Says(State::broken, "wants librte_eal.so.23; installed: 25"));
    write("/usr/lib/here/librte_eal.so.23", "");
    EXPECT_THAT(look("plugin"), Says(State::ok, "DPDK ABI 23"));
}

TEST_F(MachineTest, DriverBelowAWorldWritableFolder) {
    write("/usr/lib/librte_eal.so.23", "");
    subject.plugin = "/home/me/build/librte_net_rawqp.so";
    write(subject.plugin, driver_file("23"));
    EXPECT_THAT(look("plugin"), Says(State::ok, subject.plugin));
    ASSERT_EQ(chmod((root / "home/me").c_str(), 0777), 0);
    EXPECT_THAT(look("plugin"), Says(State::broken, "every user may write to /home/me"));
    EXPECT_THAT(look("plugin"), Says(State::broken, "LD_LIBRARY_PATH=/home/me/build"));
}

TEST_F(MachineTest, DriverByAPathFromTheCurrentFolder) {
    subject.host = Host();
    subject.plugin_folder = root.string() + kFolder;
    write("/usr/lib/here/librte_eal.so.23", "");
    subject.plugin = "build/librte_net_rawqp.so";
    write("/home/me/build/librte_net_rawqp.so", driver_file("23"));
    ASSERT_EQ(chmod((root / "home/me").c_str(), 0777), 0);
    const fs::path before = fs::current_path();
    fs::current_path(root / "home/me");
    EXPECT_THAT(look("plugin"),
                Says(State::broken, "every user may write to " + fs::current_path().string()));
    fs::current_path(before);
}

/// As the driver's guide advises below a world-writable folder.
TEST_F(MachineTest, DriverThatTheLinkerFinds) {
    write("/usr/lib/librte_eal.so.23", "");
    write("/home/me/build/librte_net_rawqp.so", driver_file("23"));
    ASSERT_EQ(chmod((root / "home/me").c_str(), 0777), 0);
    subject.plugin = "librte_net_rawqp.so";
    EXPECT_THAT(look("plugin"), Says(State::broken, "there is no driver for EAL to load"));
    setenv("LD_LIBRARY_PATH", "/opt/lib:/home/me/build", 1);
    EXPECT_THAT(look("plugin"), Says(State::ok, "/home/me/build/librte_net_rawqp.so"));
    subject.devargs = "device=mlx5_0,txq_mpw=2";
    EXPECT_THAT(look("devargs"), Says(State::broken, "txq_mpw=2: neither 0 nor 1"));
    unsetenv("LD_LIBRARY_PATH");
}

/// Complaint: device arguments are a dark art.
TEST_F(MachineTest, DeviceArguments) {
    subject.plugin = kPlugin;
    EXPECT_THAT(look("devargs"), Says(State::ok, "none were given"));
    subject.devargs = "device=mlx5_0";
    EXPECT_THAT(look("devargs"), Says(State::unknown, "does not tell its arguments"));
    write(kPlugin, driver_file("23"));
    const std::pair<const char*, const char*> wrong[] = {
        {"device=mlx5_0,txq_mpq=1", "unknown device argument \"txq_mpq\": known are"},
        {"device=mlx5_0,more=1", "unknown device argument \"more\""},
        {"device=mlx5_0,txq_mpw=2", "txq_mpw=2: neither 0 nor 1"},
        {"device=mlx5_0,datapath=fast", "none of auto, mlx5 and verbs"},
        {"device=mlx5_0,port=0", "not a number from 1 to 255"},
        {"device=mlx5_0,port=1x", "not a number from 1 to 255"},
        {"device=", "\"device\" has no value"},
        {"net_rawqp0,txq_mpw", "\"txq_mpw\" has no value"},
        {"device=a,device=b", "more than once"},
        {"txq_mpw=0", "one of device= and iface= is needed"},
        {"device=a,iface=b", "one of device= and iface= is needed"},
        {"iface=eth2,port=1", "port= goes with device="},
    };
    for (const auto& [devargs, words] : wrong) {
        subject.devargs = devargs;
        EXPECT_THAT(look("devargs"), Says(State::broken, words)) << devargs;
    }
    for (const char* devargs : {"device=mlx5_0", "iface=eth2,datapath=verbs,txq_mpw=0",
                                "net_rawqp0,device=mlx5_0,port=255"}) {
        subject.devargs = devargs;
        EXPECT_THAT(look("devargs"), Says(State::ok, devargs));
    }
}

/// Complaint: probing again fails with "File exists".
TEST_F(MachineTest, AnotherProcessOnTheDevice) {
    subject.node = "/dev/infiniband/uverbs0";
    EXPECT_THAT(look("in-use"), Says(State::ok, "no process in sight"));
    write("/proc/4711/comm", "dpdk-testpmd");
    write("/proc/4711/maps", "");
    fs::create_directories(root / "proc/4711/fd");
    fs::create_symlink("/dev/null", root / "proc/4711/fd/0");
    EXPECT_THAT(look("in-use"), Says(State::ok, "no process in sight"));
    fs::create_symlink("/dev/infiniband/uverbs0", root / "proc/4711/fd/17");
    EXPECT_THAT(look("in-use"), Says(State::warning, "open in dpdk-testpmd (pid 4711)"));
    EXPECT_THAT(look("in-use"), Says(State::warning, "\"File exists\""));
}

TEST_F(MachineTest, DpdksOwnDriver) {
    add_device("mlx5_0", "0000:ca:00.0", "eth2");
    subject.plugin_folder = kFolder;
    EXPECT_THAT(look("dpdk-driver"), Says(State::ok, "net_mlx5 is not installed"));
    write(std::string(kFolder) + "/librte_net_mlx5.so.23", "");
    EXPECT_THAT(look("dpdk-driver"), Says(State::ok, "--no-pci, -b 0000:ca:00.0"));
    subject.dpdk_ports = {"net_rawqp0 (pid 7)", "0000:ca:00.01 (pid 7)"};
    EXPECT_THAT(look("dpdk-driver"), Says(State::ok, "no program uses it"));
    subject.dpdk_ports.emplace_back("0000:ca:00.0 (pid 8)");
    EXPECT_THAT(look("dpdk-driver"), Says(State::warning, "DPDK port 0000:ca:00.0 (pid 8)"));
}

TEST_F(MachineTest, LibrariesOfRdmaCore) {
    EXPECT_THAT(look("libibverbs"), Says(State::ok, "libibverbs.so.1"));
    EXPECT_TRUE(subject.api.has_value());
    const auto load = [this](const char* ibverbs, const char* mlx5) {
        subject.api.reset();
        subject.libraries = {.ibverbs = ibverbs, .mlx5 = mlx5};
        return look("libibverbs");
    };
    EXPECT_THAT(load("libno-such-verbs.so.1", "libmlx5.so.1"),
                Says(State::broken, "libno-such-verbs.so.1 cannot be loaded"));
    EXPECT_THAT(load("libm.so.6", "libmlx5.so.1"), Says(State::broken, "has no function ibv_"));
    EXPECT_THAT(load("libibverbs.so.1", "libno-such-provider.so.1"),
                Says(State::warning, "libno-such-provider.so.1 is missing"));
}

TEST_F(MachineTest, SecondaryProcesses) {
    EXPECT_THAT(look("secondary"), Says(State::warning, "export XDG_RUNTIME_DIR"));
    setenv("XDG_RUNTIME_DIR", "/run/me", 1);
    fs::create_directories(root / "run/me");
    fs::create_directories(root / "var/run");
    EXPECT_THAT(look("secondary"), Says(State::warning, "no hugepages"));
    write("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512");
    EXPECT_THAT(look("secondary"), Says(State::ok, "is writable"));
    setenv("RUNTIME_DIRECTORY", "/run/service", 1); // EAL looks at it first
    EXPECT_THAT(look("secondary"), Says(State::warning, "/run/service is not writable"));
    unsetenv("RUNTIME_DIRECTORY");
    unsetenv("XDG_RUNTIME_DIR");
}

} // namespace
} // namespace diagnosis::test
