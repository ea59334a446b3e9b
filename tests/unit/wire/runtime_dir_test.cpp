// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/launcher/runtime_dir.hpp"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

using softhca::launcher::RuntimeDir;

/// A launcher that makes its folder and ends. The exit status tells what went wrong.
int launch() {
    const pid_t launcher = fork();
    if (launcher == 0) {
        int status = 1;
        if (const auto made = RuntimeDir::create())
            status = access((made->path() + "/lock").c_str(), F_OK) < 0 ? 2 : 0;
        _exit(status);
    }
    int status = 0;
    waitpid(launcher, &status, 0);
    return WEXITSTATUS(status);
}

/// Each looks for what dead ones have left, and so at the folders that others are just making.
TEST(RuntimeDir, LaunchersThatStartTogetherLeaveEachOtherAlone) {
    std::string folder = std::filesystem::temp_directory_path() / "runtime-dir-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    std::vector<pid_t> series;
    for (int i = 0; i < 4; i++) {
        series.push_back(fork());
        if (series.back() != 0) continue;
        setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
        int status = 0;
        for (int start = 0; start < 200 && status == 0; start++)
            status = launch();
        _exit(status);
    }
    for (const pid_t one : series) {
        int status = 0;
        ASSERT_EQ(waitpid(one, &status, 0), one);
        EXPECT_NE(WEXITSTATUS(status), 1) << "it could not start";
        EXPECT_NE(WEXITSTATUS(status), 2) << "its folder was removed";
    }
    std::filesystem::remove_all(folder);
}

} // namespace
