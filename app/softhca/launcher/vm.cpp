// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/launcher/vm.hpp"

#include "app/softhca/launcher/options.hpp"
#include "app/softhca/launcher/process.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace softhca::launcher {

int become_vm(const char* const* arguments) {
    namespace fs = std::filesystem;
    const auto here = own_folder();
    if (!here) {
        fmt::print(stderr, "softhca: {}\n", here.error().what);
        return kExitNoSetup;
    }
    const std::array<fs::path, 2> candidates = {
        *here / "vm/softhca-vm", *here / ".." / SOFTHCA_DATADIR / "softhca/softhca-vm"};
    for (const fs::path& candidate : candidates) {
        if (access(candidate.c_str(), R_OK) < 0) continue;
        // Not by PATH: the distribution's Python is the version that is tested.
        std::vector<std::string> command = {"/usr/bin/python3", fs::weakly_canonical(candidate)};
        for (; *arguments; ++arguments)
            command.emplace_back(*arguments);
        std::vector<char*> argv;
        argv.reserve(command.size() + 1);
        for (std::string& word : command)
            argv.push_back(word.data());
        argv.push_back(nullptr);
        execv(argv[0], argv.data());
        fmt::print(stderr, "softhca: cannot run {} ({}); `softhca vm` needs python3\n", argv[0],
                   std::strerror(errno));
        return kExitNoSetup;
    }
    fmt::print(stderr, "softhca: {} is missing; build or install softhca anew\n",
               candidates.back().string());
    return kExitNoSetup;
}

} // namespace softhca::launcher
