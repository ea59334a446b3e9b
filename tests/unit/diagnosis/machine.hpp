// SPDX-License-Identifier: BSD-3-Clause
// Machines with broken set-ups, as file trees in a folder.
#pragma once

#include "common/diagnosis/checks.hpp"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace diagnosis::test {

namespace fs = std::filesystem;

/// Matches the state and a part of the texts of a verdict.
MATCHER_P2(Says, state, words, std::string(name_of(state)) + " and says \"" + words + '"') {
    const std::string all = arg.evidence + " | " + arg.cause + " | " + arg.remedy;
    *result_listener << name_of(arg.state) << ": " << all;
    return arg.state == state && all.find(words) != std::string::npos;
}

/// Has no network card until one is added.
class MachineTest : public testing::Test {
  protected:
    MachineTest() {
        std::string pattern = (fs::temp_directory_path() / "rawqp-machine-XXXXXX").string();
        root = mkdtemp(pattern.data());
        subject.host = Host(root.string());
    }
    ~MachineTest() override { fs::remove_all(root); }

    void write(const std::string& path, const std::string& text) {
        const fs::path file = root / path.substr(1);
        fs::create_directories(file.parent_path());
        std::ofstream(file) << text << '\n';
    }
    /// A link whose target is also below the root.
    void link(const std::string& path, const std::string& target) {
        const fs::path file = root / path.substr(1);
        fs::create_directories(file.parent_path());
        fs::create_directories(root / target.substr(1));
        fs::create_directory_symlink(root / target.substr(1), file);
    }
    /// A PCI function of a ConnectX; without a driver if `driver` is empty.
    void add_function(const std::string& address, const std::string& driver,
                      const std::string& vendor = "0x15b3") {
        const std::string folder = "/sys/bus/pci/devices/" + address;
        write(folder + "/vendor", vendor);
        write(folder + "/class", "0x020000");
        if (!driver.empty()) link(folder + "/driver", "/sys/bus/pci/drivers/" + driver);
    }
    /// A ConnectX device with an interface and a node, all in order.
    void add_device(const std::string& name, const std::string& address, const std::string& netdev,
                    const std::string& uverbs = "uverbs0") {
        const std::string function = "/sys/bus/pci/devices/" + address;
        add_function(address, "mlx5_core");
        link("/sys/class/infiniband/" + name + "/device", function);
        write("/sys/class/infiniband/" + name + "/ports/1/state", "4: ACTIVE");
        write("/sys/class/infiniband/" + name + "/ports/1/gid_attrs/ndevs/0", netdev);
        write("/sys/class/infiniband_verbs/abi_version", "6");
        write("/sys/class/infiniband_verbs/" + uverbs + "/ibdev", name);
        write("/sys/class/infiniband_verbs/" + uverbs + "/dev", "231:192");
        write("/dev/infiniband/" + uverbs, "");
        write("/sys/class/net/" + netdev + "/mtu", "1500");
        link("/sys/class/net/" + netdev + "/device", function);
        subject.device = name;
    }
    void add_process(const std::string& capabilities, const std::string& memlock = "unlimited") {
        write("/proc/thread-self/status", "Name:\tx\nCapEff:\t" + capabilities);
        write("/proc/self/limits", "Limit   Soft Limit  Hard Limit  Units\nMax locked memory    " +
                                       memlock + "    unlimited    bytes");
        write("/proc/self/uid_map", "0 0 4294967295");
    }
    /// The verdict of the check with this id in the chain.
    Verdict look(std::string_view id) {
        for (const Check& check : chain())
            if (check.id == id) return check.look(subject);
        ADD_FAILURE() << "there is no check " << id;
        return {};
    }

    fs::path root;
    Case subject;
};

} // namespace diagnosis::test
